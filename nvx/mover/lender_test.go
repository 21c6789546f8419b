package mover

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/memory"
)

// owned is a segment of a lender's.
type owned struct {
	memory.Segment
	device, slot cuda.MemHandle // 0: none
	pool         abi.DevicePtr
}

// lender is a table of memory as the preload library has one, on the driver of
// this process: the same calls, states and refusals, made of the same driver calls.
type lender struct {
	driver *cuda.Driver
	device cuda.Device

	mu       sync.Mutex
	segments map[memory.ID]*owned // protected by mu, as is all below
	target   memory.Bytes
	stopped  bool
	moving   bool
	waiting  bool
	idle     memory.Bytes // in slots that Slots made, and nobody has taken
	all      memory.Bytes
	fail     func(call string) error
	lacks    string // a function that the driver does not have
	inert    string // one that does nothing, and succeeds
	spared   memory.Bytes
	batches  int
	flights  int
	passing  int // segments that were mapped to their slots while a copy was under way
	contexts int // how often somebody set about making one
}

func newLender(d *cuda.Driver, device cuda.Device) *lender {
	return &lender{driver: d, device: device, segments: map[memory.ID]*owned{}, fail: func(string) error { return nil }}
}

// allocate makes a segment on the device.
func (l *lender) allocate(id memory.ID, size memory.Bytes) error {
	at, err := l.driver.ReserveAddress(uint64(size))
	if err != nil {
		return err
	}
	s := &owned{Segment: memory.Segment{ID: id, Allocation: uint64(id), Address: uint64(at), Bytes: size}}
	l.segments[id] = s
	return l.toDevice(s)
}

func (l *lender) toDevice(s *owned) (err error) {
	if s.device, err = l.driver.CreateMem(l.device, uint64(s.Bytes)); err != nil {
		return err
	}
	return l.mapped(s.Address, s.Bytes, s.device)
}

func (l *lender) mapped(at uint64, size memory.Bytes, h cuda.MemHandle) error {
	if err := l.driver.Map(abi.DevicePtr(at), uint64(size), h); err != nil {
		return err
	}
	return l.driver.SetAccess(abi.DevicePtr(at), uint64(size), l.device)
}

func (l *lender) unmapped(s *owned) error {
	return l.driver.Unmap(abi.DevicePtr(s.Address), uint64(s.Bytes))
}

// stop is what a suspension does, resume the way back: what is away or half way
// in is mapped to its slot.
func (l *lender) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

func (l *lender) resume() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = true
	for l.moving {
		l.mu.Unlock()
		time.Sleep(100 * time.Microsecond)
		l.mu.Lock()
	}
	l.waiting, l.stopped = false, false
	for _, s := range l.segments {
		if s.State == memory.Loading {
			if err := errors.Join(l.unmapped(s), l.driver.ReleaseMem(s.device)); err != nil {
				return err
			}
		}
		if s.State == memory.Loading || s.State == memory.Away {
			s.State, s.device = memory.Host, 0
			l.unkeep(s)
			if err := l.mapped(s.Address, s.Bytes, s.slot); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lender) figures() (f Figures) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.figuresLocked()
}

func (l *lender) figuresLocked() (f Figures) {
	for _, s := range l.segments {
		if s.State.OnDevice() {
			f.Resident += s.Bytes
		} else {
			f.Host += s.Bytes
		}
	}
	return f
}

func (l *lender) List(_ int, into []memory.Segment) ([]memory.Segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	into = into[:0]
	for _, s := range l.segments {
		into = append(into, s.Segment)
	}
	return into, l.fail("list")
}

func (l *lender) Device(int) (int, error) { return 0, nil }

func (l *lender) Begin(int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.moving || l.waiting:
		return syscall.ECANCELED
	case !l.stopped:
		return syscall.EAGAIN
	}
	if err := l.fail("begin"); err != nil {
		return err
	}
	l.moving = true
	return nil
}

func (l *lender) End(int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.moving:
		return syscall.EPERM
	case l.flights > 0:
		return syscall.EBUSY
	}
	l.moving = false
	return nil
}

func (l *lender) Flight(_ int, begin bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case begin && !l.moving:
		return syscall.EPERM
	case begin:
		l.flights++
	default:
		l.flights--
	}
	return nil
}

func (l *lender) Wanted(int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

func (l *lender) Slots(_, count int, size memory.Bytes) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fail("slots"); err != nil {
		return err
	}
	if more := memory.Bytes(count)*size - l.idle; more > 0 { // of sizes it knows nothing
		l.idle += more
		l.all += more
	}
	return nil
}

func (l *lender) Trim(_ int, keep memory.Bytes) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all -= max(0, l.idle-keep)
	l.idle = min(l.idle, keep)
	return nil
}

func (l *lender) Pool(int) (all, idle memory.Bytes, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all, l.idle, nil
}

// Give: the descriptor is of nothing that the driver knows.
func (l *lender) Give(int) (fd int, bytes memory.Bytes, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fail("give"); err != nil || l.idle < memory.PieceBytes {
		return -1, 0, err
	}
	l.idle -= memory.PieceBytes
	fd, err = unix.MemfdCreate("slot", unix.MFD_CLOEXEC)
	return fd, memory.PieceBytes, err
}

func (l *lender) Given(_ int, bytes memory.Bytes) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all -= bytes
	return nil
}

func (l *lender) Accept(_, fd int, bytes memory.Bytes) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fail("accept"); err != nil {
		return err
	}
	l.idle, l.all = l.idle+bytes, l.all+bytes
	return nil
}

func (l *lender) Slot(_ int, id memory.ID) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.segments[id]
	if !l.moving {
		return 0, syscall.EPERM
	}
	if err := l.fail("slot"); err != nil {
		return 0, err
	}
	if s.State == memory.Device {
		l.unkeep(s)
	}
	if s.slot != 0 {
		return uint64(s.pool), nil
	}
	var err error
	if s.slot, err = l.driver.CreateHostMem(0, uint64(s.Bytes)); err != nil {
		return 0, err
	}
	if l.idle -= s.Bytes; l.idle < 0 {
		l.all -= l.idle
		l.idle = 0
	}
	if s.pool, err = l.driver.ReserveAddress(uint64(s.Bytes)); err != nil {
		return 0, err
	}
	return uint64(s.pool), l.mapped(uint64(s.pool), s.Bytes, s.slot)
}

// batch does something with each of the segments, all of which have to be in one
// of the states.
func (l *lender) batch(call string, ids []memory.ID, from []memory.State, f func(*owned) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.moving {
		return syscall.EPERM
	}
	if err := l.fail(call); err != nil {
		return err
	}
	l.batches++
	for _, id := range ids {
		if s := l.segments[id]; s == nil || !slices.Contains(from, s.State) {
			return syscall.EINVAL
		}
	}
	for _, id := range ids {
		if err := f(l.segments[id]); err != nil {
			return fmt.Errorf("%s of segment %d: %w", call, id, err)
		}
	}
	return nil
}

func (l *lender) Away(_ int, ids []memory.ID) error {
	return l.batch("away", ids, []memory.State{memory.Device, memory.Loading}, func(s *owned) error {
		if err := l.fail("away, one of several"); err != nil {
			return err
		}
		defer func() { s.State, s.device = memory.Away, 0 }()
		return errors.Join(l.unmapped(s), l.driver.ReleaseMem(s.device))
	})
}

func (l *lender) Load(_ int, ids []memory.ID) error {
	return l.batch("load", ids, []memory.State{memory.Host, memory.Away}, func(s *owned) error {
		if l.figuresLocked().Resident+s.Bytes > l.target {
			return syscall.ENOSPC
		}
		if s.State == memory.Host {
			if err := l.unmapped(s); err != nil {
				return err
			}
		}
		s.State = memory.Loading
		return l.toDevice(s)
	})
}

func (l *lender) Loaded(_ int, ids []memory.ID) error {
	return l.batch("loaded", ids, []memory.State{memory.Loading}, func(s *owned) error {
		s.State, s.Kept = memory.Device, true
		return nil
	})
}

func (l *lender) Home(_ int, ids []memory.ID) error {
	return l.batch("home", ids, []memory.State{memory.Away}, func(s *owned) error {
		if err := l.fail("home, one of several"); err != nil {
			return err
		}
		if s.State = memory.Host; l.flights > 0 {
			l.passing++
		}
		l.unkeep(s)
		return l.mapped(s.Address, s.Bytes, s.slot)
	})
}

func (l *lender) Spare(_ int, ids []memory.ID) error {
	l.mu.Lock()
	for _, id := range ids {
		if s := l.segments[id]; s == nil || !s.Kept {
			l.mu.Unlock()
			return syscall.ESTALE
		}
	}
	l.mu.Unlock()
	return l.batch("spare", ids, []memory.State{memory.Device}, func(s *owned) error {
		l.spared += s.Bytes
		defer func() { s.State, s.device, s.Kept = memory.Away, 0, false }()
		return errors.Join(l.unmapped(s), l.driver.ReleaseMem(s.device))
	})
}

// unkeep says that the segment's slot is to be written, or to go.
func (l *lender) unkeep(s *owned) {
	s.Kept = false
	s.Version++
}

func (l *lender) Forgo(_ int, keep memory.Bytes) (kept memory.Bytes, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		if !s.Kept {
			continue
		}
		if kept += s.Bytes; kept <= keep {
			continue
		}
		kept -= s.Bytes
		l.unkeep(s)
		err = errors.Join(err, l.driver.Unmap(s.pool, uint64(s.Bytes)), l.driver.FreeAddress(s.pool, uint64(s.Bytes)), l.driver.ReleaseMem(s.slot))
		s.slot, s.pool = 0, 0
		l.idle += s.Bytes
	}
	return kept, err
}

func (l *lender) Unheld(int, bool) error { return nil }

func (l *lender) Driver(symbol string) uintptr {
	if symbol == "cuInit" {
		l.mu.Lock()
		l.contexts++
		l.mu.Unlock()
	}
	if symbol == l.lacks {
		return 0
	}
	if symbol == l.inert {
		return purego.NewCallback(func() uintptr { return 0 })
	}
	p, err := l.driver.Proc(symbol)
	if err != nil {
		return 0
	}
	return p.Address()
}

// page is a board's section without a board.
type page struct {
	lender *lender

	mu      sync.Mutex
	changed *sync.Cond
	want    uint32 // protected by mu, as is all below
	orders  Orders
	holds   uint32
	wakes   int
	did     uint32
	heard   int // answers that were taken note of in a move
	rings   int
	stalled time.Duration
	open    bool

	working, exchange     memory.Bytes
	hashed, spared, wrong memory.Bytes
}

func newPage(l *lender) *page {
	p := &page{lender: l}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// order changes the answer.
func (p *page) order(o Orders) {
	p.lender.mu.Lock()
	p.lender.target = o.Target
	p.lender.mu.Unlock()
	p.change(func() { p.orders = o; p.want++ })
}

// hold says that what is held has changed.
func (p *page) hold() { p.change(func() { p.holds++ }) }

func (p *page) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

func (p *page) Orders() (uint32, Orders) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.want, p.orders
}

func (p *page) wait(word *uint32, old uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for wakes := p.wakes; *word == old && p.wakes == wakes; {
		p.changed.Wait()
	}
}

func (p *page) WaitOrders(old uint32, _ time.Duration) { p.wait(&p.want, old) }
func (p *page) WaitHolds(old uint32, _ time.Duration)  { p.wait(&p.holds, old) }
func (p *page) Wake()                                  { p.change(func() { p.wakes++ }) }
func (p *page) Figures() Figures                       { return p.lender.figures() }

func (p *page) Foreseen(working, exchange memory.Bytes) {
	p.change(func() { p.working, p.exchange = working, exchange })
}

func (p *page) Clean(hashed, spared, wrong memory.Bytes) {
	p.change(func() { p.hashed, p.spared, p.wrong = hashed, spared, wrong })
}

func (p *page) Holds() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds
}

func (p *page) Open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

func (p *page) Done(want uint32) {
	p.lender.mu.Lock()
	moving := p.lender.moving
	p.lender.mu.Unlock()
	p.change(func() {
		if p.did = want; moving {
			p.heard++
		}
	})
}

func (p *page) Stalled(total time.Duration) { p.change(func() { p.stalled = total }) }
func (p *page) Ring()                       { p.change(func() { p.rings++ }) }

func (p *page) told() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.did
}

func (p *page) heardInMoves() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}
