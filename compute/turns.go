package compute

import (
	"iter"
	"time"
)

// turns is the decider of the policies that let one task run at a time: whose
// turn it is runs, and all other gates are closed; while nobody has work all are
// open. Who turns idle ends its turn at once. A turn lasts on while nobody
// waits, and then ends as soon as somebody does, if its time is used up.
//
// The device is of use to nobody while it turns from one task to another. That
// comes on top of a turn and is not charged, or else those of small shares, whose
// turns are short, would lose the larger part of them.
//
// What differs among these policies, who is next and for how long, is an order.
type turns struct {
	order   order
	tasks   map[TaskID]*turner
	holder  *turner       // whose turn it is
	end     time.Duration // of the turn; 0: open
	length  time.Duration // of the turn when it began, without the switch
	charged time.Duration // until then the holder has been charged

	cost   time.Duration // of a switch
	unused time.Duration // what is left of that at the beginning of the turn
	last   *turner       // who had the device last

	// Those whose turn was cut short, by a gang or as they could not use it, which go on
	// before anybody else; those who still cannot; and gangs that want their turn now.
	cut    queue[turner]
	stood  queue[turner]
	called queue[turner]

	free     bool // nobody has work
	verdicts []Verdict
}

// order is a policy of turns: it holds the tasks that wait, and knows of the
// others only what it is told. See [plainOrder] for what most leave out.
type order interface {
	// wait takes in a task that has work and not the turn; woke says that it had
	// no work before, else its turn has ended.
	wait(t *turner, now time.Duration, woke bool)
	// leave lets go of a task that waits.
	leave(t *turner)
	// next is who has to have the turn at now, or nil. It stays in.
	next(now time.Duration) *turner
	// empty says that nobody waits.
	empty() bool
	// turn is how long a task's turn lasts that begins now; 0 is without end.
	turn(t *turner, now time.Duration) time.Duration
	// follow yields those that wait in the order of their turns, as far as that
	// can be foreseen, if h runs on for left, until end.
	follow(h *turner, left, end time.Duration) iter.Seq[*turner]

	// add is told of a new task, before anything else of it.
	add(t *turner)
	// update takes in changed hints, also of a task that waits; so does charge.
	update(t *turner, hints turnHints)
	// forget is told of a task's end; it does not wait.
	forget(t *turner)
	// wakes and sleeps tell of work, before a task is first put anywhere and
	// after it was taken away.
	wakes(t *turner, now time.Duration)
	sleeps(t *turner, now time.Duration)
	// charge books that a task ran; corrections may be negative.
	charge(t *turner, ran time.Duration)
	// tick tells the time, at every decision; h, which may be nil, has the turn.
	tick(h *turner, now time.Duration)
	// overtakes says whether h's turn has to end at once for one that waits.
	overtakes(h *turner) bool
	// due is when next or overtakes will say something else though nothing
	// happened; 0 for never.
	due(h *turner) time.Duration
	// hurries says that somebody woke for whom the holder's turn, which has begun, is
	// too long. It is as long then as turn says now.
	hurries() bool
	// wholes says that turns of long commands are of whole ones; see turner.whole.
	wholes() bool
	// capped says that a turn ends when its time is used up though nobody waits.
	capped() bool
}

// plainOrder is what an order has to say that heeds neither weights nor time.
type plainOrder struct{}

func (plainOrder) update(t *turner, h turnHints) { t.hints = h }
func (plainOrder) add(*turner)                   {}
func (plainOrder) forget(*turner)                {}
func (plainOrder) wakes(*turner, time.Duration)  {}
func (plainOrder) sleeps(*turner, time.Duration) {}
func (plainOrder) charge(*turner, time.Duration) {}
func (plainOrder) tick(*turner, time.Duration)   {}
func (plainOrder) overtakes(*turner) bool        { return false }
func (plainOrder) due(*turner) time.Duration     { return 0 }
func (plainOrder) hurries() bool                 { return false }
func (plainOrder) wholes() bool                  { return false }
func (plainOrder) capped() bool                  { return false }

// turner is a task in a policy of turns.
//
// Invariant: a task with work is at one place: it has the turn, it is in cut, stood or
// called, or it waits in the order.
type turner struct {
	id        TaskID
	hints     turnHints
	seniority Seniority

	at      place
	ran     time.Duration // booked so far
	late    time.Duration // that its turns began, as far as they were prolonged for it
	command time.Duration // length of its commands, if they are long
	left    time.Duration // of a turn that was cut; 0: without end
	stands  bool          // it cannot use a turn
	link    link[turner]  // in cut, stood, called, or the order's

	// Of the orders.
	index  int           // in a heap
	weight int64         // of a share
	clock  int64         // virtual time
	level  int           // of MLFQ
	used   time.Duration // of the allotment there
	slept  time.Duration // that has not lifted it yet
	from   time.Duration // since when it waits, or sleeps
}

// turnHints are the hints that orders read.
type turnHints struct {
	quantum     time.Duration
	priority    int
	weight      int
	utilization int
}

type place uint8

const (
	away    place = iota // no work
	waiting              // in the order
	running              // has the turn
	cut
	stood
	called
)

func newTurns(o order) *turns {
	return &turns{order: o, tasks: map[TaskID]*turner{}, free: true}
}

func (r *turns) Decide(s Snapshot) Decision {
	r.verdicts = r.verdicts[:0]
	before, wasFree := r.holder, r.free
	r.cost = s.Switch
	r.book(s.Now)
	for _, id := range s.Gone {
		if t, ok := r.tasks[id]; ok {
			r.put(t, away, s.Now)
			r.order.forget(t)
			delete(r.tasks, id)
		}
	}
	for i := range s.Changed {
		r.update(&s.Changed[i], s.Now)
	}
	r.hand(s.Now)

	if r.free = r.holder == nil && !r.waits(); r.free != wasFree {
		for _, t := range r.tasks { // from everybody may to one may, or back
			r.judge(t)
		}
		return Decision{Verdicts: r.verdicts, Next: r.next()}
	}
	for i := range s.Changed {
		r.judge(r.tasks[s.Changed[i].Task])
	}
	if before != r.holder {
		if before != nil && r.tasks[before.id] == before {
			r.judge(before)
		}
		if r.holder != nil {
			r.judge(r.holder)
		}
	}
	return Decision{Verdicts: r.verdicts, Next: r.next()}
}

// book charges the holder until now.
func (r *turns) book(now time.Duration) {
	if h := r.holder; h != nil {
		ran := now - r.charged
		h.ran += ran
		r.order.charge(h, ran-r.switched(ran))
	}
	r.charged = now
	r.order.tick(r.holder, now)
}

// switched is how much of what the holder ran was the switch to it. It is no more
// than half: else a task of requests that are shorter than a switch would have them
// for nothing.
func (r *turns) switched(ran time.Duration) time.Duration {
	part := min(ran/2, r.unused)
	r.unused -= part
	return part
}

func (r *turns) update(s *TaskState, now time.Duration) {
	t, ok := r.tasks[s.Task]
	if !ok {
		t = &turner{id: s.Task, ran: s.RunTime, late: s.Late}
		t.link.owner = t
		r.tasks[s.Task] = t
		r.order.add(t)
	}
	hints := turnHints{s.Hints.Quantum, s.Hints.Priority, s.Hints.Weight, s.Hints.Utilization}
	if !ok || hints != t.hints {
		before := r.order.turn(t, now)
		r.order.update(t, hints)
		switch after := r.order.turn(t, now); {
		case before == 0 || after == 0:
		case t == r.holder:
			r.end += after - before
			r.length += after - before
		case t.left != 0:
			t.left = max(t.left+after-before, 1)
		}
	}
	if t.command = 0; r.order.wholes() {
		t.command = s.Command
	}
	if wrong := s.RunTime - t.ran; wrong != 0 {
		// It ran otherwise than by its turns: past their end, or as somebody that
		// ran waited for it.
		t.ran = s.RunTime
		r.order.charge(t, wrong)
	}
	if late := s.Late - t.late; late != 0 {
		if t.late = s.Late; t == r.holder && r.end != 0 {
			r.end += late
		}
	}
	t.seniority, t.stands = s.Seniority, s.Stands
	switch {
	case !s.Ready:
		r.put(t, away, now)
	case s.Summoned && t.at != running:
		r.put(t, called, now)
	case t.at == away || t.at == called && !s.Summoned:
		r.put(t, waiting, now)
	case t.at == stood && !t.stands:
		r.put(t, cut, now)
	}
}

// put moves a task to another place. The turn is given and taken by hand.
func (r *turns) put(t *turner, to place, now time.Duration) {
	if t.at == to {
		return
	}
	from := t.at
	switch from {
	case away:
		r.order.wakes(t, now)
	case waiting:
		r.order.leave(t)
	case running:
		r.holder = nil
	case cut, stood, called:
		t.link.unlink()
	}
	t.at = to
	switch to {
	case away:
		r.order.sleeps(t, now)
	case waiting:
		r.order.wait(t, now, from == away)
	case running:
		r.holder = t
	case cut:
		r.cut.pushFirst(&t.link)
	case stood:
		r.stood.push(&t.link)
	case called:
		r.called.push(&t.link)
	}
}

// hand passes the turn on if it is free, or used up with somebody waiting, or
// if somebody goes before.
func (r *turns) hand(now time.Duration) {
	if r.order.hurries() {
		r.shorten(now)
	}
	var on *turner // whose turn ends now
	if h := r.holder; h != nil {
		over := r.end != 0 && now >= r.end && (r.order.capped() || r.waits())
		// A gang keeps its turn to the end: it was hard to come by.
		if over || !h.seniority.IsGang() && r.order.overtakes(h) {
			r.put(h, waiting, now)
			on = h
		}
	}
	if g := r.oldestCalled(); g != nil {
		if r.holder != nil {
			r.interrupt(cut, now)
		}
		r.begin(g, g.whole(r.order.turn(g, now), false), now)
		return
	}
	if h := r.holder; h != nil && h.stands && !h.seniority.IsGang() && r.waits() {
		r.interrupt(stood, now)
	}
	if r.holder != nil {
		return
	}
	if t := r.cut.first(); t != nil {
		r.begin(t, t.left, now)
	} else if t := r.order.next(now); t != nil {
		r.begin(t, t.whole(r.order.turn(t, now), t == on), now)
	} else if t := r.stood.first(); t != nil {
		r.begin(t, t.left, now)
	}
}

// interrupt takes the turn from who has it, who is to have the rest of it later.
func (r *turns) interrupt(to place, now time.Duration) {
	h := r.holder
	if h.left = 0; r.end != 0 {
		h.left = max(r.end-now-r.unused, 1)
	}
	r.put(h, to, now)
}

// begin gives a task the turn.
func (r *turns) begin(t *turner, length, now time.Duration) {
	r.put(t, running, now)
	t.left = 0
	if r.last != t {
		r.last, r.unused = t, r.cost
	}
	r.end, r.length = 0, length
	if length != 0 {
		r.end = now + length + r.unused
	}
}

// whole is the length of a turn that comes to whole commands: it ends in the middle of
// the last, which goes on. If one ended just as the turn does, nobody could tell whether
// another has begun: the task would be charged for one that it has not had, or have one
// for nothing, and where commands come to whole turns (5 ms) that is so every time. A
// task that goes on from its last turn begins in the middle of a command.
func (t *turner) whole(length time.Duration, on bool) time.Duration {
	if t.command <= 0 || length < t.command/2 {
		return length
	}
	whole := (length + t.command/2) / t.command * t.command
	if !on {
		whole -= t.command / 2
	}
	return whole
}

// shorten ends the present turn as if it had begun with the length that it would
// have now, if that is less.
func (r *turns) shorten(now time.Duration) {
	if r.holder == nil || r.end == 0 {
		return
	}
	if less := r.length - r.order.turn(r.holder, now); less > 0 {
		r.end -= less
		r.length -= less
	}
}

// oldestCalled is the gang that has to have the turn now, or nil.
func (r *turns) oldestCalled() *turner {
	var oldest *turner
	for t := range r.called.all() {
		if oldest == nil || t.seniority.Before(oldest.seniority) {
			oldest = t
		}
	}
	if oldest != nil && r.holder != nil && r.holder.seniority.IsGang() && r.holder.seniority.Before(oldest.seniority) {
		return nil
	}
	return oldest
}

// waits says whether anybody has work and not the turn.
func (r *turns) waits() bool {
	return !r.cut.empty() || !r.called.empty() || !r.order.empty()
}

// next is when the turn is used up, if somebody waits for that, or the order
// changes its mind.
func (r *turns) next() time.Duration {
	next := r.turnEnd()
	if due := r.order.due(r.holder); due != 0 && (next == 0 || due < next) {
		next = due
	}
	return next
}

// turnEnd is when the turn ends by itself; 0 if it lasts on.
func (r *turns) turnEnd() time.Duration {
	if r.holder == nil || r.end == 0 || !r.order.capped() && !r.waits() {
		return 0
	}
	return r.end
}

func (r *turns) judge(t *turner) {
	r.verdicts = append(r.verdicts, Verdict{Task: t.id, Open: r.free || r.holder == t, Mode: Bounded})
}

// Plan has one round: what is left of the present turn and those of the tasks
// that wait, as far as they can be foreseen. A task that is alone runs
// open-ended; where others only stand its turn ends as it would if they waited.
func (r *turns) Plan(now time.Duration) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		if r.holder == nil {
			return
		}
		end := r.turnEnd()
		if end == 0 && r.end != 0 && !r.stood.empty() {
			end = max(r.end, now+1)
		}
		if end == 0 {
			yield(Slot{Task: r.holder.id, Start: now})
			return
		}
		if !yield(Slot{Task: r.holder.id, Start: now, Length: end - now}) {
			return
		}
		for _, rests := range [...]*queue[turner]{&r.stood, &r.cut} {
			for t := range rests.all() {
				if !yield(r.slot(t, end, t.left)) || t.left == 0 {
					return
				}
				end += t.left + r.cost
			}
		}
		for t := range r.order.follow(r.holder, max(end-r.charged-r.unused, 0), end) {
			length := t.whole(r.order.turn(t, end), false)
			if !yield(r.slot(t, end, length)) || length == 0 {
				return
			}
			end += length + r.cost
		}
	}
}

// slot is a turn to come, with the switch to it.
func (r *turns) slot(t *turner, start, length time.Duration) Slot {
	if length != 0 {
		length += r.cost
	}
	return Slot{Task: t.id, Start: start, Length: length}
}
