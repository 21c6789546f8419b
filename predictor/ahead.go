package predictor

import "time"

// Use is a command's touch, and when it is expected, from now on.
type Use struct {
	At time.Duration
	Touch
	// Every is after how long it comes again, and again; 0: it does not, or not soon (the
	// period is longer than that of a phase). That its phase ends does not count: what
	// comes later is less certain than what is now.
	Every time.Duration
}

// Ahead calls yield with what will be touched before the horizon, in the order of
// time, as though one command ran after the other. One period is named once: from there
// on nothing new is touched, until the next phase begins, if that is foretold. Where the
// sequence does not repeat, as in between two things that a program does, it is taken to
// go on with what it did last, the latest first: the working set of the past (Denning
// 1968). It returns how far it came.
func (p *Plan) Ahead(horizon time.Duration, yield func(Use) bool) (now time.Duration) {
	o := outlook{plan: p, horizon: horizon, yield: yield}
	if o.marks() && p.outstanding(o.again) {
		begin := o.now
		if o.period() && p.phases.known() && !p.long() {
			o.phases(begin)
		}
	}
	return o.now
}

// outlook is one look ahead. Its methods say whether there is more to look for.
type outlook struct {
	plan         *Plan
	now, horizon time.Duration
	every        time.Duration
	yield        func(Use) bool
}

// marks are what slow launches touched.
func (o *outlook) marks() bool {
	for _, t := range o.plan.slow {
		if !o.yield(Use{Touch: t}) {
			return false
		}
	}
	return true
}

// again is a command of the history, which comes again.
func (o *outlook) again(n uint64) bool {
	if o.now >= o.horizon {
		return false
	}
	p, r := o.plan, o.plan.at(n)
	if p.touched-r.from <= uint64(len(p.touches)) { // else they were overwritten
		for i := range uint64(r.count) {
			if !o.yield(Use{o.now, p.touches[(r.from+i)%uint64(len(p.touches))], o.every}) {
				return false
			}
		}
	}
	o.now += p.Expected(p.period.at(n).id)
	return true
}

// period is what repeats, once; or else the past, after which nothing is known.
func (o *outlook) period() bool {
	p := o.plan
	switch f := &p.phases; {
	case f.presumed && !p.long():
		s := f.present()
		o.every = p.duration(s)
		return o.from(foretold{}, 0, (p.period.next-s.start)%uint64(len(s.commands)))
	case p.period.sure:
		o.every = p.every()
		return p.period.ahead(o.again)
	}
	for n := p.period.next; n > 0 && p.period.kept(n-1); n-- {
		if p.completed(n-1) && !o.again(n-1) {
			break
		}
	}
	return false
}

// every is how long a period takes; 0: long.
func (p *Plan) every() (d time.Duration) {
	if p.period.length() > maxPhaseCommands {
		return 0
	}
	p.period.ahead(func(n uint64) bool {
		d += p.Expected(p.period.at(n).id)
		return true
	})
	return d
}

// long says whether the period reaches back before the present phase: then it knows what
// comes after that. One that has just met another command than it expected is about to
// be given up.
func (p *Plan) long() bool {
	f := &p.phases
	return p.period.sure && f.known() && p.period.follow < f.present().start && !(f.presumed && p.period.doubt >= doubtMore)
}

// phases are those after the present one, which lasts since what was outstanding ended.
func (o *outlook) phases(begin time.Duration) {
	p := o.plan
	f, next := &p.phases, p.foretell()
	if !next.told(f) {
		return
	}
	at := begin + p.lasting(f.present(), p.remaining(next))
	for k := uint64(1); p.within(next, k); k++ {
		if at = max(at, o.now); at >= o.horizon {
			return
		}
		s := f.number(next.phase(f, k))
		o.now, o.every = at, p.duration(s)
		if !o.from(next, k, 0) {
			return
		}
		at += p.lasting(s, next.lasts(f, k))
	}
}

// from is one period of a phase, from one of its commands on and round to it.
func (o *outlook) from(next foretold, k, first uint64) bool {
	p := o.plan
	f := &p.phases
	s := f.number(next.phase(f, k))
	touch := 0
	for i := range first {
		touch += s.commands[i].touches
	}
	for i := range uint64(len(s.commands)) {
		if o.now >= o.horizon {
			return false
		}
		c := s.commands[(first+i)%uint64(len(s.commands))]
		if first+i == uint64(len(s.commands)) {
			touch = 0
		}
		for range c.touches {
			if !o.yield(Use{o.now, next.touch(f, k, touch), o.every}) {
				return false
			}
			touch++
		}
		o.now += p.Expected(c.id)
	}
	return true
}
