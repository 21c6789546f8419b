package plane

import (
	"slices"

	"xmsched/compute"
)

// restATurn is how many verdicts on tasks without work are carried out in one turn: some
// 10 us. With many tasks all of them together would keep an edge waiting for a tenth of a
// millisecond and more.
const restATurn = 16

// rest is a verdict that is not carried out yet.
type rest struct {
	waits bool
	open  bool
	mode  compute.Mode
}

// later has the verdicts of grants carried out a few a turn. A task that turns out to
// have work has its own at once; see hasten.
func (p *Plane) later(grants []compute.Grant) {
	if len(grants) <= restATurn && len(p.rests) == 0 {
		p.carryOut(grants)
		return
	}
	p.newcomers = p.newcomers[:0]
	for _, g := range grants {
		switch st := p.seat(g); {
		case st == nil:
		case !st.known:
			p.newcomers = append(p.newcomers, g)
		default:
			if !st.rest.waits {
				p.rests = append(p.rests, st)
			}
			st.rest = rest{true, g.Open, g.Mode}
		}
	}
	if len(p.newcomers) > 0 {
		p.carryOut(p.newcomers)
	}
}

// carryRest carries out the verdicts that have waited longest.
func (p *Plane) carryRest() {
	if len(p.rests) == 0 {
		return
	}
	n := 0
	for n < len(p.rests) && len(p.dueRests) < restATurn {
		p.dueRests = append(p.dueRests, p.rests[n])
		n++
	}
	p.rests = slices.Delete(p.rests, 0, n)
	p.carryDue()
	p.wake()
}

// hasten has a seat's verdict carried out in this turn, if one waits.
func (p *Plane) hasten(st *seat) {
	if st.rest.waits {
		p.dropRest(st)
		st.rest.waits = true
		p.dueRests = append(p.dueRests, st)
	}
}

// dropRest forgets the verdict of a seat that waits: a newer one came, or it left.
func (p *Plane) dropRest(st *seat) {
	if !st.rest.waits {
		return
	}
	st.rest.waits = false
	same := func(x *seat) bool { return x == st }
	p.rests = slices.DeleteFunc(p.rests, same)
	p.dueRests = slices.DeleteFunc(p.dueRests, same)
}

// carryDue carries out the verdicts whose turn it is.
func (p *Plane) carryDue() {
	for _, st := range p.dueRests {
		st.rest.waits = false
		p.takeIn(st, st.rest.open, st.rest.mode)
	}
	if len(p.touched) > 0 {
		p.settle()
	}
	for _, st := range p.dueRests {
		p.carry(st)
	}
	clear(p.dueRests)
	p.dueRests = p.dueRests[:0]
}
