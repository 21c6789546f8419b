package plane

import (
	"slices"
	"time"

	"xmsched/compute"
	"xmsched/memory"
	"xmsched/preempt/board"
)

// Memory has the memory of the devices managed: package memory's planner of each
// device says what every process may have there, by the scheduler's timeline and by
// what the processes claim; the plane stores that on their boards, has those stopped
// whose memory moves, and takes in what they did. It moves nothing itself.
type Memory struct {
	// Budget is what all tasks together may have on each device. 0: what the card
	// has room for, by SetCard; until that is known nothing is managed there.
	Budget memory.Bytes
	Mode   memory.Mode
}

// Card is what an automatic budget is worked out from.
type Card struct {
	Bytes memory.Bytes // that the card has
	Own   memory.Bytes // that the driver takes for each process
}

// keeper is the part of a plane that looks after memory. A plane whose keeper is nil
// does nothing about it.
type keeper struct {
	cfg    Memory
	cards  map[compute.Device]Card
	links  map[compute.Device]*linkMeters // of those that have a sheet
	host   hostRoom
	ghosts map[ProcessID][]ghost
	keys   compute.TaskID // of the planners; never used twice

	// Processes of before a restart may be about to come back with memory of which
	// nothing is known yet. Until then nothing is given to anybody.
	awaits bool

	changed []*seat        // whose boards are to be brought to what was decided
	spare   []*seat        // to build the next such list in
	told    []board.Device // answers stored whose sleepers are not woken yet
	look    time.Duration  // next look at figures; 0: nothing is under way
	stirred time.Duration  // when figures last changed
}

// deviceMemory is a device's.
type deviceMemory struct {
	planner *memory.Planner // nil: the budget is not known
	own     memory.Bytes    // that the driver takes for each process
	link    *linkMeters

	claims []memory.Claim
	of     []*section // whose they are; nil: a ghost's
	shifts shifts

	touched   bool
	next      time.Duration // when to decide again without news; 0: never
	stops     time.Duration // when to look whether those who are to be Stopped are; 0: never
	short     bool          // they want more than there is
	near      bool          // they have most of it
	excess    memory.Bytes  // what they have beyond it; negative: they have less
	careful   bool          // somebody must not wait for host memory that is made, and nobody has to
	missed    memory.Bytes  // what those who come before others run without
	unsettled bool          // memory of some is away, or keeps them from running
	decided   memory.Decision
	evicting  bool // something is asked to give up memory for which the host has no room
}

// sectionMemory is a section's.
type sectionMemory struct {
	key   compute.TaskID // the planner's name for it
	limit memory.Bytes   // that the process may allocate; 0: no limit
	view  board.MemoryView

	target memory.Target
	fixed  memory.Bytes // that cannot be moved, as last decided on
	floor  memory.Bytes // of its managed memory, what stays as the host has no room for it
	aim    memory.Bytes // managed memory that it may have on the device
	number uint32       // the planner's of the target
	exact  bool         // the aim is what the planner said
	frozen bool         // the aim is what it had when nothing was known of others
	host   hostShare
	making time.Duration // until when more host memory of it may be expected to be made; 0: none

	// What its target sends to the host, there or not there room for it.
	wantsOut memory.Bytes
	stop     stopping

	// What it may still turn out to have though its target was lowered; see surprises.
	peak    memory.Bytes
	peakAt  time.Duration
	claimed memory.Bytes // what it had when it was last decided on

	word     uint32 // of the last answer; 0: none
	stored   board.Memory
	clearing bool // its gate stays closed until its memory is mapped again
	books    movement
	timing   timing
}

// seatMemory is what a task's memory has to do with whether it runs on a device.
type seatMemory struct {
	held  bool // it is to be Stopped: its memory moves
	rests bool // some of its memory is mapped to nothing; see keeps
	waits bool // another of those that do not fit together has its shift

	stands bool          // others have its turn while it is held
	worked time.Duration // when it last had work, as far as was decided on memory then; 0: never

	quantum time.Duration // for its turns; 0: the policy's own
	since   time.Duration // when it was held though the policy lets it run; 0: it is not
	lost    time.Duration // of this turn, by that
	over    time.Duration // by which this turn was prolonged for the next one's memory
	back    time.Duration // by which it was for what it stood still
	free    time.Duration // of that, what it is not charged for
	shift   aShift
}

// memoryKeeps says whether a task is to be Stopped for its memory. One whose memory
// is away stays so until it is to run: to map what is away takes 20 ms a GiB, and is
// done for what is still away then.
func (st *seat) memoryKeeps() bool { return st.mem.held || st.mem.rests && !st.mayGo() }

// tight says whether moving memory has a say in who runs on a device: the tasks there
// have most of what there is, or something of before is still to be put right. Where it
// has none, a device is as one whose memory is not managed.
func (d *device) tight() bool {
	return d.mem != nil && (d.mem.near || d.mem.unsettled)
}

// unsettled says whether memory of a task is away, or keeps it from running.
func (st *seat) unsettled() bool {
	return st.memoryStops() || st.mem.rests || st.memoryGone() || slices.ContainsFunc(st.sections, func(s *section) bool {
		return s.mem.clearing || s.mem.stored.Flags&board.MemoryDrained != 0
	})
}

// tellKept tells the chooser whom memory keeps from running, and whether that is news.
func (d *device) tellKept() (news bool) {
	for _, st := range d.seats {
		news = d.chooser.SetKept(st.choice, st.memoryStops()) || news
	}
	return news
}

// settleMemory takes in how tight a device is, and whom memory keeps from running.
func (p *Plane) settleMemory(d *device, before bool) {
	if d.tellKept() {
		p.touch(d)
	}
	d.mem.unsettled = slices.ContainsFunc(d.seats, (*seat).unsettled)
	if d.tight() != before {
		p.regime++
	}
}

// memoryStops says whether a task is kept from running by what is decided on memory.
func (st *seat) memoryStops() bool { return st.mem.waits || st.memoryKeeps() }

// mayGo says whether it is the task's turn and it has work.
func (st *seat) mayGo() bool { return st.open && st.ready > 0 && !st.mem.waits }

// memoryGone says whether memory of the task is mapped to nothing, or on the move.
func (st *seat) memoryGone() bool {
	for _, s := range st.sections {
		if s.mem.view.State&board.MemoryGone != 0 {
			return true
		}
	}
	return false
}

func newKeeper(cfg Memory) *keeper {
	return &keeper{cfg: cfg, cards: map[compute.Device]Card{}, links: map[compute.Device]*linkMeters{}, ghosts: map[ProcessID][]ghost{}}
}

// newKey names a section for a planner.
func (k *keeper) newKey() compute.TaskID {
	k.keys++
	return k.keys
}

// budget is that of a device, and what the driver takes for each process of it.
func (k *keeper) budget(id compute.Device) (budget, own memory.Bytes, known bool) {
	if k.cfg.Budget > 0 {
		return k.cfg.Budget, 0, true
	}
	card, ok := k.cards[id]
	return memory.DeviceBudget(card.Bytes, 0), card.Own, ok
}

// keep takes a device in.
func (p *Plane) keep(d *device) {
	d.mem = &deviceMemory{link: p.mem.meters(d.id)}
	p.fit(d)
}

// fit makes a device's planner, once its budget is known.
func (p *Plane) fit(d *device) {
	budget, own, known := p.mem.budget(d.id)
	if !known || d.mem.planner != nil {
		return
	}
	planner, err := memory.NewPlanner(memory.Config{Budget: budget, Mode: p.mem.cfg.Mode, Link: d.mem.link.rate()})
	if err != nil {
		return // a card that cannot be is as good as none
	}
	d.mem.planner, d.mem.own = planner, own
	p.consider(d)
}

// consider has the memory of a device decided on in this turn.
func (p *Plane) consider(d *device) { d.mem.touched = true }

// SetCard tells what a card has, for an automatic budget. The first word counts.
func (p *Plane) SetCard(id compute.Device, c Card) {
	if p.mem == nil {
		return
	}
	if _, ok := p.mem.cards[id]; ok {
		return
	}
	p.mem.cards[id] = c
	if d, ok := p.devices[id]; ok {
		_ = p.refit(d) // what cannot move may not fit: then it stays as it was
		p.consider(d)
	}
}

// SetLimit changes what a process may allocate on each device; 0: no limit. A
// process that is gone is ignored.
func (p *Plane) SetLimit(id ProcessID, limit memory.Bytes) {
	pr, ok := p.processes[id]
	if !ok || p.mem == nil {
		return
	}
	pr.Limit = limit
	for _, s := range pr.sections {
		if s != nil {
			s.mem.limit = limit
			p.consider(s.seat.device)
		}
	}
}

// SetAwaited says whether processes of before a restart may still come back.
func (p *Plane) SetAwaited(awaited bool) {
	if p.mem == nil || p.mem.awaits == awaited {
		return
	}
	p.mem.awaits = awaited
	if !awaited { // by what they say now, not by what they said when they last rang
		for _, pr := range p.processes {
			p.look(pr)
		}
	}
	p.considerAll()
}

// AllHaveTold says whether every process that is attached has told what memory it has:
// an agent moves its heartbeat on once its library has done so.
func (p *Plane) AllHaveTold() bool {
	for _, pr := range p.processes {
		if pr.Board.Health().Beat == 0 {
			return false
		}
	}
	return true
}

func (p *Plane) considerAll() {
	for _, d := range p.list {
		p.consider(d)
	}
}

// SetMemory changes how memory is managed. A budget that does not hold what cannot
// leave a device is refused with a *memory.BudgetError, and nothing is changed.
func (p *Plane) SetMemory(cfg Memory) error {
	if p.mem == nil {
		return nil
	}
	before := p.mem.cfg
	p.mem.cfg = cfg
	var done []*device
	for _, d := range p.list {
		if err := p.refit(d); err != nil {
			p.mem.cfg = before
			for _, d := range done {
				_ = p.refit(d) // it held before
			}
			return err
		}
		done = append(done, d)
	}
	p.considerAll()
	return nil
}

func (p *Plane) refit(d *device) error {
	budget, own, known := p.mem.budget(d.id)
	if d.mem.planner == nil || !known {
		p.fit(d)
		return nil
	}
	c := d.mem.planner.Config()
	c.Budget, c.Mode = budget, p.mem.cfg.Mode
	if err := d.mem.planner.Configure(c); err != nil {
		return err
	}
	d.mem.own = own
	return nil
}

// lookAtMemory takes in what a section's client claims of its memory.
func (p *Plane) lookAtMemory(s *section) {
	m := s.mem
	v := s.process.Board.MemoryView(s.index)
	if v == m.view {
		return
	}
	m.books.take(m.view, v, p.now, s.seat.open && s.seat.ready > 0)
	if v.In != m.view.In || v.Out != m.view.Out || v.Resident != m.view.Resident { // what is clean goes without being copied
		m.stop.progress(p.now)
	}
	if v.Slots > m.view.Slots {
		m.making = p.now + hostMakes
	}
	p.timeMoves(s, &m.view, &v)
	m.view = v
	p.mem.stirred = p.now
	if m.clearing && v.State&board.MemoryGone == 0 {
		m.clearing = false
		p.mem.changed = append(p.mem.changed, s.seat)
	}
	p.consider(s.seat.device)
}

const (
	// A client rings when a batch was moved. The looks find what it did not ring for,
	// and one that died in between costs no more than they do.
	memoryLook     = time.Millisecond
	memoryLookSlow = 5 * time.Millisecond
	// memoryStirs is how long after the last change looks are close.
	memoryStirs = 50 * time.Millisecond
)

// lookAtMemories looks at the figures of those who are to do something about them.
func (p *Plane) lookAtMemories() {
	k := p.mem
	if k.look > p.now || k.look == 0 && !slices.ContainsFunc(p.list, func(d *device) bool { return d.mem.unsettled }) {
		return
	}
	k.look = 0
	for _, pr := range p.processes {
		for _, s := range pr.sections {
			if s != nil && s.memoryMoves() {
				p.lookAtMemory(s)
				k.look = p.now + memoryLookSlow
			}
		}
	}
	if k.look != 0 && p.now-k.stirred < memoryStirs {
		k.look = p.now + memoryLook
	}
}

// memoryMoves says whether something is expected of the client that it may not ring
// for.
func (s *section) memoryMoves() bool { return s.mem.clearing || s.seat.mem.held }

// nextMemory is the earliest time at which memory is to be looked at or decided on.
func (p *Plane) nextMemory(sooner func(time.Duration)) {
	sooner(p.mem.look)
	sooner(p.mem.host.next)
	for _, d := range p.list {
		sooner(d.mem.next)
		sooner(d.mem.stops)
	}
}
