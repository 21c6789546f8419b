package mover

import (
	"context"

	"golang.org/x/sys/unix"

	"xmsched/memory"
)

// Pool passes slots on between the processes of a user that have one device. What it holds
// is nobody's; where it holds none, or does not answer, each process makes its own. From any
// goroutine.
type Pool interface {
	// Give passes slots of that size on, by descriptors that stay the caller's. Those that it
	// does not keep are gone when they are closed.
	Give(size memory.Bytes, fds []int) error
	// Take returns descriptors of up to n slots of that size, which the caller closes.
	Take(size memory.Bytes, n int) (fds []int, err error)
}

// passed is how many slots are passed on at once: to export one and to map one takes 2 ms
// for 32 MiB together, where to ask the daemon takes 0.1.
const passed = 4

// passOn gives what is beyond the process's part of the host to whoever takes it, until ctx
// ends; also while memory moves, as what goes out of another process may wait for it.
func (s *section) passOn(ctx context.Context, b Board, p Pool) {
	for ctx.Err() == nil {
		want, o := b.Orders()
		over := s.beyond(o)
		if over > 0 && s.give(p, over) {
			continue
		}
		limit := latest
		if over > 0 { // slots become free as memory comes in
			limit = soon / 4
		}
		b.WaitOrders(want, limit)
	}
}

// beyond is by how much the process has more of the host than its part.
func (s *section) beyond(o Orders) memory.Bytes {
	all, _, err := s.memory.Pool(s.index)
	if err != nil || !o.Managed || o.Host == 0 {
		return 0
	}
	return max(0, all-o.Host)
}

// give passes some slots on; false: none is free. Clean copies are given up for that.
func (s *section) give(p Pool, over memory.Bytes) (some bool) {
	if _, idle, err := s.memory.Pool(s.index); err != nil || idle < over && forgo(s.memory, s.index, over-idle) != nil {
		return false
	}
	var of, sum memory.Bytes // the size of those in fds, and of all
	var fds []int
	pass := func() {
		if len(fds) > 0 {
			_ = p.Give(of, fds) // what it does not keep is given back to the system
		}
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		fds = fds[:0]
	}
	for n := 0; n < passed && sum < over; n++ {
		fd, size, err := s.memory.Give(s.index)
		if err != nil || size == 0 {
			break
		}
		if size != of {
			pass()
			of = size
		}
		if sum += size; fd >= 0 {
			fds = append(fds, fd)
		}
	}
	pass()
	if sum > 0 {
		s.stock.gave.Store(true)
	}
	return sum > 0 && s.memory.Given(s.index, sum) == nil
}

// borrow takes up to n slots of a size that others gave, and says how many.
func (k *stock) borrow(m Memory, section int, size memory.Bytes, n int) (got int) {
	for k.pool != nil && n > 0 {
		want := min(n, passed)
		fds, err := k.pool.Take(size, want)
		if err != nil {
			break
		}
		for _, fd := range fds {
			if m.Accept(section, fd, size) == nil {
				got++
			}
			_ = unix.Close(fd)
		}
		if n -= want; len(fds) < want {
			break
		}
	}
	return got
}

// slotless is the size of a segment that has no slot; 0: it has one.
func (s *section) slotless(id memory.ID) memory.Bytes {
	if seg, _ := s.planner.table.Get(id); !seg.Kept {
		return seg.Bytes
	}
	return 0
}

// borrow takes slots that others gave for so much of what is to go and has none, size by size.
func (s *section) borrow(ids []memory.ID, missing memory.Bytes) {
	for len(ids) > 0 && missing > 0 {
		size, n := s.slotless(ids[0]), 1
		for n < len(ids) && s.slotless(ids[n]) == size {
			n++
		}
		ids = ids[n:]
		if size > 0 {
			n = min(n, int((missing+size-1)/size))
			s.stock.borrow(s.memory, s.index, size, n)
			missing -= memory.Bytes(n) * size
		}
	}
}
