package workloads

import (
	"fmt"
)

// RunPaged is the same program on managed memory, without us: it runs while it is
// told that its gate is open, piece by piece, and while it is closed sends as many of
// its pieces to the host as it is told to, those that it used longest ago. Faults
// bring them back. So a card without room for all programs is played on one with.
func RunPaged(st Steering, say *Speaker, t Touch) error {
	if err := t.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	managed, err := newManagedMemory(g, t.Bytes, t.Together)
	if err != nil {
		return err
	}
	m, err := newMassif(g, t, managed.allocate)
	if err != nil {
		return err
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	p := &paged{m: m, managed: managed, bytes: t.Piece}
	for i := range m.plan.pieces { // the filling used them in their order
		p.used = append(p.used, i)
	}
	began := MonotonicNS()
	if err := p.run(st, say); err != nil {
		return err
	}
	at := MonotonicNS()
	verified, wrong, err := m.check()
	if err != nil {
		return err
	}
	return say.Say(Event{Kind: KindResult, Count: p.done, BeganNS: began, AtNS: at, Verified: verified, Wrong: wrong})
}

// paged is the program's way through its steps.
type paged struct {
	m       *massif
	managed *managedMemory
	bytes   uint64 // of a piece
	done    uint64 // pieces gone over

	step    uint64
	left    []int // of the step, pieces that are still to be touched
	used    []int // pieces on the device, in the order of use, the latest last
	scratch []int
}

// run obeys until the end.
func (p *paged) run(st Steering, say *Speaker) error {
	for {
		select {
		case open := <-st.Gate:
			if !open {
				continue
			}
			if err := p.turn(st, say); err != nil {
				return err
			}
		case n := <-st.Evict:
			if err := p.evict(n); err != nil {
				return err
			}
			if err := say.Say(Event{Kind: KindGate, Count: p.done, AtNS: MonotonicNS()}); err != nil {
				return err
			}
		case <-st.Context.Done():
			return nil
		}
	}
}

// turn goes over pieces until the gate is closed, one after the other: the next is
// begun only when one has ended, so a turn is over soon after it is told to be.
func (p *paged) turn(st Steering, say *Speaker) error {
	began := MonotonicNS()
	for open := true; open && st.Context.Err() == nil; {
		if err := p.next(); err != nil {
			return err
		}
		select {
		case open = <-st.Gate:
		default:
		}
	}
	return say.Say(Event{Kind: KindGate, Count: p.done, BeganNS: began, AtNS: MonotonicNS()})
}

func (p *paged) next() error {
	if len(p.left) == 0 {
		p.scratch = p.m.plan.step(p.step, p.scratch[:0])
		p.left, p.step = p.scratch, p.step+1
	}
	piece := p.left[0]
	p.left = p.left[1:]
	if err := p.m.touch(piece); err != nil {
		return err
	}
	if err := p.m.stream.Synchronize(); err != nil {
		return err
	}
	p.done++
	p.forget(piece)
	p.used = append(p.used, piece)
	return nil
}

func (p *paged) forget(piece int) {
	for i, u := range p.used {
		if u == piece {
			p.used = append(p.used[:i], p.used[i+1:]...)
			return
		}
	}
}

// evict sends the n pieces to the host that were used longest ago.
func (p *paged) evict(n int) error {
	if n < 0 || n > len(p.used) {
		return fmt.Errorf("evict %d pieces, %d are on the device", n, len(p.used))
	}
	for _, piece := range p.used[:n] {
		if err := p.managed.send(p.m.at[piece], p.bytes, false, p.m.stream); err != nil {
			return err
		}
	}
	p.used = append(p.used[:0], p.used[n:]...)
	return p.m.stream.Synchronize()
}

// Touches calls f for the pieces that the program goes over, from the one number so
// and so on to another, as a paged one counts them.
func (t Touch) Touches(from, to uint64, f func(piece int)) {
	plan := t.plan()
	each := uint64(plan.perStep())
	var pieces []int
	for n := from; n < to; n++ {
		if n == from || n%each == 0 {
			pieces = plan.step(n/each, pieces[:0])
		}
		f(pieces[n%each])
	}
}
