package predictor

// period finds where a sequence of commands repeats: the steps of a training, the
// tokens of a decode. It looks up where the last few commands occurred before and
// follows from there; as long as what comes is what followed then, the future is
// known. After a difference it looks again.
//
// The layers of a network are the same kernels again and again, at other weights.
// So a place is found by anchors, which for a command of much memory name that
// memory too; and it is followed by kinds alone, because what is small, or grows,
// moves about from step to step.
//
// The history is a ring of a fixed number of commands, numbered from 0 on.
type period struct {
	ring []step
	next uint64            // the number of the next command
	last map[uint64]uint64 // by the hash of what preceded: the number of a command
	hash uint64

	follow uint64 // the number, in the past, of the command that is expected next
	sure   bool   // something is expected
	doubt  int    // grows with each anchor that is another than expected
	breaks uint64 // how often what was expected was given up
}

type step struct{ id, anchor uint64 }

// preceding is how many commands must be the same for a place to be found again,
// hashBase what their hash is made with. A place is given up at doubtMost.
const (
	preceding = 8
	hashBase  = 0x9e3779b97f4a7c15
	doubtMore = 4
	doubtMost = 16
	// maxSkipped is how many commands may be missing at one place.
	maxSkipped = 4
)

// hashTop is hashBase to the power of preceding.
var hashTop = func() uint64 {
	p := uint64(1)
	for range preceding {
		p *= hashBase
	}
	return p
}()

func newPeriod(size int) period {
	return period{ring: make([]step, size), last: make(map[uint64]uint64)}
}

func (p *period) at(n uint64) *step { return &p.ring[n%uint64(len(p.ring))] }

// kept says whether the ring still has command n.
func (p *period) kept(n uint64) bool { return n < p.next && n+uint64(len(p.ring)) >= p.next }

// push takes the next command in.
func (p *period) push(s step) {
	p.expect(s)
	p.hash = p.hash*hashBase + mix(0, s.anchor)
	if p.next >= preceding {
		p.hash -= hashTop * mix(0, p.at(p.next-preceding).anchor)
	}
	*p.at(p.next) = s
	p.next++
	if p.next < preceding {
		return
	}
	if !p.sure {
		p.look()
	}
	p.last[p.hash] = p.next
	if len(p.last) > 2*len(p.ring) {
		p.tidy()
	}
}

// expect compares a command with the one that followed in the past. One that is
// too many, or a few that are missing, do not end it: something is done every tenth
// step only.
func (p *period) expect(s step) {
	if !p.sure {
		return
	}
	for n := p.follow; n <= p.follow+maxSkipped && p.kept(n); n++ {
		if p.at(n).id != s.id {
			continue
		}
		if n == p.follow && p.at(n).anchor == s.anchor {
			p.doubt = max(p.doubt-1, 0)
		} else {
			p.doubtful()
		}
		p.follow = n + 1
		return
	}
	p.doubtful()
}

func (p *period) doubtful() {
	p.doubt += doubtMore
	if p.sure = p.doubt < doubtMost; !p.sure {
		p.breaks++
	}
}

// look finds the last place where the same commands preceded.
func (p *period) look() {
	n, ok := p.last[p.hash]
	if !ok || !p.kept(n) {
		return
	}
	for i := uint64(1); i <= preceding; i++ {
		if n < i || !p.kept(n-i) || p.at(n-i).anchor != p.at(p.next-i).anchor {
			return
		}
	}
	p.follow, p.sure, p.doubt = n, true, 0
}

// tidy forgets the places that the ring has lost.
func (p *period) tidy() {
	for h, n := range p.last {
		if !p.kept(n) {
			delete(p.last, h)
		}
	}
}

// length is how many commands a period has; 0: none is known.
func (p *period) length() int {
	if !p.sure {
		return 0
	}
	return int(p.next - p.follow)
}

// ahead calls yield with the numbers of past commands that will come again, in order, one
// period at most; false: yield said that it was enough. Precondition: something is expected.
func (p *period) ahead(yield func(n uint64) bool) bool {
	for n := p.follow; n < p.next && p.kept(n); n++ {
		if !yield(n) {
			return false
		}
	}
	return true
}
