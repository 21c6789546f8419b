package compute

import (
	"cmp"
	"slices"
	"time"
)

// seat is one task on one device.
type seat struct {
	task   *task
	device *device
	party  *party // nil while the task is not to run

	ready      bool
	readySince time.Duration
	period     time.Duration // between ready edges, smoothed; 0 if not known
	steady     bool          // the last one was about as long

	open  bool
	told  Grant
	known bool // told says what the caller knows

	command time.Duration // length of its commands; 0: not known, or short
	stands  bool          // it cannot use the device

	ran   time.Duration // until since, corrected by Overran
	since time.Duration // start of the present run, if running

	touched, gone bool
}

// party is what a decider sees as one task: the seats of a device that run and
// stop together. Most have one member.
type party struct {
	id      TaskID // as the decider knows it
	key     partyKey
	device  *device
	gang    *gang   // nil: none
	members []*seat // by task; never empty
	one     [1]*seat

	ready      int // members with work
	readySince time.Duration

	// What a gang shows of it to the decider; see gang.
	shown, summoned bool

	verdict Verdict
	let     link[party] // while the verdict is open
	open    bool        // what came of the verdict
	running link[party]
	began   time.Duration // the present run, if linked
	closed  time.Duration // when the gate closed last
	opened  time.Duration // when it opened last
	told    time.Duration // until then overruns have been told
	ran     time.Duration // until since, of all members together
	late    time.Duration // what its turns began too late, and were prolonged by
	since   time.Duration

	floor floorState

	changed, touched, gone bool
}

// partyKey is what joins seats of a device; only one field is set.
type partyKey struct {
	gang    string
	process uint64
	task    TaskID
}

// Ids of parties that are not a single task on a device of its own.
const (
	joint     TaskID = 1 << 63
	jointGang TaskID = 1<<63 | 1<<62
)

// hints are those of the member with the smallest id, in a gang of all its
// devices: they count for all.
func (p *party) hints() *Hints {
	first := p.members[0].task
	if p.gang != nil {
		for _, other := range p.gang.parties {
			if len(other.members) > 0 && other.members[0].task.id < first.id {
				first = other.members[0].task
			}
		}
	}
	return &first.hints
}

func (p *party) add(s *seat) {
	i, _ := slices.BinarySearchFunc(p.members, s, func(a, b *seat) int { return cmp.Compare(a.task.id, b.task.id) })
	p.members = slices.Insert(p.members, i, s)
	s.party = p
}

// busy says whether the decider is to see work.
func (p *party) busy() bool {
	if p.gang != nil {
		return p.shown
	}
	return p.ready > 0
}

// state is what the decider sees.
func (p *party) state(now time.Duration) TaskState {
	p.account(now)
	first := p.members[0]
	state := TaskState{
		Task: p.id, Device: p.device.name, Hints: *p.hints(), CPUPriority: first.task.cpu,
		Ready: p.busy(), ReadySince: p.readySince,
		Open: p.open, Mode: p.device.mode(first), RunTime: p.ran, Late: p.late,
	}
	if len(p.members) == 1 {
		state.Command, state.Stands = first.command, first.stands
	}
	for _, m := range p.members[1:] {
		state.CPUPriority = max(state.CPUPriority, m.task.cpu)
	}
	if g := p.gang; g != nil {
		for _, other := range g.parties {
			for _, m := range other.members {
				state.CPUPriority = max(state.CPUPriority, m.task.cpu)
			}
		}
		state.ReadySince = g.readySince
		state.Summoned, state.Seniority = p.summoned, Seniority{g.since, g.serial}
	}
	return state
}

// account charges the time since the last look, if the party was running.
func (p *party) account(now time.Duration) {
	if p.running.linked() {
		p.ran += now - p.since
	}
	p.since = now
}

// settle has the accounts follow whether it runs from now on.
func (p *party) settle(now time.Duration, open bool) {
	p.account(now)
	if p.open != open {
		if p.open = open; open {
			p.opened = now
		} else {
			p.closed = now
		}
	}
	switch runs := open && p.ready > 0 && !p.gone; {
	case runs && !p.running.linked():
		p.device.running.push(&p.running)
		p.began = now
	case !runs && p.running.linked():
		p.running.unlink()
		p.device.past.add(run{p, p.began, now})
	}
}

// account charges the time since the last look, if the task was running.
func (s *seat) account(now time.Duration) {
	if s.ready && s.open {
		s.ran += now - s.since
	}
	s.since = now
}

// state is the task as it stands on the device.
func (s *seat) state(now time.Duration) TaskState {
	s.account(now)
	return TaskState{
		Task: s.task.id, Device: s.device.name, Hints: s.task.hints, CPUPriority: s.task.cpu,
		Ready: s.ready, ReadySince: s.readySince,
		Open: s.open, Mode: s.device.mode(s), RunTime: max(s.ran, 0),
	}
}

// expect learns the period of a task that turns ready now. The weight of 1/4
// follows a new rhythm within a few periods and lets one outlier pass. Where the last gap is
// not like those before, as at both ends of a burst, there is nothing to judge by.
func (s *seat) expect(now time.Duration) {
	if s.readySince == 0 {
		return
	}
	gap := now - s.readySince
	if s.period == 0 {
		s.period, s.steady = gap, true
		return
	}
	s.steady = gap <= 2*s.period && s.period <= 2*gap
	s.period += (gap - s.period) / 4
}
