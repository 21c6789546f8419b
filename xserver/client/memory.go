package client

import (
	"context"

	xserverv1 "xmsched/xserver/api/v1"
)

// Variables by which xrun tells a program of memory.
const (
	// MemoryVariable is 1 where the daemon manages memory: the first allocation waits
	// for its word.
	MemoryVariable = "XMSCHED_MEMORY"
	// MemoryLogVariable is a file to which each move of memory is added, a line of JSON
	// each: what moved, and where the time went.
	MemoryLogVariable = "XMSCHED_MEMORY_LOG"
	// PinVariable is 1 where the process's memory is to stay on the device.
	PinVariable = "XMSCHED_PIN_MEMORY"
	// MemoryLimitVariable is what the process may allocate on a device, in bytes.
	MemoryLimitVariable = "XMSCHED_MEMORY_LIMIT"
)

// Memory tells where the memory is. Of the tasks it has those that the caller may see.
func (c *Client) Memory(ctx context.Context) (*xserverv1.MemoryStatsResponse, error) {
	r, err := c.api.MemoryStats(ctx, &xserverv1.MemoryStatsRequest{})
	return r, fromStatus(c.dir, err)
}

// MemoryChange is a change of how memory is managed; what is nil stays as it is.
type MemoryChange struct {
	Budget     *uint64 // bytes of each device that all tasks together may have
	HostBudget *uint64 // bytes of the host that moved memory may take; 0: as much as is sound
	Policy     *string
	// Limit is what each process of the target may allocate on a device, in bytes, and
	// those that it will have; 0: what the card has.
	Limit  *uint64
	Target Target
}

// SetMemory changes how memory is managed and returns what holds then.
func (c *Client) SetMemory(ctx context.Context, m MemoryChange) (*xserverv1.SetMemoryResponse, error) {
	r, err := c.api.SetMemory(ctx, &xserverv1.SetMemoryRequest{
		Budget: m.Budget, HostBudget: m.HostBudget, Policy: m.Policy,
		Limit: m.Limit, Task: m.Target.Task, Pid: int32(m.Target.PID),
	})
	return r, fromStatus(c.dir, err)
}
