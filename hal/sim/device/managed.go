package device

import (
	"fmt"

	"xmsched/hal/sim/model"
)

// Managed memory is one piece of this machine's memory that the client and the
// device both reach; prefetching it moves nothing but its home, which is what it
// is charged for and which copy engine a copy of it takes. A kernel that touches a
// block which is not at home on its device faults (fault.go), and the block comes.

// onHost is the home that is no device.
const onHost = int8(-1)

// block is one of a managed range's, all blockBytes of it. Protected by Device.mu.
type block struct {
	home   int8  // a device's number, or onHost
	copies uint8 // devices that have a copy to read as well, a bit each
	mostly bool  // advised to be read mostly: readers get copies, and it stays
}

// prefetchEngine is the copy engine that a prefetch takes.
func prefetchEngine(e *entry) model.Engine {
	if e.Kind == 1 {
		return model.CopyIn
	}
	return model.CopyOut
}

// managed finds a managed range that holds all of [addr, addr+n), and the numbers
// of its blocks that this touches. The caller releases it.
func (s *space) managed(addr, n uint64) (sp *span, first, last uint64, err error) {
	if sp, err = s.acquire(addr, n); err != nil {
		return nil, 0, 0, err
	}
	if sp.kind != managedMemory || n == 0 {
		s.release(sp)
		return nil, 0, 0, fmt.Errorf("%d bytes at %#x: %w", n, addr, errNotManaged)
	}
	return sp, (addr - sp.base) / blockBytes, (addr + n - 1 - sp.base) / blockBytes, nil
}

// prefetch changes the home of every block that its range touches. Blocks that the
// device has no room for stay where they are: the driver would move others out.
func (d *Device) prefetch(cmd *command) error {
	e, s := &cmd.entry, cmd.ch.ctx.owner.space
	if e.C == 0 {
		return nil
	}
	sp, first, last, err := s.managed(e.A, e.C)
	if err != nil {
		return fmt.Errorf("prefetch: %w", err)
	}
	defer s.release(sp)
	to := onHost
	if e.Kind == 1 {
		to = int8(min(int(e.Flags), len(d.gpus)-1))
	}
	for i := first; i <= last; i++ {
		if b := &sp.blocks[i]; b.mostly {
			d.copyTo(b, to)
		} else {
			d.moveTo(b, to)
		}
	}
	return nil
}

// on tells whether a device reads a block without a fault.
func (b *block) on(gpu int8) bool { return b.home == gpu || gpu >= 0 && b.copies>>gpu&1 != 0 }

// moveTo makes a place the block's only one, if it has room there.
func (d *Device) moveTo(b *block, to int8) {
	if b.home == to && b.copies == 0 || to != onHost && !b.on(to) && !d.gpus[to].capacity.Reserve(blockBytes) {
		return
	}
	for g := range d.gpus {
		if int8(g) != to && b.on(int8(g)) {
			d.gpus[g].capacity.Return(blockBytes)
		}
	}
	b.home, b.copies = to, 0
}

// copyTo gives a device a copy to read, if it has room. One for the host costs
// nothing and is not kept in mind.
func (d *Device) copyTo(b *block, to int8) {
	if to != onHost && !b.on(to) && d.gpus[to].capacity.Reserve(blockBytes) {
		b.copies |= 1 << to
	}
}

// leave gives back what a block takes.
func (d *Device) leave(b *block) {
	for g := range d.gpus {
		if b.on(int8(g)) {
			d.gpus[g].capacity.Return(blockBytes)
		}
	}
	b.home, b.copies = onHost, 0
}

// advise says of the blocks of [A, A+B) that they are read mostly (C), which must
// be all of a block, or no longer: then those with copies stay with one that has one.
func (d *Device) advise(c *client, req *request) result {
	sp, first, last, err := c.space.managed(req.A, req.B)
	if err != nil {
		return invalidValue
	}
	defer c.space.release(sp)
	begin, end := req.A-sp.base, req.A-sp.base+req.B
	for i := first; i <= last; i++ {
		b := &sp.blocks[i]
		if req.C != 0 {
			b.mostly = b.mostly || i*blockBytes >= begin && min((i+1)*blockBytes, sp.size) <= end
			continue
		}
		b.mostly = false
		for g := range d.gpus {
			if b.copies>>g&1 != 0 {
				d.moveTo(b, int8(g))
			}
		}
	}
	return success
}
