package mover

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/memory"
)

// piece is one copy.
type piece struct {
	to, from uint64
	bytes    memory.Bytes
}

// copier is a context of our own in the process: its copies run whatever the
// program's contexts do, and while they are suspended. It takes about 0.1 s to
// make, and 526 MiB of the device (h200.md); it lives as long as the process, or until it
// breaks.
//
// It is used by one goroutine, locked to its thread, on which open was called. Those of
// its own wait for what is under way, map and unmap.
type copier struct {
	memory  Memory
	section int
	driver  *cuda.Driver
	context *cuda.Context
	hasher  *hasher // nil: there is none, and noHash says why
	noHash  error
	lanes   [directions]*lane
	calls   chan memory.Step
	landed  chan landing
	waiters sync.WaitGroup
	failed  atomic.Int32 // flights that the device may still be at, for all that is known
}

// lane is one direction: a stream, and an event for each batch that may be under
// way in it.
type lane struct {
	stream cuda.Stream
	events [maxFlying]cuda.Event
	next   int
	flown  chan cuda.Event
	used   bool // channels of its own exist by now
}

// openCopier makes the context and leaves it current on the calling thread. spawn
// runs the goroutines that wait for copies; they end by close.
func openCopier(m Memory, section int, spawn func(func())) (*copier, error) {
	d, err := cuda.Adopt(m.Driver)
	if err != nil {
		return nil, err
	}
	number, err := m.Device(section)
	if err != nil {
		return nil, fmt.Errorf("device of section %d: %w", section, err)
	}
	device, err := d.Device(number)
	if err != nil {
		return nil, err
	}
	c := &copier{
		memory: m, section: section, driver: d, calls: make(chan memory.Step, maxCalls),
		landed: make(chan landing, 2*maxCalls),
	}
	err = c.unheld(func() (err error) {
		if c.context, err = d.NewContext(device, uint32(abi.CU_CTX_SCHED_BLOCKING_SYNC)); err != nil {
			return err
		}
		if err = c.openLanes(); err != nil {
			return errors.Join(err, c.context.Release())
		}
		// Without it everything is copied.
		if c.hasher, c.noHash = openHasher(d); c.noHash != nil {
			c.noHash = fmt.Errorf("no digests of memory: %w", c.noHash)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("context for moving memory: %w", err)
	}
	for way, l := range c.lanes {
		c.waiters.Add(1)
		spawn(func() { c.wait(direction(way), l) })
	}
	for range maxCalls {
		c.waiters.Add(1)
		spawn(c.call)
	}
	return c, nil
}

// unheld does what may make channels.
func (c *copier) unheld(f func() error) error {
	if err := c.memory.Unheld(c.section, true); err != nil {
		return err
	}
	return errors.Join(f(), c.memory.Unheld(c.section, false))
}

func (c *copier) openLanes() error {
	for way := range c.lanes {
		l := &lane{flown: make(chan cuda.Event, maxFlying)}
		var err error
		if l.stream, err = c.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
			return err
		}
		for i := range l.events {
			if l.events[i], err = c.driver.NewEvent(uint32(abi.CU_EVENT_BLOCKING_SYNC | abi.CU_EVENT_DISABLE_TIMING)); err != nil {
				return err
			}
		}
		c.lanes[way] = l
	}
	return nil
}

// close ends the goroutines, when what is under way has ended. The context stays:
// the process may be on its way out, where no driver may be called.
func (c *copier) close() {
	for _, l := range c.lanes {
		close(l.flown)
	}
	close(c.calls)
	c.waiters.Wait()
}

// start queues the copies of one batch; landed tells when they are done. After an
// error nothing of them is under way. Precondition: fewer than maxFlying batches
// are.
func (c *copier) start(way direction, pieces []piece) error {
	l := c.lanes[way]
	if l.used {
		return c.queue(l, pieces)
	}
	l.used = true
	return c.unheld(func() error { return c.queue(l, pieces) })
}

func (c *copier) queue(l *lane, pieces []piece) error {
	if err := c.memory.Flight(c.section, true); err != nil {
		return err
	}
	e := l.events[l.next]
	err := c.copies(l, pieces)
	if err == nil {
		err = e.Record(l.stream)
	}
	if err != nil {
		return errors.Join(err, c.ended(l.stream.Synchronize()))
	}
	l.next = (l.next + 1) % maxFlying
	l.flown <- e
	return nil
}

func (c *copier) copies(l *lane, pieces []piece) error {
	for _, p := range pieces {
		if err := c.driver.MemcpyAsync(abi.DevicePtr(p.to), abi.DevicePtr(p.from), uint64(p.bytes), l.stream); err != nil {
			return err
		}
	}
	return nil
}

// ended ends a flight. One that failed may be under way still, for all that anybody knows:
// it ends with the context.
func (c *copier) ended(err error) error {
	if err != nil {
		c.failed.Add(1)
		return err
	}
	return c.memory.Flight(c.section, false)
}

// failing says that something given to the device failed. False for nil.
func (c *copier) failing() bool { return c != nil && c.failed.Load() > 0 }

// broken says whether nothing can be had of the context any more: an error of the device's
// is for good. False for nil.
func (c *copier) broken() bool {
	if c == nil || c.failing() {
		return c != nil
	}
	_, err := c.lanes[out].stream.Query()
	return err != nil
}

// drop is the end of a context that is broken, and of all that it has in flight: the driver
// waits for what the device does when it destroys one (H200). The flights end also if that
// fails, as the process could never run again.
func (c *copier) drop() error {
	c.close()
	err := c.context.Release()
	for range c.failed.Load() {
		err = errors.Join(err, c.memory.Flight(c.section, false))
	}
	return err
}

// wait tells of each batch of a lane that it is done.
func (c *copier) wait(way direction, l *lane) {
	defer c.waiters.Done()
	runtime.LockOSThread() // and never unlocked: a context is current there
	current := c.context.SetCurrent()
	for e := range l.flown {
		c.landed <- landing{way: way, err: c.ended(errors.Join(current, e.Synchronize()))}
	}
}

// maxCalls is how many batches are mapped and unmapped at once: all that are under way.
const maxCalls = int(directions) * maxFlying

// call maps device memory for batches, or unmaps it, one at a time of the several that do so.
func (c *copier) call() {
	defer c.waiters.Done()
	for step := range c.calls {
		c.change(step)
	}
}

// errBroken is the end of a call that panicked; the panic goes on.
var errBroken = errors.New("internal error")

func (c *copier) change(step memory.Step) {
	began, err := time.Now(), errBroken
	defer func() { c.landed <- landing{call: true, step: step, took: time.Since(began), err: err} }()
	if step.Act == memory.Unmap {
		err = c.memory.Away(c.section, step.IDs)
	} else {
		err = c.memory.Load(c.section, step.IDs)
	}
}
