package preempt

import (
	"context"
	"runtime"
	"sync"
	"time"

	"xmsched/compute"
	"xmsched/preempt/internal/queue"
)

// XQueue is a preemptible command queue over a hardware queue. See [New].
type XQueue struct {
	hw     HardwareQueue
	device compute.Device
	born   time.Time
	tasks  sync.WaitGroup // the goroutines

	// Lock order: Scheduler.mu, then mu of one XQueue; never two XQueues'.
	mu        sync.Mutex
	machine   *queue.Machine
	out       queue.Outcome // the last
	commands  ring          // those that are not over
	config    LaunchConfig
	hints     compute.Hints
	scheduler *Scheduler
	task      compute.TaskID // in scheduler
	closing   bool
	broken    error

	// What is passed on when mu is released; see unlock.
	news    bool // the scheduler should look
	blocked bool // as the scheduler was told
	freed   []*Command

	watch    chan struct{} // closed when the queue may be drained or settled; nil while nobody looks
	launcher chan struct{} // wakes the launcher; nil until the first command that needs it
	markers  []placed
	tail     chan struct{} // wakes the completer
}

// placed is a marker in the hardware queue.
type placed struct {
	marker Marker
	upto   uint64 // the command it stands behind
}

// New makes an XQueue over a hardware queue. Its goroutines end with Close.
// Errors are *ConfigError, *compute.RangeError and ErrClosed of the scheduler.
func New(hw HardwareQueue, o Options) (*XQueue, error) {
	config, err := o.LaunchConfig.merge(LaunchConfig{DefaultThreshold, DefaultBatch})
	if err != nil {
		return nil, err
	}
	if err := o.Hints.Validate(); err != nil {
		return nil, err
	}
	q := &XQueue{
		hw: hw, device: hw.Device(), born: time.Now(), config: config, hints: o.Hints,
		machine: queue.New(machineConfig(config, o.Hints)),
		tail:    make(chan struct{}, 1),
	}
	q.tasks.Go(q.completeAll)
	if o.Scheduler != nil {
		if err := o.Scheduler.Add(q); err != nil {
			_ = q.Close(context.Background()) // empty: it ends at once
			return nil, err
		}
	}
	return q, nil
}

// Submit appends a command: launch launches its work on the hardware queue, and
// is called when the queue may run, after those of all earlier commands, on one
// goroutine of the queue (for CUDA with the stream's context current). It must
// not wait for commands of its own queue, and it must end what it began:
// a stream capture, say. Submit itself never waits.
//
// Errors are ErrClosed and *HardwareError.
func (q *XQueue) Submit(launch func() error) (*Command, error) {
	return q.SubmitAfter(launch)
}

// SubmitAfter is Submit for a command that is launched when certain others, of
// any queues, are done, however they ended. launch may be nil: then later
// commands wait behind the others, and nothing else happens.
//
// The scheduler knows of such waiting: what a running queue waits for runs, too,
// whatever the policy says. It does not know of waits that the program makes on
// the device itself (cuStreamWaitEvent), which can therefore stand still
// for as long as the policy stops the queue of the event.
func (q *XQueue) SubmitAfter(launch func() error, others ...*Command) (*Command, error) {
	c := &Command{queue: q, launch: launch}
	q.mu.Lock()
	if err := q.refuse(); err != nil {
		q.unlock()
		return nil, err
	}
	q.startLauncher()
	c.after = others
	q.append(c, len(others))
	q.unlock()
	for _, other := range others {
		other.queue.chain(other, c)
	}
	return c, nil
}

// chain has c wait for other, a command of q.
func (q *XQueue) chain(other, c *Command) {
	q.mu.Lock()
	if other.over {
		q.unlock()
		c.queue.unblock(c)
		return
	}
	other.dependents = append(other.dependents, c)
	q.apply(queue.Awaited{Command: other.seq}, false)
	q.unlock()
}

// unblock says that one of the commands that c waits for is over.
func (q *XQueue) unblock(c *Command) {
	q.mu.Lock()
	if !c.over { // else its number may be another's
		q.apply(queue.Unblocked{Command: c.seq}, false)
	}
	q.unlock()
}

// refuse says why nothing can be submitted. Precondition: mu is held.
func (q *XQueue) refuse() error {
	if q.closing {
		return ErrClosed
	}
	return q.broken
}

// append submits. Precondition: mu is held.
func (q *XQueue) append(c *Command, blockers int) {
	c.seq = q.machine.Submitted() + 1
	q.commands.push(c)
	q.apply(queue.Submitted{Blockers: blockers}, false)
}

// Begin submits a command that the caller itself launches, on its own thread:
// Begin returns when that may happen, and the caller launches and calls End. So
// nothing is handed to another thread, and the program keeps its thread-local
// state. Between the two nothing else of the queue is launched.
//
// Errors are ErrClosed, *HardwareError, ErrDropped, and ctx's.
func (q *XQueue) Begin(ctx context.Context) (*Command, error) {
	c := &Command{queue: q, direct: true}
	q.mu.Lock()
	if err := q.refuse(); err != nil {
		q.unlock()
		return nil, err
	}
	q.append(c, 0)
	if q.news {
		// The scheduler stops others, or this one, before the first launch.
		q.unlock()
		q.mu.Lock()
	}
	for {
		switch {
		case c.over:
			err := c.err
			q.unlock()
			return nil, err
		case q.out.Launch == c.seq:
			c.begun = true
			q.apply(queue.Begun{}, false)
			q.unlock()
			return c, nil
		}
		if c.turn == nil {
			c.turn = make(chan struct{}, 1)
		}
		q.unlock()
		select {
		case <-c.turn:
			q.mu.Lock()
		case <-ctx.Done():
			q.renounce(c)
			return nil, ctx.Err()
		}
	}
}

// renounce leaves a direct command to the launcher, which has nothing to launch.
func (q *XQueue) renounce(c *Command) {
	q.mu.Lock()
	if !c.over {
		c.direct = false
		q.startLauncher()
		q.wakeLauncher()
	}
	q.unlock()
}

// End says that the command that Begin gave has been launched; launched is
// nil, or why not. The command is done when the hardware has passed it. End says
// whether there was something to end: a second one does nothing.
func (c *Command) End(launched error) bool {
	q := c.queue
	q.mu.Lock()
	defer q.unlock()
	if !c.begun {
		return false
	}
	c.begun, c.failed = false, launched
	q.apply(queue.Launched{}, false)
	return true
}

// Launch calls launch, whose panic is an error like any other, and ends with
// what came of it.
func (c *Command) Launch(launch func() error) { c.End(run(launch)) }

// Do is Begin and Launch.
func (q *XQueue) Do(ctx context.Context, launch func() error) (*Command, error) {
	c, err := q.Begin(ctx)
	if err != nil {
		return nil, err
	}
	c.Launch(launch)
	return c, nil
}

// apply takes one event and does what follows. Precondition: mu is held; it is
// released for a moment when a marker is put. bound: the calling thread is.
func (q *XQueue) apply(e queue.Event, bound bool) {
	q.step(e)
	if q.out.Mark {
		q.mark(bound)
	}
}

// step is apply without putting markers.
func (q *XQueue) step(e queue.Event) {
	q.out = q.machine.Apply(q.now(e), e)
	q.reap()
	if q.out.Edge != queue.NoEdge {
		q.news = true
	}
	if b := q.machine.Blocked(); b != q.blocked {
		q.blocked, q.news = b, true
	}
	if q.out.Next != 0 || len(q.markers) > 0 {
		q.wakeCompleter()
	}
	if q.out.Launch != 0 {
		if c := q.commands.find(q.out.Launch); !c.direct {
			q.wakeLauncher()
		} else if c.turn != nil {
			c.poke()
		}
	}
	if !q.machine.Settled() {
		return
	}
	if q.watch != nil {
		close(q.watch)
		q.watch = nil
	}
	if q.closing {
		q.wakeCompleter()
	}
}

// now is the time, for the events with which the queue can come to rest; the
// others, which are the frequent ones, do without.
func (q *XQueue) now(e queue.Event) time.Duration {
	switch e.(type) {
	case queue.Submitted, queue.Begun, queue.Launched, queue.Marking, queue.Marked, queue.Awaited, queue.Unblocked:
		return 0
	}
	return time.Since(q.born)
}

// mark puts a marker. Precondition: mu is held.
func (q *XQueue) mark(bound bool) {
	q.step(queue.Marking{})
	upto := q.machine.Launched()
	q.mu.Unlock()
	marker, err := q.putMarker(bound)
	q.mu.Lock()
	if err == nil {
		q.markers = append(q.markers, placed{marker, upto})
	}
	q.step(queue.Marked{})
	if err != nil {
		q.breakDown("put a marker", err)
	}
}

func (q *XQueue) putMarker(bound bool) (Marker, error) {
	if !bound {
		unbind, err := q.bind()
		if err != nil {
			return nil, err
		}
		defer unbind()
	}
	return q.hw.Mark()
}

// bind prepares the calling thread, which stays locked until unbind.
func (q *XQueue) bind() (unbind func(), err error) {
	b, ok := q.hw.(Binder)
	if !ok {
		return func() {}, nil
	}
	runtime.LockOSThread()
	undo, err := b.Bind()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return func() {
		undo()
		runtime.UnlockOSThread()
	}, nil
}

// breakDown ends the queue by a failure of the hardware. Precondition: mu is held.
func (q *XQueue) breakDown(op string, err error) {
	if q.broken == nil {
		q.broken = &HardwareError{op, err}
		q.step(queue.Broken{})
	}
}

// reap ends the commands that the machine says are over.
func (q *XQueue) reap() {
	for q.commands.len() > 0 && q.commands.front().seq <= q.machine.Completed() {
		q.commands.pop().finish(q.broken)
	}
	for q.commands.len() > 0 && q.commands.back().seq > q.machine.Submitted() {
		err := q.broken
		if err == nil {
			err = ErrDropped
		}
		q.commands.popBack().finish(err)
	}
}

// unlock releases mu and passes on what has happened meanwhile.
func (q *XQueue) unlock() {
	news, freed, s := q.news, q.freed, q.scheduler
	q.news, q.freed = false, nil
	q.mu.Unlock()
	for _, c := range freed {
		c.queue.unblock(c)
	}
	if news && s != nil {
		s.look(q)
	}
}
