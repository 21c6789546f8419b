package plane

import (
	"slices"
	"time"

	"xmsched/compute"
	"xmsched/nvx/choose"
	"xmsched/preempt/board"
)

// process is one attached process.
type process struct {
	Process
	sections [board.Devices]*section // nil: not claimed
	reach    int                     // sections up to the last that was ever claimed
	stopped  bool                    // state T: counts as idle
	gone     bool                    // removed
	calms    bool                    // its bell is heard with those of the calm
	flood    flood

	briskUntil time.Duration // it is not calm until then
	missesEnd  time.Duration // looks are counted until then that saw not all its edges
	misses     int           // how many did

	scan scan
	host hostPart // what it may take of the host
}

// task is the plane's side of a task.
type task struct {
	hints     compute.Hints
	cpu       int           // priority at the processor
	turn      time.Duration // length of its turns as its memory wants it; 0: as its hints have it
	processes int
	seats     []*seat
	books     books
}

// device is one accelerator and who is on it.
type device struct {
	id    compute.Device
	name  string // as the first client calls it
	seats []*seat
	poll  poll

	late     bool    // gates may wait for what runs on: see release
	working  []*seat // with work, in no order: what is looked at often goes over these alone
	presumed int     // sections that are presumed idle

	chooser *choose.Chooser
	offer   Offer
	touched bool // its chooser is to be asked in this turn
	shared  shared
	mem     *deviceMemory // nil: memory is not managed
}

// seat is a task on a device.
type seat struct {
	id       compute.TaskID
	task     *task
	device   *device
	sections []*section
	ready    int  // sections that count as ready
	at       int  // while there are some: its place among the device's working
	known    bool // the scheduler has answered
	fresh    bool // just now, and nothing is stored yet
	open     bool // the policy's word; what holds is the choice's order
	shut     bool // it keeps the seat out
	rest     rest // a newer word that is not carried out yet
	mode     compute.Mode
	hold     time.Duration // newcomer: closed until acknowledged or then; 0 no

	choice  *choose.Task
	account account
	grained struct { // when its commands were last measured
		ran      time.Duration
		launches uint64
		mean     time.Duration // of them then; 0: never
	}

	overrun overrun
	mem     seatMemory

	requests bool          // a request is under way that will count when it ends
	readyAt  time.Duration // when it began
	use      use
	traced   traced

	onReady, onIdle compute.Event // made once: an edge allocates nothing
}

// section is a process on a device: the claim on its board and our answer.
type section struct {
	process *process
	index   int
	seat    *seat

	gate  board.Gate // as we stored it; the board itself is the client's to scribble on
	grant board.Grant
	view  board.ClientView // last look

	counted  bool          // counts as ready
	idleAt   time.Duration // confirm idle then; 0: not idling
	idleEdge uint32        // the edge that is waited out

	// Presumed idle by its queue counters, though it claims to be ready. It
	// counts again when it stirs.
	presumed bool
	quiet    quiet

	dozing bool // its gate word moved, and who sleeps on it is woken later

	// What its client is to do about its channel groups, and what it did.
	want       uint32 // the word of the last wish; 0: never asked
	asked      board.Wish
	askedAt    time.Duration
	waits      bool // among those whose answer is waited for
	did        board.HoldView
	refused    bool // a wish was refused: no Level 3 any more
	lengthened bool // a short slice was asked for and a longer one set

	mem *sectionMemory // nil: memory is not managed
}

// look takes in a process's whole board: claims that came or went, and edges.
func (p *Plane) look(pr *process) { p.lookUpTo(pr, board.Devices) }

// hear takes in what a ring is about. Clients claim sections in their order, so that
// those beyond the next one are looked at only if nothing else is found: each is a
// line of memory that another processor wrote or that nobody has touched for long.
func (p *Plane) hear(pr *process) {
	if !p.lookUpTo(pr, min(pr.reach+1, board.Devices)) {
		p.look(pr)
	}
}

// lookUpTo takes in the first sections of a board, and says whether any had news.
func (p *Plane) lookUpTo(pr *process, end int) (news bool) {
	for i, s := range pr.sections[:end] {
		switch present := pr.Board.Present(i); {
		case s != nil && present:
			edge := s.view.Edge
			p.lookAt(s)
			news = news || edge != s.view.Edge
		case s != nil:
			p.leave(s)
			news = true
		case present:
			p.claim(pr, i)
			news = true
		}
	}
	return news
}

// claim takes a section into use.
func (p *Plane) claim(pr *process, index int) {
	id := pr.Board.Identity(index)
	name := compute.Device(id.UUID.String())
	d, ok := p.devices[name]
	if !ok {
		offer := p.offers[name]
		d = &device{id: name, name: id.Name, offer: offer, chooser: choose.New(offer.Costs)}
		p.devices[name] = d
		p.list = append(p.list, d)
		p.tellSwitch(d)
		p.newDevice = true
		if p.mem != nil {
			p.keep(d)
		}
	}
	t := p.tasks[pr.Task]
	i := slices.IndexFunc(d.seats, func(s *seat) bool { return s.id == pr.Task })
	var st *seat
	if i >= 0 {
		st = d.seats[i]
	} else {
		st = &seat{
			id: pr.Task, task: t, device: d,
			onReady: compute.Ready{Task: pr.Task, Device: name},
			onIdle:  compute.Idle{Task: pr.Task, Device: name},
		}
		st.choice = d.chooser.Add(pr.Task)
		st.choice.Tag = st
		d.chooser.SetRank(st.choice, t.hints.Priority)
		p.rivalCame(d)
		d.seats = append(d.seats, st)
		t.seats = append(t.seats, st)
		p.events = append(p.events, compute.TaskAdded{Task: pr.Task, Device: name, Hints: t.policyHints()},
			compute.CPUPriorityChanged{Task: pr.Task, Priority: t.cpu})
	}
	p.regime++
	s := &section{process: pr, index: index, seat: st}
	pr.sections[index] = s
	pr.reach = max(pr.reach, index+1)
	st.sections = append(st.sections, s)
	if p.mem != nil {
		s.mem = &sectionMemory{key: p.mem.newKey(), limit: pr.Limit}
		p.consider(d)
	}
	p.lookAt(s)
	if st.known { // a further process of a task that has its answer already
		p.publish(s)
		p.ask(s)
	}
	p.reassess(st)
}

// leave gives a section back.
func (p *Plane) leave(s *section) {
	s.seat.requests = false // what ends now was cut short
	p.count(s, false, p.now)
	p.stopIdling(s)
	s.presume(false)
	if s.dozing {
		s.process.Board.Device(s.index).Wake()
		p.dozing = slices.DeleteFunc(p.dozing, func(x *section) bool { return x == s })
	}
	p.regime++
	st := s.seat
	s.process.sections[s.index] = nil
	st.sections = slices.DeleteFunc(st.sections, func(x *section) bool { return x == s })
	p.waiting = slices.DeleteFunc(p.waiting, func(x *section) bool { return x == s })
	p.touch(st.device)
	if p.mem != nil {
		p.consider(st.device)
	}
	if len(st.sections) > 0 {
		p.reassess(st)
		return
	}
	if p.mem != nil {
		st.device.mem.shifts.forget(st)
	}
	st.account.close(p.now)
	st.task.books.past.add(&st.account)
	p.uses(st, false)
	p.noteGone(st)
	p.shuts(st, false)
	p.unhold(st)
	p.dropRest(st)
	p.fresh = slices.DeleteFunc(p.fresh, func(x *seat) bool { return x == st })
	st.device.chooser.Remove(st.choice)
	drop := func(x *seat) bool { return x == st }
	st.task.seats = slices.DeleteFunc(st.task.seats, drop)
	d := st.device
	if d.seats = slices.DeleteFunc(d.seats, drop); len(d.seats) == 0 {
		delete(p.devices, d.id)
		p.list = slices.DeleteFunc(p.list, func(x *device) bool { return x == d })
		p.touched = slices.DeleteFunc(p.touched, func(x *device) bool { return x == d })
	}
	p.events = append(p.events, compute.DeviceLeft{Task: st.id, Device: d.id})
}

// lookAt takes in what a process claims about one device.
func (p *Plane) lookAt(s *section) {
	before := s.view
	s.view = s.process.Board.Snapshot(s.index)
	p.missed(s, s.view.Edge-before.Edge)
	switch {
	case s.gate != 0 && s.level() != s.grant.Level:
		p.publish(s)
		p.reassess(s.seat)
	case s.view.LevelWhy != before.LevelWhy:
		p.reassess(s.seat)
	}
	p.rouse(s)
	if s.want != 0 {
		p.answered(s)
	}
	if s.mem != nil {
		p.lookAtMemory(s)
	}
	if s.seat.choice.Leads() && s.view.Edge != before.Edge {
		p.lookAtRun(s, before)
	}
	switch {
	case s.process.stopped:
	case s.view.Ready && s.presumed && before.Edge == s.view.Edge && before.Launches == s.view.Launches:
		// It says what it said when its queues were found empty.
	case s.view.Ready:
		s.presume(false)
		idle, was := p.wasIdle(s, before.Edge)
		p.stopIdling(s)
		if was {
			p.count(s, false, idle)
		}
		p.count(s, true, p.readyAt(s))
	default:
		s.presume(false)
		if ready, had := p.hadWork(s, before.Edge); had {
			p.count(s, true, ready)
		}
		if s.counted {
			p.startIdling(s)
		}
	}
}

// startIdling waits out the idle edge that s.view shows. Meanwhile the client's
// edges are silent, so that a program whose requests follow each other closely
// pays for no system call at either end of one.
func (p *Plane) startIdling(s *section) {
	if s.idleAt != 0 && s.idleEdge == s.view.Edge {
		return
	}
	since := p.idleSince(s)
	at := since + p.idleAfter(s)
	if s.idleAt == 0 {
		if at <= p.now { // heard late
			p.count(s, false, since)
			return
		}
		p.idling = append(p.idling, s)
		s.process.Board.Device(s.index).Watch(true)
	}
	s.idleAt, s.idleEdge = at, s.view.Edge
}

// idleAfter is how long a section has to be idle until that counts.
func (p *Plane) idleAfter(s *section) time.Duration {
	if d := s.seat.task.hints.IdleAfter; d != 0 {
		return d
	}
	return p.cfg.IdleAfter
}

// readyAt is when a section that turned ready did so: by its own word, as far as
// that is not too far from when it was heard.
func (p *Plane) readyAt(s *section) time.Duration {
	if at, told := p.toldReady(s); told {
		return at
	}
	return p.now
}

// believed is how much older an edge may be, by its client's word, than when it is heard.
const believed = 3 * mostPatience

func (p *Plane) toldReady(s *section) (at time.Duration, told bool) {
	now := p.clock(p.now)
	if at := s.view.ReadyAt; p.cfg.Epoch != 0 && at < now && now-at < uint64(believed) {
		return p.now - time.Duration(now-at), true
	}
	return 0, false
}

// count makes a section count as ready, or not, since then.
func (p *Plane) count(s *section, ready bool, since time.Duration) {
	if s.counted == ready {
		return
	}
	s.counted = ready
	st := s.seat
	if ready {
		if st.ready++; st.ready == 1 {
			st.device.begins(st)
			p.hasten(st)
			if st.mem.rests {
				p.consider(st.device)
			}
			p.events = append(p.events, st.onReady)
			st.requests, st.readyAt = true, since
			st.device.chooser.Ready(st.choice, since)
			p.touch(st.device)
			p.book(st)
		}
		return
	}
	if st.ready--; st.ready == 0 {
		st.device.ends(st)
		p.events = append(p.events, st.onIdle)
		p.requested(st, since)
		st.device.chooser.Idle(st.choice, since)
		p.touch(st.device)
		p.book(st)
	}
}

// begins takes a seat among those with work.
func (d *device) begins(st *seat) {
	st.at = len(d.working)
	d.working = append(d.working, st)
}

// ends takes a seat from among those with work.
func (d *device) ends(st *seat) {
	last := len(d.working) - 1
	d.working[st.at] = d.working[last]
	d.working[st.at].at = st.at
	d.working[last] = nil
	d.working = d.working[:last]
}

// presume says whether a section is presumed idle.
func (s *section) presume(idle bool) {
	switch {
	case s.presumed == idle:
		return
	case idle:
		s.seat.device.presumed++
	default:
		s.seat.device.presumed--
	}
	s.presumed = idle
}

func (p *Plane) stopIdling(s *section) {
	if s.idleAt == 0 {
		return
	}
	s.idleAt = 0
	s.process.Board.Device(s.index).Watch(false)
	p.idling = slices.DeleteFunc(p.idling, func(x *section) bool { return x == s })
}
