package predictor

import "slices"

// phases follow a program that works in phases: a phase is a stretch of commands with a
// short period, and with that a steady working set; after it the same kernels, or others,
// go over other memory. The period knows what a phase touches; what comes after it is
// known from the phases that were:
//
//   - The same phase was there before: what followed it then follows, if several did,
//     what followed where the phases before were the same too.
//   - The last two changes moved every touch by as much as the change before did: the
//     next one does so again.
//
// Phases are numbered from 0 on; a ring keeps the last ones.
type phases struct {
	recent   [recentPlaces]uint32 // by hash of what preceded: the number of a command
	distance uint64               // the last commands are those of so many before; 0: not known
	matched  uint64               // so many are

	ring  [maxPhases]phase
	count uint64 // phases ever

	// broken: what came last is not the present phase; it ceased at command at. strange
	// counts the commands since then that it never had.
	broken  bool
	at      uint64
	strange int
	// presumed: the present phase is what was foretold, and all since has been like it,
	// but it has not settled yet.
	presumed bool
	counted  bool   // what began at command at was counted as a change of what is ahead
	guess    uint64 // key of what the order foretold for after at; 0: nothing
	trust    int    // in the order; what it foretells is told from 1 on
}

// phase is one phase, with one period of it.
type phase struct {
	key      uint64 // of the commands of the period, wherever that begins
	start    uint64 // number of its first command
	length   uint64 // in commands; 0: it lasts
	commands []phaseCommand
	touches  []Touch
	moved    bool // all touches lie as far from those of the last phase as those did from the one's before
}

type phaseCommand struct {
	id, anchor uint64
	touches    int
}

const (
	// What bounds a phase: 0.8 MiB in all. A longer period is no phase of a few kernels
	// but a program's step, which the period itself foresees.
	maxPhases        = 32
	maxPhaseCommands = 256
	maxPhaseTouches  = 512
	recentBits       = 10
	recentPlaces     = 1 << recentBits

	// A phase is one after as many commands that are as in the period before, and as
	// many periods of them.
	settledCommands = 24
	settledPeriods  = 2

	// maxContext is how many phases before it tell apart what followed a phase.
	maxContext = 3
	// A phase that lasts overdue times as long as is known is another one.
	overdue = 2

	// A few strange commands are something else that is done now and then; the period
	// takes three of those for no break.
	strangeMost = 3

	trustFirst = 1 // a change that was seen is some evidence
	trustMost  = 2
	trustLeast = -2
	trustLost  = 2 // by one that did not come true
)

func (f *phases) number(n uint64) *phase { return &f.ring[n%maxPhases] }
func (f *phases) present() *phase        { return f.number(f.count - 1) }

// known says whether the program is in a phase that is known.
func (f *phases) known() bool { return f.count > 0 && !f.broken }

// oldest is the number of the oldest phase that is kept; the place of one more is where
// the next one is written.
func (f *phases) oldest() uint64 { return f.count - min(f.count, maxPhases-1) }

// settled says whether what matches is a phase.
func (f *phases) settled() bool {
	return f.distance != 0 && f.matched >= max(settledCommands, settledPeriods*f.distance)
}

// phase takes in the last command of the history.
func (p *Plan) phase(anchor uint64) {
	f, n := &p.phases, p.period.next-1
	if f.presumed && f.present().expects(n) != anchor {
		f.retract()
		f.counted = true
		p.changes++
	}
	if f.distance != 0 {
		p.follows(n, anchor)
	}
	if f.broken && !f.counted && n-f.at < maxPhaseCommands && f.present().strange(anchor) {
		if f.strange++; f.strange >= strangeMost {
			f.counted = true
			p.changes++
		}
	}
	place := &f.recent[p.period.hash>>(64-recentBits)]
	if f.distance == 0 {
		p.repeats(uint64(uint32(p.period.next) - *place))
	}
	*place = uint32(p.period.next)
}

// follows compares command n with the one of a period before.
func (p *Plan) follows(n, anchor uint64) {
	f := &p.phases
	was := f.settled()
	if p.period.at(n-f.distance).anchor == anchor {
		if f.matched++; !was && f.settled() {
			p.settle()
		}
		return
	}
	if f.distance, f.matched = 0, 0; was && f.known() {
		p.ends(n, anchor)
	}
}

// expects is the anchor of the phase's command of that number.
func (s *phase) expects(n uint64) uint64 {
	return s.commands[(n-s.start)%uint64(len(s.commands))].anchor
}

// strange says whether no command of the phase is like that.
func (s *phase) strange(anchor uint64) bool {
	return !slices.ContainsFunc(s.commands, func(c phaseCommand) bool { return c.anchor == anchor })
}

// broke counts that the sequence ceased to repeat itself, unless that is the end of a
// phase, which was counted.
func (p *Plan) broke() {
	f := &p.phases
	if f.counted && p.period.next-f.at <= 2*preceding {
		return
	}
	f.counted = f.broken
	p.changes++
}

// repeats notes the distance if the last commands repeat at it.
func (p *Plan) repeats(distance uint64) {
	next := p.period.next
	if distance == 0 || distance > maxPhaseCommands || next < distance+preceding || distance+preceding >= uint64(len(p.history)) {
		return
	}
	for i := uint64(1); i <= preceding; i++ {
		if p.period.at(next-i).anchor != p.period.at(next-i-distance).anchor {
			return
		}
	}
	p.phases.distance, p.phases.matched = distance, preceding
}

// ends has the present phase end before command n. If that is how what was foretold
// begins, it is taken to have begun.
func (p *Plan) ends(n, anchor uint64) {
	f := &p.phases
	if f.count == 1 && !p.align(f.present(), n) {
		f.count = 0
		return
	}
	next := p.foretell()
	f.broken, f.at, f.guess = true, n, 0
	f.counted, f.strange = false, 0
	if next.by == byOrder {
		f.guess = f.number(next.place + 1).key
	}
	if next.by == unforetold || !p.within(next, 1) {
		return
	}
	if p.presume(next, n).expects(n) != anchor {
		return
	}
	length := n - f.present().start
	if f.counted = !p.brief(length); f.counted {
		p.changes++
	}
	f.present().length = length
	f.count++
	f.broken, f.presumed = false, true
}

// align has the period of the first phase, whose beginning was not seen, begin where those
// of others do: it is the one before its end. false: that was overwritten.
func (p *Plan) align(s *phase, end uint64) bool {
	period := uint64(len(s.commands))
	from := end - period
	return p.touched-p.at(from).from <= uint64(len(p.touches)) && p.write(s, from, period)
}

// presume writes down what was foretold as the phase after the present one.
func (p *Plan) presume(next foretold, start uint64) *phase {
	f := &p.phases
	s := f.number(f.count)
	was := f.number(next.phase(f, 1))
	s.start, s.length = start, 0
	s.commands, s.touches = append(s.commands[:0], was.commands...), s.touches[:0]
	i := 0
	s.key = 0
	for k := range s.commands {
		c := &s.commands[k]
		from := i
		for ; i < from+c.touches; i++ {
			s.touches = append(s.touches, next.touch(f, 1, i))
		}
		c.anchor = anchor(&Command{ID: c.id, Touches: s.touches[from:]})
		s.key += mix(0, c.anchor)
	}
	s.moved = f.moves(s, f.count)
	return s
}

// retract takes back a phase that was presumed.
func (f *phases) retract() {
	f.count--
	f.present().length = 0
	f.broken, f.presumed = true, false
}

// settle takes what repeats as the present phase.
func (p *Plan) settle() {
	f := &p.phases
	first := p.period.next - f.matched - f.distance
	start := first
	if f.broken || f.presumed {
		start = f.at
	}
	// The period is taken from where the phase begins, so that those of two phases compare.
	if begin := max(first, start); begin+f.distance <= p.period.next {
		first = begin
	}
	if !p.period.kept(first) || p.touched-p.at(first).from > uint64(len(p.touches)) {
		return
	}
	key := uint64(0)
	for n := range f.distance {
		key += mix(0, p.period.at(first+n).anchor)
	}
	switch {
	case f.count > 0 && f.present().key == key:
		if f.presumed {
			f.score(key)
		}
		f.broken, f.presumed = false, false
		return
	case f.presumed: // it began like it, and goes on as another
		f.retract()
		p.changes++
	}
	s := f.number(f.count)
	if !p.write(s, first, f.distance) {
		f.broken, f.at = f.count > 0, start
		return
	}
	if f.count > 0 {
		f.present().length = start - f.present().start
	}
	s.key, s.start, s.length = key, start, 0
	s.moved = f.moves(s, f.count)
	f.score(key)
	f.count++
	f.broken = false
}

// score notes whether what the order foretold came.
func (f *phases) score(key uint64) {
	switch {
	case f.guess == 0:
	case f.guess == key:
		f.trust = min(f.trust+1, trustMost)
	default:
		f.trust = max(f.trust-trustLost, trustLeast)
	}
	f.guess = 0
}

// write writes down n commands from one on; false: they are too much for a phase, or
// too little to be worth one.
func (p *Plan) write(s *phase, from, n uint64) bool {
	s.commands, s.touches = s.commands[:0], s.touches[:0]
	most := uint64(0)
	for i := from; i < from+n; i++ {
		r, c := p.at(i), p.period.at(i)
		if len(s.touches)+int(r.count) > maxPhaseTouches {
			return false
		}
		s.commands = append(s.commands, phaseCommand{c.id, c.anchor, int(r.count)})
		for k := range uint64(r.count) {
			t := p.touches[(r.from+k)%uint64(len(p.touches))]
			s.touches, most = append(s.touches, t), max(most, t.Span().Bytes)
		}
	}
	return most >= anchorBytes
}

// moves says whether phase s of that number moves on from the last as that did from the
// one before. Precondition: the phases before are kept.
func (f *phases) moves(s *phase, number uint64) bool {
	if number < 2 || number-2 < f.oldest() {
		return false
	}
	a, b := f.number(number-2), f.number(number-1)
	if len(a.commands) != len(s.commands) || len(b.commands) != len(s.commands) || len(a.touches) != len(s.touches) || len(b.touches) != len(s.touches) {
		return false
	}
	for i, c := range s.commands {
		if a.commands[i].id != c.id || b.commands[i].id != c.id || a.commands[i].touches != c.touches || b.commands[i].touches != c.touches {
			return false
		}
	}
	some := false
	for i, t := range s.touches {
		x, y := a.touches[i], b.touches[i]
		by := t.Base - y.Base
		if y.Base-x.Base != by || at(x, t.Base) != t || at(y, t.Base) != t {
			return false
		}
		some = some || by != 0
	}
	return some
}

// at is the touch at another address.
func at(t Touch, base uint64) Touch {
	t.Base = base
	return t
}
