package mover

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"xmsched/memory"
)

const (
	// What keeps a move from beginning for a moment is tried again after soonest,
	// then twice that, up to soon; what failed, after later.
	soonest = time.Millisecond
	soon    = 16 * time.Millisecond
	later   = 100 * time.Millisecond
	latest  = time.Second
	// lastWait is for how long an engine that ends waits for a copy.
	lastWait = time.Second
)

// section moves the memory of one device.
type section struct {
	index  int
	memory Memory
	board  Board
	spawn  func(func())
	now    func() time.Duration
	ctx    context.Context
	bell   chan struct{} // something changed
	rung   bool          // it rang in a move

	planner *planner
	carrier carrier
	copier  *copier // nil: not made yet, or broken
	breaks  breaks
	stock   stock
	pieces  []piece
	undone  []memory.ID
	homing  homing

	uses     Uses        // nil: nothing is foreseen
	foreseen atomic.Bool // something else is
	vision   foresight

	clean        cleanBooks
	summer       summer // nil: none, or not yet
	wrap         func(summer) summer
	leastLook    time.Duration
	hashFailures int  // in a row
	looked       bool // at what goes out in this move
	gives        bool // this move brings nothing in
	haste        haste

	told    uint32 // the answer that was last told as taken note of
	tries   int    // in a row that failed or were refused
	stalled time.Duration
	waited  time.Duration // since when somebody waits for the move; 0: nobody
	trouble error         // what last kept memory from moving
	journal journal
}

func newSection(index int, c Config) *section {
	s := &section{
		index: index, memory: c.Memory, spawn: c.Go, now: c.now,
		bell: make(chan struct{}, 1), planner: newPlanner(), stock: stock{host: c.HostMemory, now: c.now},
		uses: c.Uses, clean: newCleanBooks(), wrap: c.sums, leastLook: c.look, breaks: breaks{first: c.mend},
		journal: journal{write: c.Journal},
	}
	s.carrier.world = s
	return s
}

// ring wakes the section; from any goroutine.
func (s *section) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// serve works for a board until ctx ends.
func (s *section) serve(ctx context.Context, b Board, p Pool) {
	runtime.LockOSThread() // and never unlocked: our context is current there
	s.ctx, s.board, s.stock.pool, s.told, s.tries = ctx, b, p, 0, 0
	s.vision = foresight{}
	if s.copier != nil {
		s.trouble = s.copier.context.SetCurrent()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		d := s.turn()
		if p := s.vision.pause; p > 0 && (d < 0 || d > p) {
			d = p
		}
		switch {
		case d == 0:
			continue
		case d > 0:
			timer.Reset(d)
		default:
			timer.Stop()
		}
		select {
		case <-s.bell:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// never is a pause that only the bell ends.
const never = time.Duration(-1)

// turn does what is to be done at this moment, and says when to look again.
func (s *section) turn() time.Duration {
	want, o := s.board.Orders()
	if want == 0 || !o.Managed {
		return never
	}
	f := s.board.Figures()
	s.foresee(o, f)
	n := needs(f, o.Target)
	if n == nothing && s.vision.exchange > 0 {
		n = swap
	}
	// Nothing that an older answer allowed is under way. Of one that takes memory back the
	// daemon is told before all of it is gone, so that what is gone by then is others' at once.
	s.tell(want)
	if n == nothing {
		s.tries = 0
		return s.prepare(o, f)
	}
	if pause, ok := s.open(); !ok {
		return pause
	}
	switch err := s.memory.Begin(s.index); {
	case err == nil:
		s.journal.begin(s, want, o, f)
		return s.move(n)
	case errors.Is(err, syscall.EAGAIN): // it runs
		d := s.prepare(o, f)
		if o.Drained && d < 0 {
			return s.again(soonest, soon) // nobody tells when the last command is done
		}
		return d
	case errors.Is(err, syscall.ECANCELED):
		return s.again(soonest, soon)
	default:
		s.trouble = fmt.Errorf("begin: %w", err)
		return never
	}
}

// again is how long to wait before the next of several tries.
func (s *section) again(first, last time.Duration) time.Duration {
	d := min(first<<min(s.tries, 20), last)
	s.tries++
	return d
}

func (s *section) tell(want uint32) {
	if want != s.told {
		s.told = want
		s.board.Done(want)
		s.board.Ring()
	}
}

// open makes the context that copies; false: there is none, and for how long to wait until
// it is tried again.
func (s *section) open() (pause time.Duration, ok bool) {
	if s.copier != nil {
		return 0, true
	}
	if d := s.breaks.rest(s.now()); d != 0 {
		return d, false
	}
	c, err := openCopier(s.memory, s.index, s.spawn)
	if err != nil {
		s.trouble = err
		if s.breaks.n > 0 && !short(err) {
			s.breaks.broke(s.now())
		}
		return s.again(later, latest), false
	}
	s.copier, s.trouble = c, c.noHash
	if c.hasher != nil && s.hashFailures < maxHashFailures {
		s.summer = c.hasher
		if s.wrap != nil {
			s.summer = s.wrap(c.hasher)
		}
	}
	return 0, true
}

// prepare makes ready for moves that will come: a step of it at a time.
func (s *section) prepare(o Orders, f Figures) time.Duration {
	if !o.Prepare && o.Target >= f.Resident+f.Host {
		return never
	}
	if pause, ok := s.open(); !ok {
		return pause
	}
	d, err := s.stock.step(s.memory, s.index, o, f, s.planner)
	if err != nil {
		s.trouble = err
	}
	return d
}

// move carries out a plan for what is asked for now. Precondition: Begin
// succeeded.
func (s *section) move(n need) time.Duration {
	began := s.now()
	s.waited = 0
	if s.board.Open() {
		s.waited = began
	}
	o, err := s.carry()
	s.account()
	if s.rung {
		s.rung = false
		s.ring()
	}
	switch {
	case o.lost:
		s.trouble = errLost
	case err != nil:
		s.trouble = err
	case o.err != nil:
		s.trouble = o.err
	}
	s.journal.end(s, o)
	s.stock.stale, s.vision.stale, s.vision.at = true, true, 0
	s.board.Clean(s.clean.hashed, s.clean.spared, s.clean.wrong)
	if o.lost {
		return never
	}
	if n == swap && !o.cut {
		s.vision.exchanged(o.In > 0, s.now())
	}
	if o.Out-o.Spared+o.In > 0 && o.err == nil {
		s.breaks.worked()
	}
	if o.Out+o.In > 0 {
		s.tries = 0
		s.board.Ring()
		return 0
	}
	if err != nil || o.err != nil {
		return s.again(later, latest)
	}
	switch {
	case o.starved:
		return never
	case s.waited != 0: // it was wanted at once
		return s.again(soonest, soon)
	}
	return s.again(soon, latest) // what there is to move is in use, or stays for good
}

// carry makes the plan, carries it out and ends the move, whatever happens.
func (s *section) carry() (o outcome, err error) {
	sound := false
	defer func() {
		if sound {
			s.mend()
		} else { // a panic, which goes on: no copy is left behind
			s.drain()
		}
		if e := s.memory.End(s.index); e != nil && err == nil && !o.lost {
			err = fmt.Errorf("end: %w", e)
		}
	}()
	if s.planner.list, err = s.memory.List(s.index, s.planner.list); err != nil {
		sound = true
		return o, fmt.Errorf("list: %w", err)
	}
	s.undo()
	_, orders := s.board.Orders()
	s.look(orders)
	aim, err := s.planner.make(orders.Target, s.board.Open())
	if err != nil {
		sound = true
		return o, fmt.Errorf("plan: %w", err)
	}
	s.compare()
	s.homing.begin(&s.planner.plan)
	s.gives = len(s.planner.plan.In) == 0
	defer func() { s.gives = false }()
	o = s.carrier.carry(&s.planner.table, &s.planner.plan, aim)
	sound = true
	if s.looked && len(s.planner.plan.Out) > 0 && o.err == nil {
		s.haste.took(o.Out == 0 && s.waited != 0)
	}
	if !o.lost {
		err = s.learn(o)
	}
	if !o.lost && o.err == nil && err == nil {
		err = s.settle()
	}
	return o, err
}

// undo takes back what an earlier move loaded in vain and could not undo.
func (s *section) undo() {
	s.undone = s.undone[:0]
	for i := range s.planner.list {
		if s.planner.list[i].State == memory.Loading {
			s.undone = append(s.undone, s.planner.list[i].ID)
		}
	}
	if len(s.undone) == 0 || s.memory.Away(s.index, s.undone) != nil {
		return
	}
	for i := range s.planner.list {
		if s.planner.list[i].State == memory.Loading {
			s.planner.list[i].State = memory.Away
		}
	}
}

// drain waits for the copies that are under way, for as long as is decent.
func (s *section) drain() {
	limit := time.After(lastWait)
	for s.carrier.aloft() {
		select {
		case l := <-s.copier.landed:
			s.carrier.landed(l)
		case <-limit:
			return
		}
	}
}

// account adds up for how long the process stood still for this move.
func (s *section) account() {
	if s.waited == 0 {
		return
	}
	s.stalled += s.now() - s.waited
	s.board.Stalled(s.stalled)
}

// --- the carrier's world ------------------------------------------------------

func (s *section) do(step memory.Step) (err error) {
	s.journal.spend(step.Act.String(), func() { err = s.carryOut(step) })
	return err
}

func (s *section) carryOut(step memory.Step) (err error) {
	switch step.Act {
	case memory.Reserve:
		return s.reserve(step)
	case memory.Restore:
		err = s.memory.Away(s.index, step.IDs)
	case memory.Drop:
		err = s.drop(step)
	case memory.Commit:
		err = s.memory.Loaded(s.index, step.IDs)
	}
	s.board.Ring()
	return err
}

// reserve takes a slot for each segment, as far as host memory allows. Those that were
// kept have one.
func (s *section) reserve(step memory.Step) error {
	_, o := s.board.Orders()
	var more memory.Bytes
	for _, id := range step.IDs {
		more += s.slotless(id)
	}
	if err := s.stock.room(s.memory, s.index, more, o); err != nil {
		return err
	}
	if _, idle, err := s.memory.Pool(s.index); err == nil {
		s.borrow(step.IDs, more-idle)
	}
	for _, id := range step.IDs {
		if _, err := s.memory.Slot(s.index, id); err != nil {
			return fmt.Errorf("slot of segment %d: %w", id, err)
		}
	}
	return nil
}

func (s *section) call(step memory.Step) { s.copier.calls <- step }

func (s *section) fly(step memory.Step) (err error) {
	s.journal.spend(step.Act.String(), func() { err = s.launch(step) })
	return err
}

func (s *section) launch(step memory.Step) error {
	s.pieces = s.pieces[:0]
	var slot uint64
	var of memory.ID
	for p := range s.planner.table.Pieces(step.IDs) {
		if p.Segment != of {
			var err error
			if slot, err = s.memory.Slot(s.index, p.Segment); err != nil {
				return fmt.Errorf("slot of segment %d: %w", p.Segment, err)
			}
			of = p.Segment
		}
		c := piece{to: slot + uint64(p.Offset), from: p.Address, bytes: p.Bytes}
		if step.Act == memory.CopyIn {
			c.to, c.from = c.from, c.to
		}
		s.pieces = append(s.pieces, c)
	}
	return s.copier.start(way(step.Act), s.pieces)
}

func (s *section) await() (l landing, ended bool) {
	if s.inPassing() {
		return l, false
	}
	s.journal.spend("wait", func() { l, ended = s.wait() })
	if l.call {
		s.journal.spent(l.step.Act.String(), l.took)
		s.board.Ring()
	}
	return l, ended
}

func (s *section) wait() (landing, bool) {
	done := s.ctx.Done()
	if s.ctx.Err() != nil {
		done = nil // the copies are waited for all the same
	}
	select {
	case l := <-s.copier.landed:
		return l, true
	case <-s.bell:
		s.rung = true // what rang is looked at again after the move
	case <-done:
	}
	return landing{}, false
}

// A move lingers for as long as it takes a batch of another task to go, or to come, and that
// to be heard of. Whether the process is wanted nobody tells.
const (
	lingers     = 4 * time.Millisecond
	lingerLooks = 200 * time.Microsecond
)

func (s *section) linger(outward bool) (moved bool) {
	s.journal.spend("linger", func() { moved = s.targetMoves(outward) })
	return moved
}

func (s *section) targetMoves(outward bool) bool {
	before := s.target()
	look := time.NewTicker(lingerLooks)
	defer look.Stop()
	for end := s.now() + lingers; s.now() < end && !s.wanted(); {
		select {
		case <-s.bell:
			s.rung = true
		case <-look.C:
		}
		if t := s.target(); t != before {
			return t > before != outward
		}
	}
	return false
}

func (s *section) wanted() bool {
	if s.ctx.Err() != nil {
		return true
	}
	if !s.memory.Wanted(s.index) {
		return false
	}
	if s.waited == 0 {
		s.waited = s.now()
	}
	return true
}

// target is the daemon's at this moment. As long as nothing comes in nothing that an older
// answer allowed is under way, and what has gone is others' as soon as the daemon knows that
// this one holds.
func (s *section) target() memory.Bytes {
	want, o := s.board.Orders()
	if s.gives {
		s.tell(want)
	}
	return o.Target
}
