package plane

import (
	"time"

	"xmsched/nvx/choose"
	"xmsched/preempt/board"
)

const (
	// A client does not ring for what it did about a wish: a suspension takes 0.6 ms
	// and is waited for, so the daemon looks; ever more slowly, as one that did not
	// answer at once may never, but so that no answer is found later than by a quarter
	// of the time it took.
	didPollMin = 100 * time.Microsecond
	didPollMax = 10 * time.Millisecond
)

// touch has the chooser of a device asked in this turn.
func (p *Plane) touch(d *device) {
	if !d.touched {
		d.touched = true
		p.touched = append(p.touched, d)
	}
}

// touchDue touches the devices whose chooser's time has come.
func (p *Plane) touchDue() {
	for _, d := range p.list {
		if at := d.chooser.Next(); at != 0 && at <= p.now {
			p.touch(d)
		}
	}
}

// settle asks the choosers and carries their orders out: those who stop first, so
// that room is made before it is given away, and newcomers last.
func (p *Plane) settle() {
	for _, d := range p.touched {
		d.touched = false
		if d.tight() { // else memory keeps nobody
			d.tellKept() // the policy's word may be newer than what was decided on memory
		}
		var stopped uint32 // highest level at which somebody was stopped
		for _, t := range d.chooser.Decide(p.now) {
			st := t.Tag.(*seat)
			if st.fresh {
				continue
			}
			p.carry(st)
			stopped = max(stopped, p.book(st))
		}
		d.give(stopped)
	}
	clear(p.touched)
	p.touched = p.touched[:0]
}

// carry brings a seat's boards to its order.
func (p *Plane) carry(st *seat) {
	for _, s := range st.sections {
		p.ask(s)
		if s.gate == 0 {
			continue
		}
		if grant := p.grantOf(s); grant != s.grant {
			p.store(s, grant)
		}
	}
}

// wish is what a section's client is to do about its channel groups.
func (s *section) wish() board.Wish {
	o := s.seat.choice.Order()
	w := board.Wish{SliceUS: uint32(o.Slice / time.Microsecond)}
	if o.Hold {
		w.Hold = board.HoldCompute
	}
	if s.holdsAll() {
		w.Hold = board.HoldAll
	}
	return w
}

// ask stores a section's wish, if it is not what was asked for last.
func (p *Plane) ask(s *section) {
	w := s.wish()
	if w == s.asked {
		return
	}
	p.askAgain(s, w)
}

func (p *Plane) askAgain(s *section, w board.Wish) {
	d := s.process.Board.Device(s.index)
	s.asked, s.askedAt = w, p.now
	s.want = d.Ask(s.want, w)
	p.asked = append(p.asked, d)
	if !s.waits {
		s.waits = true
		p.waiting = append(p.waiting, s)
	}
	p.nextDid = p.now + didPollMin
	p.stats.Wishes++
}

// lookForAnswers takes in what clients did since the last look.
func (p *Plane) lookForAnswers() {
	if len(p.waiting) == 0 || p.nextDid > p.now {
		return
	}
	list := p.waiting
	p.waiting = p.waiting[:0]
	for _, s := range list {
		s.waits = false
		if p.answered(s) {
			continue
		}
		s.waits = true
		p.waiting = append(p.waiting, s)
	}
	clear(list[len(p.waiting):])
	if len(p.waiting) > 0 {
		newest := p.waiting[len(p.waiting)-1].askedAt
		p.nextDid = p.now + min(max((p.now-newest)/4, didPollMin), didPollMax)
	}
}

// answered takes in what a client did about its wish. False: nothing yet. It does
// no harm to ask about a section that is not waited for: its client may have lapsed
// since.
func (p *Plane) answered(s *section) bool {
	v := s.process.Board.HoldView(s.index)
	if v.Did != s.want {
		return false
	}
	if v == s.did {
		return true
	}
	before := s.did
	s.did = v
	st := s.seat
	if v.Error != 0 && !s.refused {
		s.refused = true
		p.refresh(s)
		p.reassess(st)
	}
	if (before.SliceUS != v.SliceUS || before.Did != v.Did) && v.Error == 0 {
		p.reassess(st)
	}
	held, slice, all := st.did()
	if all {
		st.device.chooser.Did(st.choice, held, slice)
	}
	p.book(st)
	p.touch(st.device)
	return true
}

// did sums up what a seat's clients did: held, if all of them are; of their slices
// the shortest that is not the driver's. all is false while one has not answered.
func (st *seat) did() (held bool, slice time.Duration, all bool) {
	held, all = true, true
	for _, s := range st.sections {
		if s.did.Did != s.want {
			all = false
		}
		held = held && s.did.Held != board.HoldNone
		if us := time.Duration(s.did.SliceUS) * time.Microsecond; us != 0 && (slice == 0 || us < slice) {
			slice = us
		}
	}
	return held, slice, all
}

// renew looks after a wish at a heartbeat: a client whose lease ran out has undone by
// itself what it was asked for, and is asked again; one that has not answered is
// woken again.
func (p *Plane) renew(s *section) {
	if s.want == 0 {
		return
	}
	if !p.answered(s) {
		p.asked = append(p.asked, s.process.Board.Device(s.index))
		return
	}
	undone := s.did.Held != s.asked.Hold || s.did.SliceUS != s.asked.SliceUS && !s.lengthened
	if s.did.Error == 0 && undone {
		p.askAgain(s, s.asked)
	}
}

// reassess says to the chooser what a seat can do now.
func (p *Plane) reassess(st *seat) {
	holds, arms, shares, away := len(st.sections) > 0, len(st.sections) == 1, len(st.sections) > 0, false
	for _, s := range st.sections {
		holds = holds && s.level() >= 3
		shares = shares && s.level() == 2 && s.view.LevelWhy == board.ClientOfMPS
		away = away || s.process.stopped
		// A client that may not shorten its slice, as it has several compute groups,
		// says what it set instead.
		if s.did.Did == s.want && s.did.Error == 0 && s.asked.SliceUS != 0 && s.did.SliceUS > s.asked.SliceUS {
			s.lengthened = true
		}
		arms = arms && !s.lengthened
	}
	p.regime++
	c := st.device.chooser
	c.SetAble(st.choice, holds, arms)
	c.SetShares(st.choice, shares)
	c.SetAway(st.choice, away)
	p.touch(st.device)
}

// lookAtRun tells the chooser of the run of a foreground that ended since the look
// before, if one did: with the idle edge that s.view shows, or with one before, as a
// program may launch again sooner than the daemon wakes up.
func (p *Plane) lookAtRun(s *section, before board.ClientView) {
	switch v := &s.view; {
	case !v.Ready:
		p.ran(s, v.ReadyAt, p.clock(p.now))
	case before.Ready && v.Edge == before.Edge+2:
		p.ran(s, before.ReadyAt, v.ReadyAt)
	default: // it has begun, or there were several of which nothing is known
		return
	}
	p.launched(s.seat)
}

// ran tells the chooser of a run that ended by now. All of it is the client's word, by
// whose clock it is as well.
func (p *Plane) ran(s *section, begin, end uint64) {
	if p.cfg.Epoch == 0 || begin == 0 || begin >= end || end > p.clock(p.now) || end-begin > uint64(maxRun) {
		return
	}
	waited := min(max(s.view.WaitedFrom, begin), end)
	d := s.seat.device
	if d.chooser.Ran(s.seat.choice, p.now, time.Duration(end-begin), time.Duration(waited-begin)) {
		p.touch(d)
	}
}

// launched tells the chooser how much a foreground has launched, which its client
// says at edges.
func (p *Plane) launched(st *seat) {
	if st.device.chooser.Launched(st.choice, p.now, st.launches()) {
		p.touch(st.device)
	}
}

// launches is how many commands a seat's clients have launched in all.
func (st *seat) launches() uint64 {
	var n uint64
	for _, s := range st.sections {
		n += s.view.Launches
	}
	return n
}

// maxRun is the longest run that is believed.
const maxRun = 10 * time.Second

// clock is a time of the plane by CLOCK_MONOTONIC, in ns.
func (p *Plane) clock(at time.Duration) uint64 { return p.cfg.Epoch + uint64(at) }

// grain tells the chooser how long the commands of a background are on average, now
// and then: how long it ran, by how many it launched meanwhile. Clients count launches
// by the batch, and launch ahead of the device: of few nothing is known before long,
// and who is taken for one of long commands may not run to show that it is none.
func (p *Plane) grain(st *seat) {
	const (
		enough = 20 * time.Millisecond
		few    = 4 * batch2
		long   = 400 * time.Millisecond
	)
	ran, launches := st.account.ran-st.grained.ran, st.launches()
	left := launches < st.grained.launches // a process left, or lies
	n := max(1, launches-st.grained.launches)
	if ran < enough || !left && n < few && ran < long {
		return
	}
	if left {
		n = 1
	}
	mean := ran / time.Duration(min(n, uint64(ran)))
	before := st.grained.mean
	st.grained.ran, st.grained.launches, st.grained.mean = st.account.ran, launches, mean
	if before != 0 {
		mean = min(mean, before) // a program may have paused once
	}
	st.device.chooser.SetGrain(st.choice, mean)
}

// order is a seat's order, for whoever only reads it.
func (st *seat) order() choose.Order { return st.choice.Order() }

// runs says whether a seat's gate is open: the policy's word, its turn, and where its
// memory is.
func (st *seat) runs() bool { return st.choice.Order().Open && !st.memoryStops() }
