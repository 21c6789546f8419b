package compute

import (
	"cmp"
	"slices"
	"time"
)

// domain is what one decider decides: a device, or under a policy of the whole
// machine all of them.
type domain struct {
	decider Decider
	parties map[TaskID]*party
	seats   int           // also of tasks that are not to run
	cost    time.Duration // of a switch
	next    time.Duration // the decider's timer; 0 for none

	// What the decider has not been told yet.
	changed []*party
	gone    []TaskID
	fresh   bool // the decider has seen nothing

	later bool // verdicts on parties without work are still to come

	replanned bool        // the timelines may have changed
	states    []TaskState // reused for snapshots
}

func newDomain(p Policy) *domain {
	return &domain{decider: p.Fresh(), parties: map[TaskID]*party{}, fresh: true, replanned: true}
}

func (m *domain) add(p *party) {
	m.parties[p.id] = p
	m.change(p)
}

func (m *domain) remove(p *party) {
	p.gone = true
	if p.let.linked() {
		p.let.unlink()
	}
	delete(m.parties, p.id)
	m.gone = append(m.gone, p.id)
}

// change has the decider told of a party.
func (m *domain) change(p *party) {
	if !p.changed {
		p.changed = true
		m.changed = append(m.changed, p)
	}
}

// stale says whether the decider has to be asked.
func (m *domain) stale(now time.Duration) bool {
	return m.fresh || m.later || m.next != 0 && m.next <= now || len(m.changed) > 0 || len(m.gone) > 0
}

// decide asks the decider and notes what it says; see Scheduler.settle for what
// comes of it. Verdicts on parties without work may be left for later.
func (m *domain) decide(now time.Duration, s *Scheduler, mayLeave bool) {
	var decision Decision
	if f, ok := m.decider.(firster); ok && mayLeave && !m.fresh {
		decision, m.later = f.DecideFirst(m.snapshot(now))
	} else {
		decision, m.later = m.decider.Decide(m.snapshot(now)), false
	}
	m.next = decision.Next
	m.replanned = true
	for _, v := range decision.Verdicts {
		if p, ok := m.parties[v.Task]; ok {
			if v.Open != p.verdict.Open {
				if v.Open {
					p.device.let.push(&p.let)
				} else {
					p.let.unlink()
				}
			}
			p.verdict = v
			s.touch(p)
			if p.gang != nil {
				s.wakeGang(p.gang)
			}
		}
	}
}

func (m *domain) snapshot(now time.Duration) Snapshot {
	if m.fresh {
		for _, p := range m.parties {
			m.change(p)
		}
		// Who has been ready longest comes first; never a map's order.
		slices.SortFunc(m.changed, func(a, b *party) int {
			return cmp.Or(cmp.Compare(a.readySince, b.readySince), cmp.Compare(a.device.name, b.device.name),
				cmp.Compare(a.first(), b.first()))
		})
		m.fresh = false
	}
	m.states = m.states[:0]
	for _, p := range m.changed {
		p.changed = false
		if !p.gone {
			m.states = append(m.states, p.state(now))
		}
	}
	snapshot := Snapshot{Now: now, Changed: m.states, Gone: m.gone, Switch: m.cost}
	clear(m.changed)
	m.changed, m.gone = m.changed[:0], m.gone[:0]
	return snapshot
}

// first is the task of the first member; 0 for a party that has nobody left.
func (p *party) first() TaskID {
	if len(p.members) == 0 {
		return 0
	}
	return p.members[0].task.id
}
