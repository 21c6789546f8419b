package preempt

import (
	"time"

	"xmsched/compute"
	"xmsched/preempt/internal/queue"
)

// Limits and defaults of the launch configuration; they are XSched's.
const (
	MaxThreshold     = 65536
	DefaultThreshold = 16
	DefaultBatch     = 8
)

// DefaultIdleAfter is how long a queue has to be without commands until its
// scheduler takes it for idle, where no hint says otherwise. It bridges the
// time in which a program prepares its next command.
const DefaultIdleAfter = 200 * time.Microsecond

// LaunchConfig bounds what an XQueue hands to the hardware.
type LaunchConfig struct {
	// Threshold is how many commands are outstanding at most, 1 to
	// MaxThreshold. That many still run when the queue is suspended: small
	// stops soon, large keeps the hardware busy through hiccups of the program.
	Threshold int
	// Batch is how many commands share one completion marker, 1 to Threshold. A
	// threshold that is set alone leaves it: what is above counts as the threshold.
	// Large costs less; above half of Threshold the hardware may run dry.
	Batch int
}

// merge takes what is set in c over old. 0 and less is not set.
func (c LaunchConfig) merge(old LaunchConfig) (LaunchConfig, error) {
	if c.Threshold <= 0 {
		c.Threshold = old.Threshold
	}
	if c.Threshold > MaxThreshold {
		return old, &ConfigError{"threshold", c.Threshold, 1, MaxThreshold}
	}
	if c.Batch > c.Threshold {
		return old, &ConfigError{"batch", c.Batch, 1, c.Threshold}
	}
	if c.Batch <= 0 {
		c.Batch = old.Batch
	}
	return c, nil
}

// inForce is c as it holds now.
func (c LaunchConfig) inForce() LaunchConfig {
	c.Batch = min(c.Batch, c.Threshold)
	return c
}

// Options are what an XQueue starts with. The zero value is an XQueue with the
// default launch configuration that nobody but the program suspends.
type Options struct {
	LaunchConfig
	Scheduler *Scheduler // decides when the queue runs; nil: the program does
	Hints     compute.Hints
}

// SuspendFlags say what Suspend waits for. They can be combined.
type SuspendFlags uint32

const (
	// SyncHardware has Suspend return only when the hardware queue is empty.
	SyncHardware SuspendFlags = 1 << iota
	// WaitAll has Suspend begin when all commands submitted before it are done.
	WaitAll
	// WaitIdle has Suspend begin at a moment when no command is in the queue.
	WaitIdle
)

// ResumeFlags say what Resume does besides.
type ResumeFlags uint32

// DropCommands forgets the commands that have not been launched; they end with
// ErrDropped.
const DropCommands ResumeFlags = 1

// State is whether an XQueue has commands.
type State uint8

// States; the numbers are XSched's.
const (
	Idle  State = 1 // every submitted command is done
	Ready State = 2
)

func (s State) String() string {
	switch s {
	case Idle:
		return "idle"
	case Ready:
		return "ready"
	}
	return "invalid"
}

// Info is an XQueue at one moment.
type Info struct {
	Device compute.Device
	State  State
	// Suspended is the program's own doing, Open the scheduler's word; the
	// queue runs if it is open and not suspended.
	Suspended, Open                bool
	Submitted, Launched, Completed uint64 // commands so far; dropped ones do not count
	LaunchConfig
	Hints compute.Hints
}

// machineConfig puts together what the state machine needs.
func machineConfig(c LaunchConfig, h compute.Hints) queue.Config {
	idle := h.IdleAfter
	if idle == 0 {
		idle = DefaultIdleAfter
	}
	c = c.inForce()
	return queue.Config{Threshold: c.Threshold, Batch: c.Batch, IdleAfter: idle}
}
