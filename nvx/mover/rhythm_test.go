package mover

import (
	"iter"
	"slices"
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/memory"
)

// An H200 in figures (h200.md, and bench/results/h200 of 2026-11-30): what moves, stops and
// looks take, and what they take from who runs beside.
const (
	rhythmLink = memory.Rate(46.7e9) // each way, both ways at once
	stopping   = 1300 * time.Microsecond
	resuming   = 1400 * time.Microsecond
	mapAlone   = 600 * time.Microsecond // a batch
	looking    = 150 * time.Microsecond // and the bytes
	lookRate   = memory.Rate(3e12)

	launchBytes = 4 * memory.GiB // that a launch looks at

	takesLook  = 400 * time.Microsecond // a launch
	takesIn    = 171 * time.Microsecond // a batch
	takesUnmap = 40 * time.Microsecond
	overLink   = 80 // how much slower memory of the host is read
)

// costs are those that others on the machine have a say in.
type costs struct {
	hearing   time.Duration // of a word, by the daemon or from it
	mapping   time.Duration // a batch, beside copies
	unmapping time.Duration // a batch
}

var usualCosts = costs{hearing: 150 * time.Microsecond, mapping: 2700 * time.Microsecond, unmapping: 400 * time.Microsecond}

// hall is a device whose tasks read all their memory, with the daemon's planner and a
// policy of equal turns, on a virtual clock.
type hall struct {
	costs
	planner *memory.Planner
	riders  []*rider
	now     time.Duration
	events  []event
	free    [directions]time.Duration // when the lane is
	flying  int
	written bool // all memory is, in each turn

	watch func(r *rider, ids []memory.ID, to memory.State) // nil: nobody does
	tells func(r *rider, target memory.Bytes)

	turn, turns int
	used        time.Duration
	over        time.Duration // by which the turn is prolonged
	runs        *rider
	since       time.Duration // it runs, as far as it is accounted for
	called      bool          // the daemon is to decide
	next        time.Duration
}

type event struct {
	at time.Duration
	do func()
}

func (h *hall) after(d time.Duration, do func()) {
	h.events = append(h.events, event{h.now + d, do})
}

func (h *hall) ring() { h.after(h.hearing, func() { h.called = true }) }

// take takes from who runs.
func (h *hall) take(d time.Duration) {
	if h.runs != nil {
		h.runs.done -= d
	}
}

// rider is a task with a section: its memory and its carrier, which is a coroutine.
type rider struct {
	hall  *hall
	id    compute.TaskID
	slice time.Duration
	list  []memory.Segment
	most  memory.Bytes // the target
	want  uint32
	told  uint32
	hold  bool
	still bool // stopped
	wants bool // its turn has come, and its memory
	stops bool // it is being stopped

	gives, moves bool
	landings     []landing
	rung         bool
	until        time.Duration // the coroutine sleeps; or wakes when rung
	hears        bool
	yield        func(struct{}) bool
	resume       func() (struct{}, bool)

	books  cleanBooks
	values []uint64      // of the segments
	done   time.Duration // of work
	in     memory.Bytes
	copied memory.Bytes // out
	plans  int
}

func (r *rider) ring() { r.hall.after(r.hall.hearing, func() { r.rung = true }) }

// pause lets time pass; hears: or until something is to be heard of.
func (r *rider) pause(d time.Duration, hears bool) {
	r.until, r.hears = r.hall.now+d, hears
	if !r.yield(struct{}{}) {
		panic(over{})
	}
}

// over ends a coroutine.
type over struct{}

func (r *rider) awake() bool {
	return r.hall.now >= r.until || r.hears && (r.rung || len(r.landings) > 0)
}

func (r *rider) figures() (f Figures, loading memory.Bytes) {
	for i := range r.list {
		switch s := &r.list[i]; s.State {
		case memory.Loading:
			loading += s.Bytes
			f.Resident += s.Bytes
		case memory.Device:
			f.Resident += s.Bytes
		default:
			f.Host += s.Bytes
		}
	}
	return f, loading
}

func (r *rider) set(ids []memory.ID, to memory.State) {
	for _, id := range ids {
		r.list[id-1].State, r.list[id-1].Kept = to, to == memory.Device
	}
	if r.hall.watch != nil {
		r.hall.watch(r, ids, to)
	}
	r.hall.ring()
}

func (r *rider) tell() {
	if r.told != r.want {
		r.told = r.want
		r.hall.ring()
	}
}

// live is what a section does.
func (r *rider) live(yield func(struct{}) bool) {
	r.yield = yield
	defer func() {
		if why := recover(); why != (over{}) {
			panic(why)
		}
	}()
	p, c := newPlanner(), carrier{world: r}
	for {
		r.rung = false
		r.tell()
		if f, _ := r.figures(); !r.still || r.wants || needs(f, r.most) == nothing {
			r.pause(time.Hour, true)
			continue
		}
		r.moves = true
		p.list = append(p.list[:0], r.list...)
		a, err := p.make(r.most, false)
		if err != nil {
			panic(err)
		}
		r.plans++
		b := &r.books
		b.begin()
		b.outward(p, func(memory.Segment) Written { return WrittenUnknown })
		r.look()
		b.compare()
		p.plan.Spare(&p.table, func(id memory.ID) bool { return b.same[id] })
		r.gives = len(p.plan.In) == 0
		o := c.carry(&p.table, &p.plan, a)
		r.gives = false
		r.learn(p)
		r.moves = false
		r.in, r.copied = r.in+o.In, r.copied+o.Out-o.Spared
		r.hall.ring()
		if o.Out+o.In == 0 {
			r.pause(soonest, false)
		}
	}
}

// look takes the digests of what is to be looked at, by launches, until somebody waits for
// the task.
func (r *rider) look() {
	b := &r.books
	for sum := memory.Bytes(0); len(b.digests) < len(b.look) && !r.wants; sum = 0 {
		for _, s := range b.look[len(b.digests):] {
			if sum += s.Bytes; sum > launchBytes {
				break
			}
			b.digests = append(b.digests, digest{lo: r.values[s.ID-1]})
		}
		r.hall.take(takesLook)
		r.pause(looking+lookRate.Time(min(sum, launchBytes)), false)
	}
}

// learn is what a section does after a move.
func (r *rider) learn(p *planner) {
	p.list = append(p.list[:0], r.list...)
	if err := p.table.Reset(p.list); err != nil {
		panic(err)
	}
	r.books.inward(p, r.hall.now)
	r.look()
	r.books.arrived()
	r.books.end(p.list)
}

// runs has the program run: what is not there it may write to where that is, and what is
// there it may.
func (r *rider) run() {
	for i := range r.list {
		if s := &r.list[i]; s.State != memory.Device {
			s.Version++
		}
		if r.hall.written {
			r.values[i]++
		}
	}
}

// --- the carrier's world -------------------------------------------------------

func (r *rider) do(s memory.Step) error {
	switch s.Act {
	case memory.Reserve:
		for _, id := range s.IDs {
			r.list[id-1].Kept = false
			r.list[id-1].Version++
		}
	case memory.Drop:
		r.hall.take(takesUnmap)
		r.pause(r.hall.unmapping, false)
		r.set(s.IDs, memory.Away)
	case memory.Restore:
		r.set(s.IDs, memory.Away)
	case memory.Commit:
		r.set(s.IDs, memory.Device)
	}
	return nil
}

func (r *rider) call(s memory.Step) {
	if s.Act == memory.Unmap {
		r.hall.take(takesUnmap)
		r.hall.after(r.hall.unmapping, func() {
			r.set(s.IDs, memory.Away)
			r.landings = append(r.landings, landing{call: true, step: s})
		})
		return
	}
	took := mapAlone
	if r.hall.flying > 0 {
		took = r.hall.mapping
	}
	r.set(s.IDs, memory.Loading)
	r.hall.after(took, func() { r.landings = append(r.landings, landing{call: true, step: s}) })
}

func (r *rider) fly(s memory.Step) error {
	h, w := r.hall, way(s.Act)
	h.free[w] = max(h.free[w], h.now) + rhythmLink.Time(s.Bytes)
	h.flying++
	h.after(h.free[w]-h.now, func() {
		if h.flying--; w == in {
			h.take(takesIn)
		}
		r.landings = append(r.landings, landing{way: w})
	})
	return nil
}

func (r *rider) await() (landing, bool) {
	if len(r.landings) == 0 {
		r.pause(time.Hour, true)
	}
	if len(r.landings) == 0 {
		r.rung = false
		return landing{}, false
	}
	l := r.landings[0]
	r.landings = r.landings[1:]
	return l, true
}

func (r *rider) linger(outward bool) bool {
	before := r.target()
	for end := r.hall.now + lingers; r.hall.now < end && !r.wanted(); {
		r.pause(lingerLooks, false)
		if t := r.target(); t != before {
			return t > before != outward
		}
	}
	return false
}

func (r *rider) wanted() bool { return r.wants }

func (r *rider) target() memory.Bytes {
	if r.gives {
		r.tell()
	}
	return r.most
}

// --- the daemon ----------------------------------------------------------------

func (h *hall) timeline() iter.Seq[compute.Slot] {
	return func(yield func(compute.Slot) bool) {
		at := h.now
		for i := range h.riders {
			r := h.riders[(h.turn+i)%len(h.riders)]
			length := r.slice
			if i == 0 {
				length = h.left()
			}
			if !yield(compute.Slot{Task: r.id, Start: at, Length: length}) {
				return
			}
			at += length
		}
	}
}

// left is what is left of the turn.
func (h *hall) left() time.Duration { return h.riders[h.turn].slice + h.over - h.used }

// account adds what the one that runs did, and ends its turn.
func (h *hall) account() {
	if r := h.runs; r != nil {
		f, loading := r.figures()
		missing := float64(f.Host+loading) / float64(f.Host+f.Resident)
		r.done += time.Duration(float64(h.now-h.since) / (1 + missing*(overLink-1)))
		h.used += h.now - h.since
	}
	h.since = h.now
	if h.left() <= 0 {
		h.used, h.over, h.turn, h.called = 0, 0, (h.turn+1)%len(h.riders), true
		h.turns++
	}
}

func (h *hall) decide() {
	h.called = false
	var claims []memory.Claim
	for _, r := range h.riders {
		f, loading := r.figures()
		claims = append(claims, memory.Claim{
			Task: r.id, Footprint: f.Resident + f.Host, Resident: f.Resident, Loading: loading, Seen: r.told,
			Ready: true, Open: h.runs == r, Stopped: r.still,
		})
	}
	d := h.planner.Decide(h.now, h.timeline(), nil, claims)
	h.next = d.Next
	for i, t := range d.Targets {
		r := h.riders[i]
		if r.hold = t.Hold; t.Want != r.want {
			if h.tells != nil {
				h.tells(r, t.Bytes)
			}
			r.most, r.want = t.Bytes, t.Want
			r.ring()
		}
		if i == h.turn {
			h.over += max(t.Overtime, -h.over)
		}
		h.steer(r, i == h.turn && !r.hold)
	}
}

// steer stops a task, or has it run.
func (h *hall) steer(r *rider, may bool) {
	switch {
	case !may && (h.runs == r || r.wants):
		if h.runs == r {
			h.runs = nil
		}
		if r.wants = false; r.still || r.stops {
			return
		}
		r.stops = true
		h.after(stopping, func() { r.still, r.stops = true, false; r.rung = true; h.ring() })
	case may && h.runs == nil && !r.wants && !r.stops:
		r.wants = true
		r.ring()
		h.start(r)
	}
}

// start lets a task run once its move has ended.
func (h *hall) start(r *rider) {
	h.after(resuming, func() {
		switch {
		case !r.wants:
		case r.moves:
			h.start(r)
		default:
			h.account()
			r.wants, r.still, h.runs = false, false, r
			r.run()
			h.ring()
		}
	})
}

// pass lets so many turns pass.
func (h *hall) pass(t *testing.T, turns int) {
	for end := h.turns + turns; h.turns < end; {
		if h.now > time.Minute {
			t.Fatalf("%d turns in a minute", h.turns)
		}
		h.account()
		if h.called || h.next != 0 && h.now >= h.next {
			h.decide()
		}
		for _, r := range h.riders {
			for n := 0; r.awake(); n++ {
				if n == 1000 {
					t.Fatal("a section does not rest")
				}
				r.resume()
			}
		}
		h.forward()
	}
}

// forward goes to the next moment at which something happens, and lets it.
func (h *hall) forward() {
	to := h.now + time.Hour
	if h.called {
		to = h.now
	}
	if h.runs != nil {
		to = min(to, h.now+h.left())
	}
	if h.next > h.now {
		to = min(to, h.next)
	}
	for _, r := range h.riders {
		to = min(to, max(r.until, h.now))
	}
	for _, e := range h.events {
		to = min(to, e.at)
	}
	h.account()
	h.now = max(h.now, to)
	h.account()
	var due []event
	h.events = slices.DeleteFunc(h.events, func(e event) bool {
		if e.at <= h.now {
			due = append(due, e)
		}
		return e.at <= h.now
	})
	slices.SortStableFunc(due, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range due {
		e.do()
	}
}

// total is what all tasks did by a time.
type total struct {
	at, done time.Duration
	in       memory.Bytes
	copied   memory.Bytes
	plans    int
}

func (h *hall) sum() total {
	s := total{at: h.now}
	for _, r := range h.riders {
		s.done, s.in, s.copied, s.plans = s.done+r.done, s.in+r.in, s.copied+r.copied, s.plans+r.plans
	}
	return s
}

func newHall(t *testing.T, n int, slice time.Duration) *hall {
	h := emptyHall(t, 16*memory.GiB+memory.Bytes(n)*4*memory.MiB)
	for range n {
		h.enter(t, 8*memory.GiB, slice)
	}
	return h
}

func emptyHall(t *testing.T, budget memory.Bytes) *hall {
	p, err := memory.NewPlanner(memory.Config{Budget: budget, Link: rhythmLink})
	if err != nil {
		t.Fatal(err)
	}
	return &hall{costs: usualCosts, planner: p, called: true}
}

// enter has one more task take turns.
func (h *hall) enter(t *testing.T, size memory.Bytes, slice time.Duration) *rider {
	r := &rider{hall: h, id: compute.TaskID(len(h.riders) + 1), slice: slice, still: true, books: newCleanBooks()}
	for at := memory.Bytes(0); at < size; at += memory.PieceBytes {
		r.list = append(r.list, memory.Segment{
			ID: memory.ID(len(r.list) + 1), Allocation: 1, Address: 1<<40 + uint64(at), Bytes: min(memory.PieceBytes, size-at), State: memory.Away,
		})
	}
	r.values = make([]uint64, len(r.list))
	next, stop := iter.Pull(r.live)
	r.resume = next
	t.Cleanup(stop)
	h.riders = append(h.riders, r)
	return r
}

// TestRhythm has tasks of 8 GiB on 16 take short turns, as the row oversub does, on an
// H200's figures: carriers, moves, plans and the planner are what they are there. They
// keep the link at work, bring in little that could have stayed, look at what is clean once a
// turn, and copy out nothing of what they only read two rounds after they had filled it.
func TestRhythm(t *testing.T) {
	for _, c := range []struct {
		n       int
		slice   time.Duration
		written bool
		least   float64 // of the work that they do in memory, in percent
	}{
		{3, 50 * time.Millisecond, false, 88}, {4, 50 * time.Millisecond, false, 88}, {6, 50 * time.Millisecond, false, 88},
		{3, 100 * time.Millisecond, false, 88}, {4, 100 * time.Millisecond, false, 88}, {6, 100 * time.Millisecond, false, 88},
		{3, 250 * time.Millisecond, false, 93}, {6, 250 * time.Millisecond, false, 93},
		{3, 100 * time.Millisecond, true, 88}, {4, 100 * time.Millisecond, true, 88},
	} {
		h := newHall(t, c.n, c.slice)
		h.written = c.written
		written := h.written
		h.written = true // as it is filled
		h.pass(t, 3*c.n)
		h.written = written
		h.pass(t, 3*c.n)
		before, turns := h.sum(), 4*c.n
		h.pass(t, turns)
		after := h.sum()
		span := after.at - before.at
		share := 100 * float64(after.done-before.done) / float64(span)
		in, plans := after.in-before.in, float64(after.plans-before.plans)/float64(turns)
		copied := 100 * float64(after.copied-before.copied) / float64(in)
		t.Logf("turns of %v, %d tasks, written %t: %.1f %%, one each %v, %s in, %.1f GB/s, %.1f %% of that copied out, %.1f plans", c.slice, c.n, c.written,
			share, (span / time.Duration(turns)).Round(time.Millisecond), in/memory.Bytes(turns), float64(in)/1e9/span.Seconds(), copied, plans)
		if !c.written && copied > 5 {
			t.Errorf("turns of %v, %d tasks: %.1f %% of what came in was copied out, which nobody writes to", c.slice, c.n, copied)
		}
		if share < c.least || plans > 5 {
			t.Errorf("turns of %v, %d tasks, written %t: %.1f %%, want %.0f; %.1f plans a turn", c.slice, c.n, c.written, share, c.least, plans)
		}
	}
}
