package plane

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	"xmsched/compute"
	"xmsched/memory"
)

// planMemory decides on the memory of the devices where that is due: after the
// scheduler has answered, as it is its timeline that counts, and before its answer is
// carried out, so that nobody is let go for a moment whose memory is not there.
func (p *Plane) planMemory(answered bool) {
	for _, d := range p.list {
		m := d.mem
		if m.planner == nil {
			continue
		}
		due := m.touched || m.next != 0 && m.next <= p.now || m.stops != 0 && m.stops <= p.now || answered && m.short
		if !due {
			continue
		}
		m.touched = false
		tight := d.tight()
		if p.mem.awaits {
			p.freeze(d)
			p.settleMemory(d, tight)
			p.mem.host.touched = true
			continue
		}
		p.claims(d)
		p.floors(d)
		end := p.shift(d)
		m.decided = m.planner.Decide(p.now, p.timeline(d), p.expected(d), m.claims)
		m.next = m.decided.Next
		m.again(end)
		for _, s := range m.of {
			if s != nil && s.mem.floor > 0 && s.mem.making > p.now {
				m.again(s.mem.making)
			}
		}
		m.short = m.decided.Oversubscribed || m.decided.Over > 0
		p.assign(d)
		p.lengthen(d)
		p.settleMemory(d, tight)
		p.mem.host.touched = true
	}
	p.shareHost()
}

// again has it be decided anew at a time; 0: never.
func (m *deviceMemory) again(at time.Duration) {
	if at != 0 && (m.next == 0 || at < m.next) {
		m.next = at
	}
}

// claims lists what the processes of a device claim, and what those have of which
// nothing is seen any more.
func (p *Plane) claims(d *device) {
	m := d.mem
	m.claims, m.of = m.claims[:0], m.of[:0]
	ranks := p.sched.Policy().Traits().Strict
	for _, st := range d.seats {
		rank := 0
		if ranks {
			rank = st.task.hints.Priority
		}
		if st.ready > 0 {
			st.mem.worked = max(p.now, 1)
		}
		for _, s := range st.sections {
			if s.mem.surprises(p.now) {
				s.mem.key, s.mem.number = p.mem.newKey(), 0
			}
			m.claims = append(m.claims, s.claim(m.own, rank))
			m.of = append(m.of, s)
		}
	}
	for _, list := range p.mem.ghosts {
		for _, g := range list {
			if g.device == d.id {
				m.claims = append(m.claims, g.claim())
				m.of = append(m.of, nil)
			}
		}
	}
}

// floors works out by how much what is claimed exceeds the budget, and what cannot leave the
// device, as by that the host does not hold it.
func (p *Plane) floors(d *device) {
	m := d.mem
	m.excess = -m.planner.Config().Budget
	for _, c := range m.claims {
		m.excess += c.Footprint + c.Asked
	}
	m.careful, m.missed = d.ranked(p.now) && !d.presses(), d.missed()
	crowded := false
	for i, s := range m.of {
		if s != nil {
			s.mem.floor = s.hostFloor(p.now)
			m.claims[i].Pinned += s.mem.floor
			crowded = crowded || s.mem.floor > 0
		}
	}
	m.planner.SetHasty(crowded) // the host is divided by what is to go there
}

// lateAllocations is how long after a target was lowered an allocation may turn up that
// had begun under it.
const lateAllocations = time.Second

// surprises says whether a client came to have more than it was given, and may: it has
// not taken note of its first answer yet, before which nothing bounds it; or an
// allocation ended that had begun under a higher target. The planner is to believe it
// then, as it does one that it sees for the first time, or the same bytes would be given
// twice. A target that was not taken note of yet is the planner's own reason to believe.
func (m *sectionMemory) surprises(now time.Duration) bool {
	resident := memory.Bytes(m.view.Resident)
	grew := resident > m.claimed && resident > m.aim
	m.claimed = resident
	switch {
	case m.word == 0 || !grew:
		return false
	case m.view.Did == 0:
		return true
	}
	return m.view.Did == m.word && resident <= m.peak && now-m.peakAt < lateAllocations
}

// claim is what a section's client claims, in the planner's words.
func (s *section) claim(own memory.Bytes, rank int) memory.Claim {
	m, st := s.mem, s.seat
	pinned := memory.Bytes(m.view.Pinned) + own
	m.fixed = pinned
	c := memory.Claim{
		Task: m.key, Rank: rank, Seen: m.number - 1,
		Footprint: memory.Bytes(m.view.Allocated) + pinned,
		Resident:  memory.Bytes(m.view.Resident) + pinned,
		Loading:   memory.Bytes(m.view.Loading),
		Pinned:    pinned, // see floors
		Asked:     memory.Bytes(m.view.Asked),
		Slice:     st.task.hints.Quantum,
		Exchange:  memory.Bytes(m.view.Exchange),
		Ready:     st.ready > 0, Open: st.runs(), Stopped: s.memoryStopped(),
	}
	if m.view.Working > 0 {
		c.Working = memory.Bytes(m.view.Working) + pinned
	}
	if m.limit > 0 {
		c.Limit = m.limit + own
	}
	switch {
	case m.exact && m.view.Did == m.word || m.word == 0:
		c.Seen = m.number
	case m.view.Did == m.word:
		c.May = memory.Bytes(m.stored.Target) + pinned
	}
	if m.frozen { // it may have that by now
		c.Resident = max(c.Resident, m.aim+pinned)
		c.Footprint = max(c.Footprint, c.Resident)
	}
	return c
}

// need is how much memory a task wants on the device to run that can leave it again:
// what its next turn touches, where that is foretold and counts.
func (d *device) need(st *seat) (n memory.Bytes) {
	for _, s := range st.sections {
		if v := &s.mem.view; v.State.Movable() {
			n += max(0, s.touches()+memory.Bytes(v.Asked)-s.mem.floor)
		}
	}
	return n
}

// touches is what a section's next turn touches: all that it has, unless less is foretold
// and that counts.
func (s *section) touches() memory.Bytes {
	v := &s.mem.view
	if v.Working > 0 && s.seat.device.mem.planner.Config().Mode == memory.Predict {
		return memory.Bytes(v.Working)
	}
	return memory.Bytes(v.Allocated)
}

// shift has those whose turn it is take turns if they do not fit together.
func (p *Plane) shift(d *device) (end time.Duration) {
	budget := d.mem.planner.Config().Budget
	room := budget
	for _, c := range d.mem.claims {
		room -= c.Pinned
	}
	d.mem.near = d.mem.short || d.mem.excess > -budget/4 && len(d.seats) > 1
	h := &d.mem.shifts
	h.length = compute.DefaultQuantum
	for _, t := range d.mem.decided.Targets {
		h.length = max(h.length, t.Quantum)
	}
	if h.head != nil && h.head.task.hints.Quantum != 0 {
		h.length = h.head.task.hints.Quantum
	}
	end = h.arrange(p.now, p.due(d), room, d.need)
	for _, st := range d.seats {
		if waits := slices.Contains(h.waiting, st); waits != st.mem.waits {
			st.mem.waits = waits
			p.mem.changed = append(p.mem.changed, st)
		}
	}
	return end
}

// due are the tasks whose turn it is by the policy.
func (p *Plane) due(d *device) (due []*seat) {
	n := 0
	for slot := range p.sched.Timeline(d.id) {
		if n++; n > 4*len(d.seats) { // a round is over by then
			break
		}
		st := p.seat(compute.Grant{Task: slot.Task, Device: d.id})
		if st != nil && slot.Start <= p.now && !slices.Contains(due, st) {
			due = append(due, st)
		}
	}
	return due
}

// timeline is the scheduler's, by sections, and with the shifts in it.
func (p *Plane) timeline(d *device) iter.Seq[compute.Slot] {
	return func(yield func(compute.Slot) bool) {
		for slot := range p.sched.Timeline(d.id) {
			st := p.seat(compute.Grant{Task: slot.Task, Device: d.id})
			if st == nil {
				continue
			}
			if st.mem.waits {
				slot.Start = d.mem.shifts.start(st, p.now)
			}
			for _, s := range st.sections {
				slot.Task = s.mem.key
				if !yield(slot) {
					return
				}
			}
		}
	}
}

// expected is what the scheduler expects of the tasks that are not on the timeline,
// by sections. Those that somebody of a higher class keeps out are in the order of their
// shifts, or the memory of another than whose shift it is would come in meanwhile.
func (p *Plane) expected(d *device) (list []compute.Expectation) {
	type expectation struct {
		compute.Expectation
		of *seat
	}
	var all []expectation
	for _, e := range p.sched.Expected(d.id) {
		if st := p.seat(compute.Grant{Task: e.Task, Device: d.id}); st != nil {
			all = append(all, expectation{e, st})
		}
	}
	slices.SortStableFunc(all, func(a, b expectation) int {
		return cmp.Or(-cmp.Compare(a.Keep, b.Keep), compareWaiting(a.of, b.of))
	})
	for _, e := range all {
		for _, s := range e.of.sections {
			e.Task = s.mem.key
			list = append(list, e.Expectation)
		}
	}
	return list
}

// assign takes the planner's targets in, as far as the host has room for what they
// want evicted, and says who is to be Stopped for that.
func (p *Plane) assign(d *device) {
	m := d.mem
	m.evicting = false
	room := p.mem.host.look(p, d)
	for i, t := range m.decided.Targets {
		s := m.of[i]
		if s == nil {
			continue
		}
		s.mem.target, s.mem.number = t, t.Want
		s.mem.aim = max(0, t.Bytes-s.mem.fixed)
		s.mem.exact, s.mem.frozen = true, false
		s.mem.host.planned = s.mem.host.part
		out := max(0, min(memory.Bytes(s.mem.view.Resident), m.planner.Config().Budget)-s.mem.aim)
		if s.mem.wantsOut = out; s.mem.aim <= s.mem.floor && (!m.careful || m.missed > 0) {
			s.mem.wantsOut += s.mem.floor // more might go if there were room for it
		}
		if s.mem.wantsOut == 0 || !p.mem.host.known && !s.process.host.bounded {
			continue
		}
		if allowed := min(out, p.mem.host.takes(s, room).Down()); allowed < out {
			s.mem.aim += out - allowed
			s.mem.exact = false
			out = allowed
		}
		m.evicting = m.evicting || out < s.mem.wantsOut
		room -= out
	}
	m.stops = 0
	for _, st := range d.seats {
		held, able := false, true
		for _, s := range st.sections {
			if at := s.mem.stop.judge(st.mem.held, s.memoryStopped(), s.mem.hasToMove(), p.now); at != 0 && (m.stops == 0 || at < m.stops) {
				m.stops = at
			}
			held = held || s.movesMemory()
			able = able && s.mem.stop.until <= p.now
		}
		p.holdMemory(st, held && able)
		p.stands(st)
		p.mem.changed = append(p.mem.changed, st)
	}
}

// hasToMove says whether a client that is Stopped has anything to do.
func (m *sectionMemory) hasToMove() bool {
	resident := memory.Bytes(m.view.Resident)
	return resident > m.aim || resident+memory.Granularity <= m.aim && m.view.Host > 0 || memory.Bytes(m.view.Exchange) >= memory.BatchBytes
}

// movesMemory says whether a section is to be Stopped for its memory, and can be.
func (s *section) movesMemory() bool {
	m := s.mem
	stuck := m.target.Move == memory.Out && memory.Bytes(m.view.Resident) <= m.aim
	return m.target.Hold && !stuck && m.view.State.Movable()
}

// stands has others run while a task exchanges memory in its turn, and the task go on with
// its turn after that.
func (p *Plane) stands(st *seat) {
	m := &st.mem
	yields := slices.ContainsFunc(st.sections, func(s *section) bool { return s.mem.target.Yield })
	if on := m.held && yields; on != m.stands {
		m.stands = on
		p.events = append(p.events, compute.Stands{Task: st.id, Device: st.device.id, On: on})
	}
}

// holdMemory notes that a task is to be Stopped for its memory, or no more, and what
// that takes of its turn.
func (p *Plane) holdMemory(st *seat, held bool) {
	m := &st.mem
	m.rests = (m.rests || m.held) && !held && !st.mayGo() && st.memoryGone()
	m.held = held
	if !held {
		for _, s := range st.sections {
			s.mem.timing.out.end() // it may run now
		}
	}
	late := held && st.open && st.ready > 0
	switch {
	case late && m.since == 0:
		m.since = max(p.now, 1)
	case !late && m.since != 0:
		m.lost += p.now - m.since
		m.since = 0
	}
	if !st.open || st.ready == 0 {
		m.lost = 0
	}
}

// lostTurn is how much of its turn a task stands still for its memory, as far as is
// known now.
func (st *seat) lostTurn(now time.Duration) time.Duration {
	if st.mem.since == 0 {
		return st.mem.lost
	}
	wait := time.Duration(0)
	for _, s := range st.sections {
		wait = max(wait, s.mem.target.Wait)
	}
	return (st.stoodStill(now) + wait + quantumGrain - 1) / quantumGrain * quantumGrain
}

// stoodStill is how much of its turn a task stood still for its memory so far.
func (st *seat) stoodStill(now time.Duration) time.Duration {
	if st.mem.since == 0 {
		return st.mem.lost
	}
	return st.mem.lost + now - st.mem.since
}

// prolong has a task's turn last until the memory of the next one is there, and for as
// long again as it stood still for its own: turns of some policies are shorter than any
// load, and would be over before that came.
func (p *Plane) prolong(st *seat) {
	m := &st.mem
	if !st.open {
		m.over, m.back, m.free = 0, 0, 0
		return
	}
	more := time.Duration(math.MinInt64)
	for _, s := range st.sections {
		more = max(more, s.mem.target.Overtime)
	}
	if h := &st.device.mem.shifts; h.head == st && len(h.waiting) > 0 {
		p.prolongShift(st.device, more)
		return
	}
	more = max(more, -m.over).Truncate(quantumGrain)
	m.over += more
	lost := time.Duration(0)
	for _, other := range st.task.seats {
		lost = max(lost, other.lostTurn(p.now))
	}
	more += lost - m.back
	m.back = lost
	still := (st.stoodStill(p.now) - m.free).Truncate(quantumGrain)
	m.free += still
	if more != 0 || still != 0 {
		p.events = append(p.events, compute.Prolonged{Task: st.id, Device: st.device.id, By: more, Still: still})
	}
}

// prolongShift is prolong where shifts take the place of a policy's turns.
func (p *Plane) prolongShift(d *device, more time.Duration) {
	h := &d.mem.shifts
	over := &h.head.mem.shift.over
	more = max(more, -*over).Truncate(quantumGrain)
	*over += more
	if more < 0 {
		d.mem.again(p.now + max(h.left(), quantumGrain))
	}
}

// quantumGrain keeps the policy from hearing of every small change of a load time.
const quantumGrain = time.Millisecond

// lengthen tells the policy how long turns have to be so that they hide the moving of
// memory, gives back to a turn what it stood still for that, and has it go on while
// nobody else could.
func (p *Plane) lengthen(d *device) {
	for _, st := range d.seats {
		p.prolong(st)
		t := st.task
		st.mem.quantum = 0
		for _, s := range st.sections {
			q := s.mem.target.Quantum
			st.mem.quantum = max(st.mem.quantum, (q+quantumGrain-1)/quantumGrain*quantumGrain)
		}
		var turn time.Duration
		for _, other := range t.seats {
			turn = max(turn, other.mem.quantum)
		}
		turn = cmp.Or(t.hints.Quantum, turn)
		if turn != 0 {
			turn = min(max(turn, compute.MinQuantum), compute.MaxQuantum)
		}
		if turn == t.hints.Quantum {
			turn = 0
		}
		if turn != t.turn {
			t.turn = turn
			p.events = append(p.events, compute.HintsChanged{Task: st.id, Hints: t.policyHints()})
		}
	}
}

// policyHints are a task's hints as the policy is told them.
func (t *task) policyHints() compute.Hints {
	h := t.hints
	if t.turn != 0 {
		h.Quantum = t.turn
	}
	return h
}

// freeze lets everybody have what he has.
func (p *Plane) freeze(d *device) {
	d.mem.next = 0
	for _, st := range d.seats {
		for _, s := range st.sections {
			s.mem.aim, s.mem.exact, s.mem.frozen = memory.Bytes(s.mem.view.Resident), false, true
		}
		p.holdMemory(st, false)
		p.stands(st)
		st.mem.waits = false
		p.mem.changed = append(p.mem.changed, st)
	}
}
