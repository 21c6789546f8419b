package compute

import (
	"cmp"
	"slices"
	"time"
)

// gang is all tasks of one gang: they run on all their devices or on none.
//
// A gang waits on one device at a time, its anchor; the deciders of the others
// see it idle and serve somebody else. Once the anchor's decider lets it run it
// is summoned on the others, and when all let it, it runs. The first that
// refuses, now or when its turn there is used up, is the new anchor. Where
// gangs stand in each other's way the one that has waited longer goes before
// (see [Seniority]), so that none of them waits for ever and no two wait for
// each other.
type gang struct {
	name    string
	serial  uint64
	parties []*party // by device
	members TaskID   // parties that it ever had

	ready      int           // members with work, on all devices
	readySince time.Duration // when the first of them turned ready
	since      time.Duration // start of the present wait
	anchor     *party        // nil: no work
	called     bool          // it is summoned everywhere, or runs
	runs       bool
	awake      bool // something changed
}

// Seniority orders gangs that want the same device: the smaller goes first. The
// zero value is not a gang's.
type Seniority struct {
	Since  time.Duration // start of the wait
	Serial uint64        // of the gang, from 1 on
}

// IsGang says whether it is a gang's.
func (a Seniority) IsGang() bool { return a.Serial != 0 }

// Before says whether a has waited longer.
func (a Seniority) Before(b Seniority) bool {
	return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Serial, b.Serial)) < 0
}

func (g *gang) add(p *party) {
	i, _ := slices.BinarySearchFunc(g.parties, p, func(a, b *party) int { return cmp.Compare(a.device.name, b.device.name) })
	g.parties = slices.Insert(g.parties, i, p)
	p.gang = g
}

// remove takes a party off that has no members any more.
func (g *gang) remove(p *party) {
	g.parties = slices.DeleteFunc(g.parties, func(x *party) bool { return x == p })
	if g.anchor == p {
		g.rest()
	}
}

// rest has the gang seen idle everywhere; the next step begins anew.
func (g *gang) rest() {
	g.anchor, g.called, g.runs = nil, false, false
	for _, p := range g.parties {
		p.show(false, false)
	}
}

// step takes the gang on by what the deciders have said. Precondition: none of
// them has to be asked.
func (g *gang) step(now time.Duration) {
	switch {
	case g.ready == 0:
		g.rest()
	case g.anchor == nil:
		g.readySince, g.since = now, now
		g.wait(g.parties[slices.IndexFunc(g.parties, func(p *party) bool { return p.ready > 0 })])
	case !g.called && g.anchor.verdict.Open:
		g.called = true
		for _, p := range g.parties {
			if p != g.anchor {
				p.show(true, true)
			}
		}
		g.runs = len(g.parties) == 1
	case g.called:
		i := slices.IndexFunc(g.parties, func(p *party) bool { return !p.verdict.Open })
		if i < 0 {
			g.runs = true
			return
		}
		if g.runs {
			g.since = now // it had its turn
		}
		g.wait(g.parties[i])
	}
}

// wait makes p the anchor.
func (g *gang) wait(p *party) {
	g.anchor, g.called, g.runs = p, false, false
	for _, other := range g.parties {
		other.show(other == p, false)
	}
}

// newcomer has a party that joined a gang in the middle asked as well.
func (g *gang) newcomer(p *party) {
	if g.called {
		p.show(true, true)
	}
}

// open says whether the gang's gates are to be open: those of all or of none.
func (g *gang) open() bool {
	for _, p := range g.parties {
		if !p.allowed() {
			return false
		}
	}
	return true
}

// mode is Top or Free only where it is on all devices.
func (g *gang) mode() Mode {
	mode := Free
	for _, p := range g.parties {
		m := p.device.ownMode(p)
		if m == Bounded {
			return Bounded
		}
		mode = max(mode, m)
	}
	return mode
}

// show is what the decider is to see of a gang's party from now on.
func (p *party) show(shown, summoned bool) {
	if p.shown == shown && p.summoned == summoned {
		return
	}
	p.shown, p.summoned = shown, summoned
	p.device.domain.change(p)
}
