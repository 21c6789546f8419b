package device

import (
	"fmt"

	"xmsched/hal/sim/model"
)

// Managed memory is one piece of this machine's memory that the client and the
// device both reach; prefetching it moves nothing but its home, which is what it
// is charged for and which copy engine a copy of it takes.

// prefetchEngine is the copy engine that a prefetch takes.
func prefetchEngine(e *entry) model.Engine {
	if e.Kind == 1 {
		return model.CopyIn
	}
	return model.CopyOut
}

// onDevice says whether the block of an address is at home on the device.
// Precondition: the address lies in the span.
func (sp *span) onDevice(addr uint64) bool { return sp.blocks[(addr-sp.base)/blockBytes] }

// prefetch changes the home of every block that its range touches. Blocks that the
// device has no room for stay where they are: the driver would move others out.
func (d *Device) prefetch(cmd *command) error {
	e, s := &cmd.entry, cmd.ch.ctx.owner.space
	if e.C == 0 {
		return nil
	}
	sp, err := s.acquire(e.A, e.C)
	if err != nil {
		return fmt.Errorf("prefetch: %w", err)
	}
	defer s.release(sp)
	if sp.kind != managedMemory {
		return fmt.Errorf("prefetch at %#x: %w", e.A, errNotManaged)
	}
	for i := (e.A - sp.base) / blockBytes; i <= (e.A+e.C-1-sp.base)/blockBytes; i++ {
		switch to := e.Kind == 1; {
		case sp.blocks[i] == to:
		case !to:
			d.capacity.Return(blockBytes)
			sp.charge -= blockBytes
			sp.blocks[i] = false
		case d.capacity.Reserve(blockBytes):
			sp.charge += blockBytes
			sp.blocks[i] = true
		}
	}
	return nil
}
