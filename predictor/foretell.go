package predictor

import "time"

// foretold is what comes after the present phase.
type foretold struct {
	by     foretelling
	place  uint64 // byOrder: the number of the phase that was like the present one
	length uint64 // of the present phase, in commands
}

type foretelling uint8

const (
	unforetold foretelling = iota
	byOrder                // as it followed before
	byStride               // as far on as the last time
)

// foretell says what comes after the present phase, as far as there is evidence for it.
// Precondition: the present phase is known.
func (p *Plan) foretell() foretold {
	f := &p.phases
	next := foretold{}
	if place, ok := f.before(); ok {
		next = foretold{byOrder, place, f.number(place).length}
		if place == 0 { // of that the beginning was not seen
			next.length = f.number(f.count - 2).length
		}
	} else if f.present().moved {
		next = foretold{byStride, 0, f.number(f.count - 2).length}
	}
	if p.period.next-f.present().start > overdue*next.length {
		return foretold{}
	}
	return next
}

// before finds the phase that was like the present one, and after phases that were like
// those before it.
func (f *phases) before() (place uint64, ok bool) {
	last, oldest := f.count-1, f.oldest()
	best := -1
	for n := last; n > oldest; {
		if n--; f.number(n).key != f.number(last).key {
			continue
		}
		depth := 0
		for back := uint64(1); back <= maxContext && back <= n-oldest && f.number(n-back).key == f.number(last-back).key; back++ {
			depth++
		}
		if depth > best {
			best, place = depth, n
		}
	}
	return place, best >= 0
}

// told says whether the evidence is enough to tell of it.
func (n foretold) told(f *phases) bool {
	return n.by == byStride || n.by == byOrder && f.trust > 0
}

// phase is the number of the phase that the one k after the present one is made of.
func (n foretold) phase(f *phases, k uint64) uint64 {
	if n.by == byOrder {
		return n.place + k
	}
	return f.count - 1
}

// touch is touch i of the phase k after the present one.
func (n foretold) touch(f *phases, k uint64, i int) Touch {
	t := f.number(n.phase(f, k)).touches[i]
	if n.by == byStride {
		t.Base += k * (t.Base - f.number(f.count - 2).touches[i].Base)
	}
	return t
}

// lasts is how many commands the phase k after the present one lasts.
func (n foretold) lasts(f *phases, k uint64) uint64 {
	if n.by == byOrder {
		return f.number(n.place + k).length
	}
	return n.length
}

// within says whether there is a phase k after the present one: where the order has
// come to the present one there is none, nor where the stride leaves its allocation for
// what is no other one of its kind.
func (p *Plan) within(n foretold, k uint64) bool {
	f := &p.phases
	if n.by == byOrder {
		return n.place+k < f.count-1
	}
	if p.ranges == nil || k > maxPhases {
		return false
	}
	for i, t := range f.present().touches {
		if to := n.touch(f, k, i); to.Base != t.Base && !p.ranges.alike(t, to) {
			return false
		}
	}
	return true
}

// alike says whether a touch lies in the same allocation as another one, or at the same
// place of one of the same size.
func (r *Ranges) alike(a, b Touch) bool {
	in, ok := r.Find(a.Base)
	to, found := r.Find(b.Base)
	if s := b.Span(); !ok || !found || s.End() < s.Base || s.End() > to.End() {
		return false
	}
	return in == to || in.Bytes == to.Bytes && a.Base-in.Base == b.Base-to.Base
}

// duration is how long one period of a phase takes.
func (p *Plan) duration(s *phase) (d time.Duration) {
	for i := range s.commands {
		d += p.Expected(s.commands[i].id)
	}
	return d
}

// lasting is how long so many commands of a phase take.
func (p *Plan) lasting(s *phase, commands uint64) time.Duration {
	return time.Duration(float64(p.duration(s)) / float64(len(s.commands)) * float64(commands))
}

// briefest is how long a phase lasts for its change to be a change of what is ahead:
// what is shorter comes and goes within a turn (100 ms).
const briefest = 20 * time.Millisecond

// brief says whether the present phase is too short to be told of if it lasts for so
// many commands.
func (p *Plan) brief(commands uint64) bool {
	return p.lasting(p.phases.present(), commands) < briefest
}

// remaining is how many commands the present phase still has.
func (p *Plan) remaining(n foretold) uint64 {
	return n.length - min(n.length, p.period.next-p.phases.present().start)
}

// Coming is how long the program will have run, from now on, when it goes on to memory
// that it does not touch now; false: that is not foreseen, or that happens all the time.
func (p *Plan) Coming() (in time.Duration, ok bool) {
	if !p.phases.known() {
		return 0, false
	}
	next := p.foretell()
	if !next.told(&p.phases) || !p.within(next, 1) || p.brief(next.length) {
		return 0, false
	}
	p.outstanding(func(n uint64) bool {
		in += p.Expected(p.period.at(n).id)
		return true
	})
	return in + p.lasting(p.phases.present(), p.remaining(next)), true
}
