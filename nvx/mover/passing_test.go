package mover

import (
	"context"
	"errors"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/memory"
)

// slots is a Memory of which only slots are used, all of 32 MiB, and that counts as the
// library does.
type slots struct {
	Memory
	mu              sync.Mutex
	all, idle, kept memory.Bytes // protected by mu, as is made
	made            int
	refuses         bool // what others gave
}

const aSlot = memory.PieceBytes

func (m *slots) Pool(int) (all, idle memory.Bytes, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all, m.idle, nil
}

func (m *slots) Forgo(_ int, keep memory.Bytes) (memory.Bytes, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.kept > keep {
		m.kept, m.idle = m.kept-aSlot, m.idle+aSlot
	}
	return m.kept, nil
}

func (m *slots) Give(int) (int, memory.Bytes, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idle == 0 {
		return -1, 0, nil
	}
	m.idle -= aSlot
	fd, err := unix.MemfdCreate("slot", unix.MFD_CLOEXEC)
	return fd, aSlot, err
}

func (m *slots) Given(_ int, b memory.Bytes) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= b
	return nil
}

func (m *slots) Accept(_, fd int, b memory.Bytes) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || m.refuses {
		return errors.Join(os.ErrInvalid, err)
	}
	m.all, m.idle = m.all+b, m.idle+b
	return nil
}

func (m *slots) Slots(_, count int, size memory.Bytes) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.idle < memory.Bytes(count)*size {
		m.made, m.all, m.idle = m.made+1, m.all+size, m.idle+size
	}
	return nil
}

func (m *slots) List(int, []memory.Segment) ([]memory.Segment, error) {
	return []memory.Segment{{ID: 1, Bytes: aSlot}, {ID: 2, Bytes: aSlot}, {ID: 3, Bytes: aSlot}}, nil
}

// box is a Pool in this process: what it keeps are duplicates, as the daemon's are.
type box struct {
	mu     sync.Mutex
	kept   []int // protected by mu
	broken bool
}

func (b *box) Give(size memory.Bytes, fds []int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken || size != aSlot {
		return os.ErrClosed
	}
	for _, fd := range fds {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		b.kept = append(b.kept, own)
	}
	return nil
}

func (b *box) Take(size memory.Bytes, n int) ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken || size != aSlot {
		return nil, os.ErrClosed
	}
	n = min(n, len(b.kept))
	taken := b.kept[:n:n]
	b.kept = b.kept[n:]
	return taken, nil
}

func (b *box) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.kept)
}

// hostOrders is a Board that says how much of the host there may be.
type hostOrders struct {
	Board
	mu   sync.Mutex
	host memory.Bytes // protected by mu, as is word
	word uint32
}

func (o *hostOrders) Orders() (uint32, Orders) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.word, Orders{Managed: true, Prepare: true, Host: o.host}
}

func (o *hostOrders) set(host memory.Bytes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.host, o.word = host, o.word+1
}

func (o *hostOrders) WaitOrders(uint32, time.Duration) { time.Sleep(time.Millisecond) }

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%s: not within 2 s", what)
}

func openFiles(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestSlotsPassOn has a process whose part shrinks give up free slots and clean copies, also
// such as become free only later, and another take them before it makes any. Where nobody
// takes them, or the pool is broken, they are given back to the system.
func TestSlotsPassOn(t *testing.T) {
	before := openFiles(t)
	m, pool, orders := &slots{all: 8 * aSlot, idle: 2 * aSlot, kept: 2 * aSlot}, &box{}, &hostOrders{host: 8 * aSlot, word: 1}
	s := passingSection(m)
	ctx, stop := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() { s.passOn(ctx, orders, pool) })

	time.Sleep(10 * time.Millisecond)
	if pool.len() != 0 {
		t.Errorf("%d slots passed on within its part", pool.len())
	}
	orders.set(3 * aSlot)
	within(t, "free ones and copies", func() bool { return pool.len() == 4 })
	m.mu.Lock()
	if m.all != 4*aSlot || m.kept != 0 {
		t.Errorf("%v slots, %v kept, after 4 were passed on", m.all, m.kept)
	}
	m.idle += 2 * aSlot // memory came in
	m.mu.Unlock()
	within(t, "what became free", func() bool { return pool.len() == 5 })
	if all, idle, _ := m.Pool(0); all != 3*aSlot || idle != aSlot {
		t.Errorf("%v slots, %v idle; the part is 3", all, idle)
	}

	other := &slots{}
	k := stock{host: s.stock.host, now: s.now, pool: pool, stale: true}
	p, f, o := newPlanner(), Figures{Resident: 3 * aSlot}, Orders{Host: 3 * aSlot, Prepare: true}
	if _, err := k.step(other, 0, o, f, p); err != nil || other.made != 0 || other.all != 3*aSlot || pool.len() != 2 {
		t.Errorf("%d slots made, %v there, %d left in the pool: %v", other.made, other.all, pool.len(), err)
	}
	other.refuses = true
	if got := k.borrow(other, 0, aSlot, 1); got != 0 || pool.len() != 1 {
		t.Errorf("%d accepted that were refused, %d left", got, pool.len())
	}

	pool.mu.Lock()
	pool.broken = true
	pool.mu.Unlock()
	orders.set(2 * aSlot)
	within(t, "with a broken pool", func() bool { all, _, _ := m.Pool(0); return all == 2*aSlot })
	k.stale, other.all, other.idle = true, 0, 0
	if _, err := k.step(other, 0, o, f, p); err != nil || other.made != 1 {
		t.Errorf("%d slots made with a broken pool: %v", other.made, err)
	}
	stop()
	over.Wait()
	for _, fd := range pool.kept {
		_ = unix.Close(fd)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

// TestSlotsAreBorrowedBySize: of a batch of segments of several sizes each is asked for by its
// own, and no more than is missing. A size that no slot has would end the connection.
func TestSlotsAreBorrowedBySize(t *testing.T) {
	const mib = memory.MiB
	asked := asks{}
	s := newSection(0, Config{Memory: &slots{}, HostMemory: HostMemory})
	s.stock.pool = asked
	list := []memory.Segment{
		{ID: 1, Bytes: 32 * mib}, {ID: 2, Bytes: 32 * mib}, {ID: 3, Bytes: 32 * mib, Kept: true}, {ID: 4, Bytes: 32 * mib},
		{ID: 5, Bytes: 24 * mib}, {ID: 6, Bytes: 2 * mib}, {ID: 7, Bytes: 2 * mib},
	}
	address := uint64(1) << 40
	for i := range list {
		list[i].Address, list[i].Allocation = address, uint64(i+1)
		address += 1 << 30
	}
	if err := s.planner.table.Reset(list); err != nil {
		t.Fatal(err)
	}
	s.borrow([]memory.ID{1, 2, 3, 4, 5, 6, 7}, 123*mib)
	if want := (asks{32 * mib: 3, 24 * mib: 1, 2 * mib: 2}); !maps.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	clear(asked)
	s.borrow([]memory.ID{1, 2, 4}, 33*mib)
	if want := (asks{32 * mib: 2}); !maps.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	clear(asked)
	if s.borrow([]memory.ID{1}, 0); len(asked) != 0 {
		t.Errorf("asked for %v though nothing is missing", asked)
	}
}

// asks counts the slots that are asked for, and has none.
type asks map[memory.Bytes]int

func (a asks) Give(memory.Bytes, []int) error { return nil }

func (a asks) Take(size memory.Bytes, n int) ([]int, error) {
	a[size] += n
	return nil, nil
}

func passingSection(m Memory) *section {
	return newSection(0, Config{Memory: m, HostMemory: func() memory.HostFigures { return memory.HostFigures{Available: 64 * memory.GiB} }, now: func() time.Duration { return 0 }})
}

func fill(t *testing.T, b *box, n int) {
	for range n {
		fd, err := unix.MemfdCreate("slot", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		b.kept = append(b.kept, fd)
	}
}

// TestNoMoreIsBorrowedThanIsNeeded: three segments on the device, and three free slots for
// them: nothing is taken out of the pool, also not after each move.
func TestNoMoreIsBorrowedThanIsNeeded(t *testing.T) {
	m, pool := &slots{all: 3 * aSlot, idle: 3 * aSlot}, &box{}
	fill(t, pool, 20)
	s := passingSection(m)
	s.stock.pool = pool
	p, f, o := newPlanner(), Figures{Resident: 3 * aSlot}, Orders{Host: 64 * aSlot, Prepare: true}
	for range 5 { // moves
		s.stock.stale = true
		for range 10 {
			if d, err := s.stock.step(m, 0, o, f, p); err != nil || d == never {
				break
			}
		}
	}
	if pool.len() != 20 || m.all != 3*aSlot {
		t.Errorf("%v slots for 3 segments, %d of 20 left in the pool for others", m.all/aSlot, pool.len())
	}
}

// TestWhatWasPassedOnIsMadeAgain: what was passed on is made, or borrowed, again when the
// part grows.
func TestWhatWasPassedOnIsMadeAgain(t *testing.T) {
	m, pool := &slots{}, &box{}
	s := passingSection(m)
	s.stock.pool, s.stock.stale = pool, true
	p, f, o := newPlanner(), Figures{Resident: 3 * aSlot}, Orders{Host: 3 * aSlot, Prepare: true, Managed: true}
	run := func() {
		for range 10 {
			if d, err := s.stock.step(m, 0, o, f, p); err != nil || d == never {
				break
			}
		}
	}
	run()
	if m.idle != 3*aSlot {
		t.Fatalf("%v made ahead", m.idle)
	}
	o.Host = aSlot
	for over := s.beyond(o); over > 0 && s.give(pool, over); over = s.beyond(o) {
	}
	run()
	if m.all != aSlot {
		t.Fatalf("%v after 2 of 3 were passed on", m.all)
	}
	o.Host = 3 * aSlot
	run()
	if m.idle != 3*aSlot {
		t.Errorf("%v slots are ready for 3 segments, of a part of 3; %d in the pool", m.idle/aSlot, pool.len())
	}
}
