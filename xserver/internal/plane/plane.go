// Package plane is the daemon's data plane: it turns edges on the clients'
// boards into gate words on other boards.
//
// Plane is the state machine: clients' claims go in, compute.Scheduler decides,
// gate words go out. It has no goroutine and no clock, does no I/O but loads and
// stores on boards (and the futex wake that belongs to a store), and trusts
// nothing that it reads there. Loop drives it on one OS thread of its own.
//
// Nothing in this package may wait for a client, a disk, /proc, gRPC or a lock
// that somebody holds while he does. What needs such things (finding out whether
// a process is stopped, closing what a dead one left) is asked for as a value
// and done by others.
//
// Concurrency: a Plane belongs to its Loop's thread.
package plane

import (
	"slices"
	"time"

	"xmsched/compute"
	"xmsched/memory"
	"xmsched/preempt/board"
)

// ProcessID names an attached process; never used twice.
type ProcessID uint64

// Config holds the times of the data plane. The zero value of a field means its
// default.
type Config struct {
	// IdleAfter is how long a client has to stay idle before that counts, unless
	// its task's hint says otherwise. Default 200 us: a foreground that comes back
	// between two kernels is not worth letting somebody else in.
	IdleAfter time.Duration
	// AckLimit is how long a newcomer waits for the others to acknowledge their
	// bounds. Default 5 ms.
	AckLimit time.Duration
	// PollMin and PollMax bound the adaptive polling of boards while somebody
	// waits. Defaults 200 us and 5 ms.
	PollMin, PollMax time.Duration
	// Heartbeat is the time between two beats. Default 200 ms; clients take a
	// heart that stood still for 0.85 s for dead, so that they go on within 1 s.
	Heartbeat time.Duration
	// Spin is for how long after an edge the loop looks for the next one instead of
	// sleeping: 0 to MaxSpin. Default 0. It takes a core while programs have edges, and
	// spares what waking a thread costs.
	Spin time.Duration
	// Epoch is the plane's time 0 by CLOCK_MONOTONIC, in ns, which clients' claims of
	// times are in. 0: not known, and no such claim is used.
	Epoch uint64
	// Memory says how memory is managed; nil: not at all.
	Memory *Memory
}

// DefaultIdleAfter is Config.IdleAfter where nobody says otherwise.
const DefaultIdleAfter = 200 * time.Microsecond

// MaxSpin bounds Config.Spin.
const MaxSpin = time.Second

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.IdleAfter, DefaultIdleAfter)
	def(&c.AckLimit, 5*time.Millisecond)
	def(&c.PollMin, 200*time.Microsecond)
	def(&c.PollMax, 5*time.Millisecond)
	def(&c.Heartbeat, 200*time.Millisecond)
	return c
}

// Process is a process as the control plane hands it over.
type Process struct {
	ID       ProcessID
	Task     compute.TaskID
	Hints    compute.Hints // of the task; those of the first process hold
	Board    *board.Board
	Settings Settings
	Limit    memory.Bytes // that it may allocate on a device; 0: no limit
	// HostOf is equal for processes that pass host memory on to each other; "": it does so to
	// nobody.
	HostOf string
}

// Plane is the state of all devices, tasks and processes.
type Plane struct {
	cfg   Config
	sched *compute.Scheduler
	now   time.Duration

	processes map[ProcessID]*process
	tasks     map[compute.TaskID]*task
	devices   map[compute.Device]*device
	list      []*device // the same in the order in which they came: what each turn goes over
	offers    map[compute.Device]Offer

	events     []compute.Event // of this turn
	nextSched  time.Duration   // the scheduler's timer; 0 none
	nextBeat   time.Duration
	beats      uint64     // that have begun
	beating    []*process // that are still to have the present beat
	beaten     []*process // what beating is a part of; reused
	idling     []*section // idle, not confirmed yet
	held       []*seat    // newcomers waiting for acknowledgements
	nextAck    time.Duration
	flooding   []*process      // throttled
	stored     []board.Device  // gate words stored whose sleepers are not woken yet
	asked      []board.Device  // the same of wishes
	dozing     []*section      // stored as well, and nobody is in a hurry; see dozes
	wakeAt     time.Duration   // when they are woken
	fresh      []*seat         // the scheduler's first answer has just come
	rests      []*seat         // whose verdicts are carried out later; see rest
	dueRests   []*seat         // of those, whose are now
	newcomers  []compute.Grant // reused
	touched    []*device       // whose chooser is to be asked
	waiting    []*section      // whose client has not answered a wish yet
	nextDid    time.Duration   // when to look for answers
	looked     []*seat         // reused
	halted     int             // processes that are stopped
	delayed    bool            // the loop heard the calm later than it is to
	shut       int             // seats that the policy keeps out, with work or not
	ruled      ruled
	closeUntil time.Duration // the calm are looked at closely until then
	closeFor   time.Duration // for so long
	regime     uint64        // counts changes of what calm goes by
	newDevice  bool          // one came of which the server may not know
	mem        *keeper       // nil: memory is not managed
	sampledAt  time.Duration // when shares were sampled
	trace      *tracer       // nil: nobody traces
	ended      []TaskState   // the newest last

	stats Stats
}

// Stats counts what happened since the start.
type Stats struct {
	Edges  uint64 // wake-ups by clients
	Grants uint64 // gate words stored
	Wishes uint64 // wishes about channel groups stored
}

// New makes an empty plane at time 0.
func New(cfg Config, policy compute.Policy) *Plane {
	p := &Plane{
		cfg:       cfg.withDefaults(),
		sched:     compute.NewScheduler(policy),
		processes: map[ProcessID]*process{},
		tasks:     map[compute.TaskID]*task{},
		devices:   map[compute.Device]*device{},
		offers:    map[compute.Device]Offer{},
	}
	if cfg.Memory != nil {
		p.mem = newKeeper(*cfg.Memory)
	}
	return p
}

// Begin starts a turn. Whatever is told until Finish happened now; now never
// goes back.
func (p *Plane) Begin(now time.Duration) { p.now = max(p.now, now) }

// Add attaches a process. Its board must stay mapped until Remove.
func (p *Plane) Add(proc Process) {
	if _, ok := p.processes[proc.ID]; ok {
		return
	}
	t, ok := p.tasks[proc.Task]
	if !ok {
		t = &task{hints: proc.Hints}
		p.tasks[proc.Task] = t
	}
	t.processes++
	pr := &process{Process: proc}
	p.processes[proc.ID] = pr
	p.ratePassing()
	proc.Board.BeatDaemon()
	p.look(pr)
}

// Remove detaches a process; its board is not touched any more.
func (p *Plane) Remove(id ProcessID) {
	pr, ok := p.processes[id]
	if !ok {
		return
	}
	p.wake() // before the board goes
	for _, s := range pr.sections {
		if s != nil {
			p.leave(s)
		}
	}
	delete(p.processes, id)
	p.ratePassing()
	pr.gone = true
	if pr.stopped {
		p.halted--
	}
	p.flooding = slices.DeleteFunc(p.flooding, func(x *process) bool { return x == pr })
	t := p.tasks[pr.Task]
	if t.processes--; t.processes == 0 {
		p.taskEnded(pr.Task, t)
		delete(p.tasks, pr.Task)
	}
}

// SetHints changes a task's hints; a task that is gone is ignored.
func (p *Plane) SetHints(id compute.TaskID, hints compute.Hints) {
	if t, ok := p.tasks[id]; ok {
		t.hints = hints
		p.regime++
		p.events = append(p.events, compute.HintsChanged{Task: id, Hints: t.policyHints()})
		for _, st := range t.seats {
			st.device.chooser.SetRank(st.choice, hints.Priority)
			p.touch(st.device)
		}
	}
}

// SetPolicy changes the policy of all devices.
func (p *Plane) SetPolicy(policy compute.Policy) {
	p.regime++
	p.events = append(p.events, compute.PolicyChanged{Policy: policy})
	if p.trace != nil {
		p.trace.add(TraceEvent{At: p.now, Policy: policy.Name()})
	}
}

// SetStopped says whether a process is stopped (state T). A stopped one counts
// as idle.
func (p *Plane) SetStopped(id ProcessID, stopped bool) {
	pr, ok := p.processes[id]
	if !ok || pr.stopped == stopped {
		return
	}
	pr.stopped = stopped
	if stopped {
		p.halted++
	} else {
		p.halted--
	}
	for _, s := range pr.sections {
		if s == nil {
			continue
		}
		if stopped {
			p.stopIdling(s) // it will be heard when it goes on
			s.seat.requests = false
			p.count(s, false, p.now)
		} else {
			p.lookAt(s)
		}
		p.reassess(s.seat)
	}
}

// Edge says that a process rang its eventfd.
func (p *Plane) Edge(id ProcessID) {
	if pr, ok := p.processes[id]; ok {
		p.edge(pr)
	}
}

func (p *Plane) edge(pr *process) {
	if pr.gone {
		return
	}
	p.stats.Edges++
	if pr.stopped { // who rings runs
		p.SetStopped(pr.ID, false)
	}
	p.heard(pr)
	p.hear(pr)
}

// Finish ends a turn: the scheduler decides, gate words are stored, and what is
// due besides is done. It returns when the next turn is due at the latest.
func (p *Plane) Finish() (next time.Duration) {
	p.confirmIdle()
	p.touchDue()
	p.decide() // first: whoever rang waits for nothing that only looks around
	p.wake()
	p.carryRest()
	p.beat()
	p.unthrottle()
	p.pollDevices()
	p.lookForAnswers()
	if p.mem != nil {
		p.lookAtMemories()
	}
	p.decide()
	if p.mem != nil && len(p.events) > 0 { // the lengths of turns
		p.decide()
	}
	p.admitNewcomers()
	p.wake()
	p.wakeDozing()
	return p.next()
}

// decide asks the scheduler, if there is something to ask, and then how it is done.
func (p *Plane) decide() {
	if len(p.events) > 0 || p.nextSched != 0 && p.nextSched <= p.now {
		p.apply()
	} else if p.mem != nil {
		p.planMemory(false)
	}
	if len(p.touched) > 0 {
		p.settle()
	}
	if p.mem != nil {
		p.carryMemory()
	}
	p.admitFresh()
}

// apply asks the scheduler. Where nothing but gates is to be decided on, those with
// work have their answer, and are awake, before the gates of the others are gone over.
func (p *Plane) apply() {
	var out compute.Outcome
	more := false
	if p.onlyGates() {
		out, more = p.sched.ApplyFirst(p.now, p.events...)
	} else {
		out = p.sched.Apply(p.now, p.events...)
	}
	clear(p.events)
	p.events = p.events[:0]
	if p.mem != nil {
		p.planMemory(true)
	}
	p.carryOut(out.Grants)
	if len(p.dueRests) > 0 {
		p.carryDue()
	}
	if more {
		p.wake()
		out = p.sched.Apply(p.now)
		p.later(out.Grants)
	}
	p.nextSched = out.Next
}

// onlyGates says whether gates are all that is decided on.
func (p *Plane) onlyGates() bool {
	for _, d := range p.list {
		if d.tight() || !d.chooser.OnlyGates() {
			return false
		}
	}
	return true
}

// confirmIdle counts those idle that have stayed so for long enough.
func (p *Plane) confirmIdle() {
	later := p.idling[:0]
	for _, s := range p.idling {
		if s.idleAt > p.now {
			later = append(later, s)
			continue
		}
		// Watching ends before the look: an edge after it rings.
		s.process.Board.Device(s.index).Watch(false)
		s.view = s.process.Board.Snapshot(s.index)
		switch {
		case s.view.Ready: // it came back
			idle, was := p.wasIdle(s, s.idleEdge)
			if s.idleAt = 0; was {
				p.count(s, false, idle)
				p.count(s, true, p.readyAt(s))
			}
		case s.view.Edge != s.idleEdge: // it came back and is idle again, since when is known of the calm
			since := p.idleSince(s)
			if ready, had := p.hadMoreWork(s, since); had {
				p.count(s, false, s.idleAt-p.idleAfter(s))
				p.count(s, true, ready)
			}
			s.idleAt, s.idleEdge = since+p.idleAfter(s), s.view.Edge
			if s.idleAt <= p.now { // looked at late
				s.idleAt = 0
				p.count(s, false, since)
				continue
			}
			s.process.Board.Device(s.index).Watch(true)
			later = append(later, s)
		default:
			since := s.idleAt - p.idleAfter(s)
			s.idleAt = 0
			p.count(s, false, since)
		}
	}
	p.idling = later
}

// next is the time of the earliest timer.
func (p *Plane) next() time.Duration {
	if len(p.beating) > 0 || len(p.rests) > 0 || len(p.dozing) > 0 && p.wakeAt <= p.now {
		return p.now
	}
	t := p.nextBeat
	sooner := func(d time.Duration) {
		if d != 0 && d < t {
			t = d
		}
	}
	sooner(p.nextSched)
	if len(p.dozing) > 0 {
		sooner(p.wakeAt)
	}
	for _, s := range p.idling {
		switch {
		case s.process.calms:
			sooner(after(s.idleAt, p.lag()))
		case p.patient(s.seat.device):
			sooner(patiently(s.idleAt))
		default:
			sooner(s.idleAt)
		}
	}
	for _, st := range p.held {
		sooner(st.hold)
	}
	if len(p.held) > 0 {
		sooner(p.nextAck)
	}
	for _, d := range p.list {
		sooner(d.poll.at)
		sooner(d.chooser.Next())
	}
	if len(p.waiting) > 0 {
		sooner(p.nextDid)
	}
	if p.mem != nil {
		p.nextMemory(sooner)
	}
	for _, pr := range p.flooding {
		sooner(pr.flood.lookAt)
	}
	return t
}

// patience is how much later a timer may count somebody idle for whom nobody waits. Every
// edge counts those whose time has come, so that the timer has little to do where there
// are many, and whoever comes to wait makes one. Such timers are due at multiples of it:
// where edges are frequent most of them leave the timer as it stands.
const patience = time.Millisecond

// patiently is when a timer for that time may come.
func patiently(at time.Duration) time.Duration { return after(at, patience) }

// patient says whether nobody waits for anybody on a device.
func (p *Plane) patient(d *device) bool {
	return !d.tight() && len(p.idling) > 1 && d.poll.at == 0 && !d.needsPolling()
}

// Release lets everything go, in free run: the daemon goes.
func (p *Plane) Release() {
	for _, pr := range p.processes {
		for i, s := range pr.sections {
			if s == nil {
				continue
			}
			d := pr.Board.Device(i)
			if s.asked != (board.Wish{}) {
				s.asked = board.Wish{}
				s.want = d.Ask(s.want, s.asked)
				d.WakeWish()
			}
			s.grant = p.grantOf(s)
			s.grant.Open, s.grant.Mode = s.mem == nil || s.releaseMemory(), board.Free
			s.gate = d.Publish(s.gate, s.grant)
		}
	}
}
