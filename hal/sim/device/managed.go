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

// onHost is the home that is no device.
const onHost = int8(-1)

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
	to := onHost
	if e.Kind == 1 {
		to = int8(min(int(e.Flags), len(d.gpus)-1))
	}
	for i := (e.A - sp.base) / blockBytes; i <= (e.A+e.C-1-sp.base)/blockBytes; i++ {
		if from := sp.blocks[i]; from != to && (to == onHost || d.gpus[to].capacity.Reserve(blockBytes)) {
			if from != onHost {
				d.gpus[from].capacity.Return(blockBytes)
			}
			sp.blocks[i] = to
		}
	}
	return nil
}
