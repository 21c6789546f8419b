package memory

import (
	"iter"
	"testing"
	"time"

	"xmsched/compute"
)

// world is a device, its tasks and a policy of equal turns on a virtual clock.
// It is made for arithmetic: what a plan of targets comes to, with the copies,
// the stops and the credits that the real ones have, and nothing else.
type world struct {
	planner *Planner
	now     time.Duration
	slice   time.Duration
	link    Rate
	drop    Rate // of what goes out without a copy, as its bytes did not change; 0: all is copied
	tasks   []*program
	turn    int           // whose
	turns   int           // that have passed
	used    time.Duration // of it
	over    time.Duration // by which it is prolonged
	prompt  bool          // turns end on time, whatever the planner says

	decision Decision
	decide   bool
	held     time.Duration // in which nobody ran
	most     Bytes         // of committed memory
}

// program is a task as the world sees it: its memory moves batch by batch while
// it is stopped.
type program struct {
	id               compute.TaskID
	size, touches    Bytes
	resident, loaded Bytes // device memory, and what of it has its bytes
	target           Bytes
	want             uint32
	hold             bool
	stopping         time.Duration // until when stopping takes; 0: it is not asked to
	outLeft          Bytes         // of the batch that goes out
	batch            Bytes         // that came in last, or comes in
	done             float64       // seconds of work, as in memory
	in, out          Bytes
	running, stopped bool
}

const (
	tick = 250 * time.Microsecond
	// stopTime is what it takes to stop a task at any instruction (H200: 1.2 to
	// 2.2 ms on an idle GPU).
	stopTime = 2 * time.Millisecond
	// hbm is how much faster than over the link a kernel reads device memory.
	hbm = 80
)

func newWorld(t *testing.T, c Config, slice time.Duration, n int, size, touches Bytes) *world {
	t.Helper()
	p, err := NewPlanner(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{planner: p, slice: slice, link: p.Config().Link, decide: true}
	for i := range n {
		w.tasks = append(w.tasks, &program{id: compute.TaskID(i + 1), size: size, touches: touches})
	}
	return w
}

// timeline is what a policy of turns would say.
func (w *world) timeline() iter.Seq[compute.Slot] {
	return func(yield func(compute.Slot) bool) {
		at := w.now
		for i := range w.tasks {
			length := w.slice
			if i == 0 {
				length += w.over - w.used
			}
			if !yield(compute.Slot{Task: w.tasks[(w.turn+i)%len(w.tasks)].id, Start: at, Length: length}) {
				return
			}
			at += length
		}
	}
}

func (w *world) step() {
	if w.decide || w.decision.Next != 0 && w.now >= w.decision.Next {
		w.plan()
	}
	w.move()
	w.run()
	w.now += tick
}

func (w *world) plan() {
	var claims []Claim
	for _, p := range w.tasks {
		loading := Bytes(0)
		if p.loaded < p.resident {
			loading = p.batch // it is there when all of it is
		}
		claims = append(claims, Claim{
			Task: p.id, Footprint: p.size, Working: p.touches, Resident: p.resident, Loading: loading, Seen: p.want,
			Ready: true, Open: p.running, Stopped: p.stopped,
		})
	}
	w.decision, w.decide = w.planner.Decide(w.now, w.timeline(), nil, claims), false
	w.most = max(w.most, w.decision.Committed)
	for i, t := range w.decision.Targets {
		p := w.tasks[i]
		p.target, p.want, p.hold = t.Bytes, t.Want, t.Hold
		if i == w.turn && !w.prompt {
			w.over += max(t.Overtime, -w.over)
		}
	}
	for i, p := range w.tasks {
		may := i == w.turn && !p.hold
		switch {
		case may:
			p.stopping, p.stopped, p.running = 0, false, true
		case p.running:
			p.running, p.stopping = false, w.now+stopTime
		}
	}
}

// move lets every stopped task move one batch each way at most, sharing the link, also
// with the one that runs if some of its memory is not there.
func (w *world) move() {
	outs, ins := 0, 0
	for i, p := range w.tasks {
		if !p.running && !p.stopped && w.now >= p.stopping {
			p.stopped, w.decide = true, true
		}
		if !p.stopped || i == w.turn && !p.hold {
			continue
		}
		if p.outLeft == 0 && p.target < p.resident {
			p.outLeft = min(BatchBytes, p.resident-p.target)
		}
		room := min(p.target, p.size) - p.resident
		if p.loaded == p.resident && (room >= BatchBytes || room > 0 && room == p.size-p.resident) {
			p.batch = min(room, BatchBytes)
			p.resident += p.batch
			w.decide = true
		}
		if p.outLeft > 0 {
			outs++
		}
		if p.loaded < p.resident && p.outLeft == 0 {
			ins++
		}
	}
	if p := w.tasks[w.turn]; p.running && p.loaded < p.touches {
		ins++
	}
	for i, p := range w.tasks {
		if !p.stopped || i == w.turn && !p.hold {
			continue
		}
		if p.outLeft > 0 {
			rate := w.drop.Over(tick)
			if w.drop == 0 {
				rate = w.link.Over(tick) / Bytes(outs)
			}
			moved := min(p.outLeft, rate)
			p.out += moved
			if p.outLeft -= moved; p.outLeft == 0 {
				gone := min(BatchBytes, p.resident-min(p.target, p.resident))
				p.resident -= gone
				p.loaded = min(p.loaded, p.resident)
				w.decide = true
			}
		} else if p.loaded < p.resident {
			moved := min(p.resident-p.loaded, w.link.Over(tick)/Bytes(max(ins, 1)))
			p.in += moved
			if p.loaded += moved; p.loaded == p.resident {
				w.decide = true
			}
		}
	}
}

// run lets the task whose turn it is work, slower by what it has to read over
// the link, and ends its turn.
func (w *world) run() {
	p := w.tasks[w.turn]
	if !p.running {
		w.held += tick
		return
	}
	missing := float64(max(0, p.touches-p.loaded)) / float64(p.touches)
	p.done += tick.Seconds() / (1 + missing*(hbm-1))
	if w.used += tick; w.used >= w.slice+w.over {
		w.used, w.over, w.turn, w.decide = 0, 0, (w.turn+1)%len(w.tasks), true
		w.turns++
	}
}

// share lets the world run for so many turns, after it has found its rhythm, and
// says which part of the work was done that the same tasks do in memory.
func (w *world) share(turns int) (share float64, moved Bytes) {
	w.pass(3 * len(w.tasks))
	start, done, in := w.now, 0.0, Bytes(0)
	for _, p := range w.tasks {
		done, in = done-p.done, in-p.in
	}
	w.pass(turns)
	for _, p := range w.tasks {
		done, in = done+p.done, in+p.in
	}
	return done / (w.now - start).Seconds(), in
}

// pass lets so many turns pass.
func (w *world) pass(turns int) {
	for end := w.turns + turns; w.turns < end; {
		w.step()
	}
}

// ideal is what double buffering comes to at best: n tasks that each touch size
// in their turn, room for two of them, nothing lost. See TestOversubscription.
func ideal(n int, slice, load time.Duration) float64 {
	q, l := slice.Seconds(), load.Seconds()
	if q >= l {
		return 1
	}
	// In loads of one task: a turn moves q/l. At a turn's end the next has z, the
	// n-2 others share what the running one leaves, 1-z; the turn itself brings
	// one of them from its share to z.
	z := (q/l*float64(n-2) + 1) / float64(n-1)
	return q / (q + (1-z)*l)
}

// TestTurnsLastUntilTheNextIsThere: a turn that is shorter than a load goes on while the
// next task's memory comes in, so that the device is at work all the time but for the
// stops, and no turn is longer than it takes to load, to stop and to make room.
func TestTurnsLastUntilTheNextIsThere(t *testing.T) {
	load := LinkRate.Time(8 * GiB)
	for _, slice := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond} {
		for _, n := range []int{3, 4, 6} {
			w := newWorld(t, Config{Budget: 16 * GiB, Mode: Predict}, slice, n, 8*GiB, 8*GiB)
			w.pass(3 * n)
			start, done := w.now, 0.0
			for _, p := range w.tasks {
				done -= p.done
			}
			w.pass(4 * n)
			for _, p := range w.tasks {
				done += p.done
			}
			turn := (w.now - start) / time.Duration(4*n)
			share := done / (w.now - start).Seconds()
			t.Logf("slice %v, %d tasks: %.1f %% of in memory, turns of %v", slice, n, 100*share, turn.Round(time.Millisecond))
			if longest := max(slice, load) + load/8; share < .94 || turn > longest || w.most > 16*GiB {
				t.Errorf("slice %v, %d tasks: %.1f %%, want 94; turns of %v, want at most %v; %s committed", slice, n, 100*share, turn, longest, w.most)
			}
		}
	}
}

// TestOvertimeEnds: a turn does not last for memory that does not come.
func TestOvertimeEnds(t *testing.T) {
	const slice = 50 * time.Millisecond
	p, err := NewPlanner(Config{Budget: 16 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	claims := []Claim{
		{Task: 1, Footprint: 8 * GiB, Resident: 8 * GiB, Ready: true, Open: true},
		{Task: 2, Footprint: 8 * GiB, Ready: true, Stopped: true},
	}
	over := time.Duration(0)
	now := time.Duration(0)
	for ; now < slice+over; now += time.Millisecond {
		if now > 2*time.Second {
			t.Fatalf("a turn of %v lasts for %v", slice, now)
		}
		if int(now/time.Millisecond)%80 == 0 { // a little, now and then, so that it looks alive
			claims[1].Resident += Granularity
		}
		timeline := func(yield func(compute.Slot) bool) {
			_ = yield(compute.Slot{Task: 1, Start: now, Length: slice + over - now}) &&
				yield(compute.Slot{Task: 2, Start: slice + over, Length: slice})
		}
		d := p.Decide(now, timeline, nil, claims)
		claims[1].Seen = d.Targets[1].Want
		over += max(d.Targets[0].Overtime, -over)
	}
	if most := slice + 2*LinkRate.Time(8*GiB); now < 2*slice || now > most {
		t.Errorf("the turn lasted for %v, want at most %v", now, most)
	}
}

// TestOversubscription predicts issue 5's curve where turns end on time: tasks of 8 GiB
// that read all of it at every step, a budget of 16 GiB. The bounds are arithmetic, for a load of
// 169 ms: with r of its memory kept by every task that is not next, z of the next
// one's in at the end of a turn, (n-2)r = 1-z and z-r = q/load. A plain swap
// moves a whole load between two turns, a serial one two. The floors of the issue
// are for the real device, and lower.
func TestOversubscription(t *testing.T) {
	load := LinkRate.Time(8 * GiB)
	floors := map[time.Duration][3]float64{
		time.Second: {.95, .95, .95}, 250 * time.Millisecond: {.90, .90, .90},
		100 * time.Millisecond: {.62, .57, .53}, 50 * time.Millisecond: {.38, .33, .29},
	}
	for _, slice := range []time.Duration{50, 100, 250, 1000, 4000} {
		slice *= time.Millisecond
		for i, n := range []int{3, 4, 6} {
			shares := map[Mode]float64{}
			for _, mode := range []Mode{Allocation, Swap, Serial} {
				w := newWorld(t, Config{Budget: 16 * GiB, Mode: mode}, slice, n, 8*GiB, 8*GiB)
				w.prompt = true
				var moved Bytes
				shares[mode], moved = w.share(2 * n)
				if w.most > 16*GiB {
					t.Errorf("%v, %d tasks, %s: %s committed", slice, n, mode, w.most)
				}
				t.Logf("slice %v, %d tasks, %-10s %5.1f %% of in memory, %s moved in, nobody ran %v",
					slice, n, mode, 100*shares[mode], moved, w.held.Round(time.Millisecond))
			}
			q, l := slice.Seconds(), load.Seconds()
			best := ideal(n, slice, load)
			if got := shares[Allocation]; got > best+.01 || got < .9*best-.01 || got < floors[slice][i] {
				t.Errorf("slice %v, %d tasks: %.1f %%, want close to %.1f %%, at least %.0f %%", slice, n, 100*got, 100*best, 100*floors[slice][i])
			}
			if got, want := shares[Swap], q/(q+l); got > want+.01 || got < .93*want-.01 {
				t.Errorf("slice %v, %d tasks: swap %.1f %%, want close to %.1f %%", slice, n, 100*got, 100*want)
			}
			if got, want := shares[Serial], q/(q+2*l); got > want+.01 || got < .93*want-.01 {
				t.Errorf("slice %v, %d tasks: serial swap %.1f %%, want close to %.1f %%", slice, n, 100*got, 100*want)
			}
			if slice == 100*time.Millisecond && shares[Allocation] < 2*shares[Serial] {
				t.Errorf("%d tasks: %.1f %%, not twice the serial swap's %.1f %%", n, 100*shares[Allocation], 100*shares[Serial])
			}
		}
	}
}

// TestOversubscriptionOfCleanMemory: what did not change goes out in no time, and is to
// go no sooner for that than what comes in has use for the room: what is left of a task
// by its next turn need not come in.
func TestOversubscriptionOfCleanMemory(t *testing.T) {
	load := LinkRate.Time(8 * GiB)
	for _, slice := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond} {
		for _, n := range []int{3, 4, 6} {
			w := newWorld(t, Config{Budget: 16 * GiB, Mode: Predict}, slice, n, 8*GiB, 8*GiB)
			w.drop, w.prompt = 450e9, true
			got, moved := w.share(2 * n)
			best := ideal(n, slice, load)
			t.Logf("slice %v, %d tasks: %.1f %% of in memory, %.1f %% at best, %s moved in, nobody ran %v",
				slice, n, 100*got, 100*best, moved, w.held.Round(time.Millisecond))
			if got < .88*best || w.most > 16*GiB {
				t.Errorf("slice %v, %d tasks: %.1f %%, want close to %.1f %%; %s committed", slice, n, 100*got, 100*best, w.most)
			}
		}
	}
}

// TestSparseTasks touch a tenth of their memory in a turn: planned by what they
// touch all of it stays, swapped as a whole every turn costs a whole load.
func TestSparseTasks(t *testing.T) {
	slice := 20 * time.Millisecond
	shares, moved := map[Mode]float64{}, map[Mode]Bytes{}
	for _, mode := range []Mode{Predict, Allocation, Swap} {
		w := newWorld(t, Config{Budget: 16 * GiB, Mode: mode}, slice, 6, 8*GiB, 8*GiB/10)
		shares[mode], moved[mode] = w.share(24)
		t.Logf("%s: %.1f %%, %s moved in", mode, 100*shares[mode], moved[mode])
	}
	if 3*moved[Predict] > moved[Allocation] {
		t.Errorf("%v moved in: nothing is to move for memory that is not touched", moved)
	}
	if shares[Predict] < .95 || shares[Predict] < 8*shares[Swap] {
		t.Errorf("%v: want the speed of memory, and eight times a whole swap's", shares)
	}
}

// TestRoomIsNotLeft: what room there is beside what is touched is filled, by those who
// are stopped, and then nothing moves any more.
func TestRoomIsNotLeft(t *testing.T) {
	w := newWorld(t, Config{Budget: 16 * GiB, Mode: Predict}, 10*time.Millisecond, 3, 8*GiB, GiB)
	w.pass(200)
	resident := Bytes(0)
	for _, p := range w.tasks {
		resident += p.resident
	}
	if resident < 16*GiB-BatchBytes {
		t.Errorf("%s on a device of 16 GiB, of 24", resident)
	}
	before := w.tasks[0].in + w.tasks[1].in + w.tasks[2].in
	w.pass(200)
	if after := w.tasks[0].in + w.tasks[1].in + w.tasks[2].in; after != before || w.most > 16*GiB {
		t.Errorf("%s moved in though all that is touched is there; %s committed", after-before, w.most)
	}
}

// TestRealOversubscription predicts the large cases: three tasks of 60 GiB
// at 2 s, two of 90 GiB at 4 s, in what an H200 leaves.
func TestRealOversubscription(t *testing.T) {
	budget := DeviceBudget(143771*MiB, 3*GiB)
	for _, c := range []struct {
		n     int
		size  Bytes
		slice time.Duration
		least float64
	}{{3, 60 * GiB, 2 * time.Second, .90}, {2, 90 * GiB, 4 * time.Second, .75}} {
		w := newWorld(t, Config{Budget: budget, Mode: Allocation}, c.slice, c.n, c.size, c.size)
		share, moved := w.share(2 * c.n)
		t.Logf("%d x %s in %s: %.1f %%, %s moved in", c.n, c.size, budget, 100*share, moved)
		if share < c.least || w.most > budget {
			t.Errorf("%d x %s: %.1f %%, want %.0f %%; %s committed", c.n, c.size, 100*share, 100*c.least, w.most)
		}
	}
}

// TestChosenQuantum: with turns as long as the planner asks for, tasks that do
// not fit together run as if they did, whatever their sizes, and nobody waits for
// longer than allowed.
func TestChosenQuantum(t *testing.T) {
	for _, c := range []struct {
		n            int
		size, budget Bytes
	}{{3, 8 * GiB, 16 * GiB}, {6, 8 * GiB, 16 * GiB}, {4, 2 * GiB, 5 * GiB}, {3, 60 * GiB, 135 * GiB}} {
		w := newWorld(t, Config{Budget: c.budget, Mode: Allocation}, 5*time.Millisecond, c.n, c.size, c.size)
		w.step()
		w.slice = w.decision.Targets[0].Quantum
		if wait := w.slice * time.Duration(c.n-1); wait > DefaultWaitCap {
			t.Errorf("%d x %s: a task waits for %v", c.n, c.size, wait)
		}
		share, _ := w.share(3 * c.n)
		t.Logf("%d x %s in %s: turns of %v, %.1f %%", c.n, c.size, c.budget, w.slice, 100*share)
		if share < .95 {
			t.Errorf("%d x %s in %s: turns of %v, %.1f %%", c.n, c.size, c.budget, w.slice, 100*share)
		}
	}
}
