package preempt

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Command is one submitted piece of work. It can be waited for by anybody, any
// number of times, before and after its end.
type Command struct {
	queue  *XQueue
	launch func() error // nil: nothing to launch
	direct bool         // its submitter launches it
	ended  atomic.Bool  // over, for those who do not hold queue.mu

	// Protected by queue.mu.
	seq        uint64 // its number, while it is not over
	begun      bool   // of a direct command: between Begin and End
	over       bool
	err        error
	failed     error         // of the launch, until it is over
	done       chan struct{} // closed when over; nil while nobody waits
	turn       chan struct{} // tells the submitter of a direct command to look
	after      []*Command    // what it waits for
	dependents []*Command    // what waits for it
}

// Wait returns when the hardware has worked the command off, with the error
// of its launch or of the hardware, or ErrDropped; or with ctx's when that ends
// first.
func (c *Command) Wait(ctx context.Context) error { return c.queue.Wait(ctx, c) }

// Over says whether the command has ended, in whatever way.
func (c *Command) Over() bool { return c.ended.Load() }

// finish ends a command. Precondition: queue.mu is held.
func (c *Command) finish(err error) {
	c.over, c.launch, c.after = true, nil, nil
	if c.err = c.failed; c.err == nil {
		c.err = err
	}
	c.ended.Store(true)
	if c.done != nil {
		close(c.done)
	}
	if c.turn != nil {
		c.poke()
	}
	c.queue.freed = append(c.queue.freed, c.dependents...)
	c.dependents = nil
}

// poke has the submitter of a direct command look at it.
func (c *Command) poke() {
	select {
	case c.turn <- struct{}{}:
	default: // it has not looked since the last one
	}
}

// run launches a command; what goes wrong in the program's function is its
// command's error.
func run(launch func() error) (err error) {
	if launch == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	if err := launch(); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	return nil
}
