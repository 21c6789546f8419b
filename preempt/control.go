package preempt

import (
	"context"
	"fmt"

	"xmsched/compute"
	"xmsched/preempt/internal/queue"
)

// Wait is [Command.Wait].
func (q *XQueue) Wait(ctx context.Context, c *Command) error {
	if c.queue != q {
		return fmt.Errorf("wait: the command is of another queue")
	}
	q.mu.Lock()
	if c.over {
		err := c.err
		q.unlock()
		return err
	}
	if c.done == nil {
		c.done = make(chan struct{})
	}
	done := c.done
	q.apply(queue.Awaited{Command: c.seq}, false)
	q.unlock()
	select {
	case <-done:
		return c.err // written before done was closed, and not again
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WaitAll returns when every command submitted so far is over, or with ctx's
// error when that ends first. A command's own error is told by its Wait; the
// only one told here is *HardwareError.
func (q *XQueue) WaitAll(ctx context.Context) error {
	q.mu.Lock()
	if q.commands.len() == 0 {
		err := q.broken
		q.unlock()
		return err
	}
	last := q.commands.back()
	q.unlock()
	_ = q.Wait(ctx, last)
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.unlock()
	return q.broken
}

// Query says whether every submitted command is done, without waiting.
func (q *XQueue) Query() State {
	q.mu.Lock()
	defer q.unlock()
	return q.state()
}

func (q *XQueue) state() State {
	if q.machine.Drained() {
		return Idle
	}
	return Ready
}

// Info describes the queue as it stands.
func (q *XQueue) Info() Info {
	q.mu.Lock()
	defer q.unlock()
	return Info{
		Device: q.device, State: q.state(),
		Suspended: q.machine.Held(), Open: q.machine.Open(),
		Submitted: q.machine.Submitted(), Launched: q.machine.Launched(), Completed: q.machine.Completed(),
		LaunchConfig: q.config.inForce(), Hints: q.hints,
	}
}

// Suspend lets no further command out until Resume. A command that is being
// launched at this moment still goes; with SyncHardware Suspend returns when that
// and all before it are done. Suspending a suspended queue is no error.
//
// Errors are ErrClosed, and of the flags' waiting *HardwareError and ctx's;
// the queue is suspended all the same if the waiting came after.
func (q *XQueue) Suspend(ctx context.Context, flags SuspendFlags) error {
	if flags&WaitAll != 0 {
		if err := q.WaitAll(ctx); err != nil {
			return err
		}
	}
	rested := func() bool { return flags&WaitIdle == 0 || q.machine.Drained() }
	if err := q.when(ctx, rested, func() { q.step(queue.Held{Held: true}) }); err != nil {
		return err
	}
	if flags&SyncHardware == 0 {
		return nil
	}
	if err := q.when(ctx, q.machine.Settled, func() {}); err != nil {
		return err
	}
	return q.synchronize()
}

func (q *XQueue) synchronize() error {
	unbind, err := q.bind()
	if err == nil {
		err = q.hw.Synchronize()
		unbind()
	}
	if err != nil {
		q.mu.Lock()
		defer q.unlock()
		q.breakDown("synchronize", err)
		return q.broken
	}
	return nil
}

// when does something, with mu held, at a moment when a condition holds that can
// come true only when the queue settles.
func (q *XQueue) when(ctx context.Context, holds func() bool, do func()) error {
	for {
		q.mu.Lock()
		if err := q.refuse(); err != nil {
			q.unlock()
			return err
		}
		if holds() {
			do()
			q.unlock()
			return nil
		}
		watch := q.observe()
		q.unlock()
		select {
		case <-watch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// observe gives a channel that is closed when the queue has settled next, and
// has the end of what is outstanding seen soon. Precondition: mu is held.
func (q *XQueue) observe() <-chan struct{} {
	if q.watch == nil {
		q.watch = make(chan struct{})
	}
	watch := q.watch
	q.apply(queue.Awaited{Command: q.machine.Launched()}, false)
	return watch
}

// Resume undoes Suspend. What the scheduler says of the queue stands. The error
// is ErrClosed.
func (q *XQueue) Resume(flags ResumeFlags) error {
	q.mu.Lock()
	defer q.unlock()
	if q.closing {
		return ErrClosed
	}
	if flags&DropCommands != 0 {
		q.step(queue.Dropped{})
	}
	q.step(queue.Held{Held: false})
	return nil
}

// SetLaunchConfig changes what is set in c (above 0) and leaves the rest. It
// waits for nothing and may be called in any state of the queue. The error is
// a *ConfigError, and then nothing has changed.
func (q *XQueue) SetLaunchConfig(c LaunchConfig) error {
	q.mu.Lock()
	defer q.unlock()
	merged, err := c.merge(q.config)
	if err != nil {
		return err
	}
	q.config = merged
	q.apply(queue.Configured{Config: machineConfig(q.config, q.hints)}, false)
	return nil
}

// Hints are the queue's hints.
func (q *XQueue) Hints() compute.Hints {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hints
}

// SetHints replaces the queue's hints. They are kept whatever scheduler and
// policy the queue has, and take effect at once. The error is a
// *compute.RangeError.
func (q *XQueue) SetHints(h compute.Hints) error {
	return q.UpdateHints(func(old *compute.Hints) { *old = h })
}

// UpdateHints changes some of the hints. change must not call the queue.
func (q *XQueue) UpdateHints(change func(*compute.Hints)) error {
	q.mu.Lock()
	h := q.hints
	change(&h)
	if err := h.Validate(); err != nil {
		q.unlock()
		return err
	}
	q.hints = h
	q.apply(queue.Configured{Config: machineConfig(q.config, h)}, false)
	q.news = true
	q.unlock()
	return nil
}

// Close takes no more commands, lets those that are in the queue out, suspended
// or not, and returns when they are over and the queue's goroutines have ended.
// When ctx ends first, what has not been launched is dropped and ctx's error
// returned; the goroutines then end when the hardware is done. Closing a closed
// queue waits for the same.
func (q *XQueue) Close(ctx context.Context) error {
	q.mu.Lock()
	s := q.scheduler
	q.mu.Unlock()
	if s != nil {
		s.Remove(q)
	}
	q.mu.Lock()
	q.closing = true
	q.apply(queue.Closed{}, false)
	q.wakeCompleter()
	for !q.machine.Drained() {
		watch := q.observe()
		q.unlock()
		select {
		case <-watch:
			q.mu.Lock()
		case <-ctx.Done():
			q.mu.Lock()
			q.step(queue.Dropped{})
			q.wakeCompleter()
			q.unlock()
			return ctx.Err()
		}
	}
	err := q.broken
	q.wakeCompleter()
	q.unlock()
	q.tasks.Wait()
	return err
}
