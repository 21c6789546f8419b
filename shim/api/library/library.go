package library

import (
	"context"
	"fmt"
	"sync"
	"time"

	"xmsched/compute"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/preempt"
)

// Launch calls the caller's callback of a command.
type Launch func(hardware uint64) error

// Library is what one process has: its handles and its scheduler.
type Library struct {
	hardware table[hardware]
	queues   table[xqueue]
	commands table[command]
	recent   recent

	mu        sync.Mutex         // of what is made, destroyed and scheduled
	streams   map[uintptr]uint64 // hardware queues of CUDA streams
	scheduler *preempt.Scheduler // nil: the program schedules
	common    compute.Hints      // those that are for all queues
}

type hardware struct {
	handle uint64
	queue  preempt.HardwareQueue
	stream *preempt.Stream // nil: not a CUDA stream
	number uintptr         // the stream's handle
	xqueue uint64          // the XQueue on it, protected by Library.mu; 0: none
}

type xqueue struct {
	*preempt.XQueue
	hardware *hardware
	direct   bool // XQueueSubmit launches on the caller's thread
}

type command struct {
	launch Launch // nil: the caller launches

	mu     sync.Mutex
	busy   bool    // it is being submitted
	queue  *xqueue // it was submitted to; nil: to none yet
	issued *preempt.Command
}

// New returns a library without queues, in which the program schedules.
func New() *Library {
	return &Library{
		hardware: newTable[hardware]("hardware queue"), queues: newTable[xqueue]("XQueue"),
		commands: newTable[command]("command"), streams: make(map[uintptr]uint64),
	}
}

// CreateStream gives the hardware queue of a CUDA stream.
func (l *Library) CreateStream(number uintptr) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.streams[number]; ok {
		return h, nil
	}
	driver, err := cuda.Open()
	if err != nil {
		return 0, refuse(NotSupported, "%v", err)
	}
	s, err := preempt.CUDAStream(driver, cuda.Stream{Handle: abi.Stream(number)})
	if err != nil {
		if Code(err) == NotSupported {
			return 0, err
		}
		return 0, refuse(InvalidValue, "%v", err) // the driver does not know the stream, or has no context
	}
	h := l.addHardware(&hardware{queue: s, stream: s, number: number})
	l.streams[number] = h
	return h, nil
}

// FindStream gives the hardware queue that CreateStream made.
func (l *Library) FindStream(number uintptr) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.streams[number]; ok {
		return h, nil
	}
	return 0, refuse(NotFound, "stream %#x has no hardware queue", number)
}

// CreateHardware gives a hardware queue of the caller's making.
func (l *Library) CreateHardware(q preempt.HardwareQueue) uint64 {
	return l.addHardware(&hardware{queue: q})
}

func (l *Library) addHardware(h *hardware) uint64 {
	h.handle = l.hardware.add(h)
	return h.handle
}

// DestroyHardware forgets a hardware queue that has no XQueue.
func (l *Library) DestroyHardware(handle uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.hardware.get(handle)
	if err != nil {
		return err
	}
	if h.xqueue != 0 {
		return refuse(NotAllowed, "XQueue %#x stands on the hardware queue: destroy it first", h.xqueue)
	}
	l.hardware.remove(handle)
	if h.stream == nil {
		return nil
	}
	delete(l.streams, h.number)
	return h.stream.Close()
}

// LaunchHardware launches a command past all XQueues.
func (l *Library) LaunchHardware(handle, cmd uint64) error {
	h, err := l.hardware.get(handle)
	if err != nil {
		return err
	}
	c, err := l.commands.get(cmd)
	if err != nil {
		return err
	}
	if c.launch == nil {
		return refuse(NotAllowed, "command %#x was launched by its caller", cmd)
	}
	return c.launch(h.handle)
}

// SyncHardware waits until a hardware queue is empty.
func (l *Library) SyncHardware(handle uint64) error {
	h, err := l.hardware.get(handle)
	if err != nil {
		return err
	}
	if err := h.queue.Synchronize(); err != nil {
		return &preempt.HardwareError{Op: "synchronize", Err: err}
	}
	return nil
}

// CreateQueue gives the XQueue of a hardware queue.
func (l *Library) CreateQueue(handle uint64, level, flags int64) (uint64, error) {
	const blocking = 1
	l.mu.Lock() // from here on, so that nobody destroys it meanwhile
	defer l.mu.Unlock()
	h, err := l.hardware.get(handle)
	if err != nil {
		return 0, err
	}
	if err := checkLevel(level); err != nil {
		return 0, err
	}
	if flags&^blocking != 0 {
		return 0, refuse(InvalidValue, "creation flags %#x: only %#x is known", flags, blocking)
	}
	if h.xqueue != 0 {
		return h.xqueue, nil
	}
	q, err := preempt.New(h.queue, preempt.Options{Scheduler: l.scheduler, Hints: l.common})
	if err != nil {
		return 0, err
	}
	h.xqueue = l.queues.add(&xqueue{XQueue: q, hardware: h, direct: flags&blocking != 0})
	return h.xqueue, nil
}

func checkLevel(level int64) error {
	switch level {
	case 1:
		return nil
	case 2, 3:
		return refuse(NotSupported, "level %d stops whole processes and is to be had through xrun: a single queue has level 1", level)
	}
	return refuse(InvalidValue, "level %d is out of range: 1 to 3", level)
}

// SetLevel refuses every level but the only one.
func (l *Library) SetLevel(handle uint64, level int64) error {
	if _, err := l.queues.get(handle); err != nil {
		return err
	}
	return checkLevel(level)
}

// FindQueue gives the XQueue of a hardware queue that has one.
func (l *Library) FindQueue(handle uint64) (uint64, error) {
	h, err := l.hardware.get(handle)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.xqueue == 0 {
		return 0, refuse(NotFound, "hardware queue %#x has no XQueue", handle)
	}
	return h.xqueue, nil
}

// DestroyQueue closes an XQueue.
func (l *Library) DestroyQueue(handle uint64) error {
	q, err := l.queues.get(handle)
	if err != nil {
		return err
	}
	l.mu.Lock()
	first := l.queues.remove(handle)
	l.mu.Unlock()
	if !first {
		return refuse(NotFound, "XQueue %#x is being destroyed", handle)
	}
	err = q.Close(context.Background())
	l.mu.Lock()
	q.hardware.xqueue = 0
	l.mu.Unlock()
	return err
}

// Queue gives what an XQueue's handle stands for.
func (l *Library) Queue(handle uint64) (*preempt.XQueue, error) {
	q, err := l.queues.get(handle)
	if err != nil {
		return nil, err
	}
	return q.XQueue, nil
}

// CreateCommand gives a command with a callback.
func (l *Library) CreateCommand(launch Launch) uint64 {
	return l.commands.add(&command{launch: launch})
}

// DestroyCommand forgets a command's handle.
func (l *Library) DestroyCommand(handle uint64) error {
	if !l.commands.remove(handle) {
		return refuse(NotFound, "command %#x is not known", handle)
	}
	return nil
}

// Submit submits a command, or again one that is over.
func (l *Library) Submit(queue, cmd uint64) error {
	q, err := l.queues.get(queue)
	if err != nil {
		return err
	}
	c, err := l.commands.get(cmd)
	if err != nil {
		return err
	}
	if c.launch == nil {
		return refuse(NotAllowed, "command %#x was launched by its caller", cmd)
	}
	c.mu.Lock()
	if c.busy || c.issued != nil && !c.issued.Over() {
		c.mu.Unlock()
		return refuse(NotAllowed, "command %#x is in a queue already", cmd)
	}
	first := c.queue == nil
	c.busy = true
	c.mu.Unlock()
	err = q.submit(c.launch, func(issued *preempt.Command) {
		c.mu.Lock()
		c.queue, c.issued = q, issued
		c.mu.Unlock()
	})
	c.mu.Lock()
	c.busy = false
	c.mu.Unlock()
	if err == nil && first {
		l.recent.submitted(cmd, l.over, l.forget)
	}
	return err
}

// SubmitCallback submits a command without a handle.
func (l *Library) SubmitCallback(queue uint64, launch Launch) error {
	q, err := l.queues.get(queue)
	if err != nil {
		return err
	}
	return q.submit(launch, func(*preempt.Command) {})
}

// submit tells the command as soon as it is in the queue, and for a direct one
// launches it after that.
func (q *xqueue) submit(launch Launch, tell func(*preempt.Command)) error {
	h := q.hardware.handle
	if !q.direct {
		c, err := q.Submit(func() error { return launch(h) })
		if err == nil {
			tell(c)
		}
		return err
	}
	c, err := q.Begin(context.Background())
	if err != nil {
		return err
	}
	tell(c)
	c.Launch(func() error { return launch(h) })
	return nil
}

// over says whether a submitted command is over, or forgotten. A command that
// is just being submitted again is not.
func (l *Library) over(handle uint64) bool {
	c, err := l.commands.get(handle)
	if err != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.busy && c.issued != nil && c.issued.Over()
}

func (l *Library) forget(handle uint64) { l.commands.remove(handle) }

// Begin lets the caller launch; End says that it has.
func (l *Library) Begin(queue uint64) (uint64, error) {
	q, err := l.queues.get(queue)
	if err != nil {
		return 0, err
	}
	issued, err := q.XQueue.Begin(context.Background())
	if err != nil {
		return 0, err
	}
	return l.commands.add(&command{queue: q, issued: issued}), nil
}

// End ends what Begin began.
func (l *Library) End(queue, cmd uint64, launched Result) error {
	_, issued, err := l.issued(queue, cmd)
	if err != nil {
		return err
	}
	var failed error
	if launched != Success {
		failed = launched
	}
	if !issued.End(failed) {
		return refuse(NotAllowed, "command %#x is not being launched by its caller", cmd)
	}
	l.recent.submitted(cmd, l.over, l.forget)
	return nil
}

// issued finds a submitted command and its queue.
func (l *Library) issued(queue, cmd uint64) (*xqueue, *preempt.Command, error) {
	q, err := l.queues.get(queue)
	if err != nil {
		return nil, nil, err
	}
	c, err := l.commands.get(cmd)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.queue == nil:
		return nil, nil, refuse(NotAllowed, "command %#x has not been submitted", cmd)
	case c.queue != q:
		return nil, nil, refuse(InvalidValue, "command %#x was submitted to another XQueue", cmd)
	}
	return q, c.issued, nil
}

// Wait waits for a command, or with cmd 0 for all of the queue; timeout below 0
// is none.
func (l *Library) Wait(queue, cmd uint64, timeout time.Duration) error {
	ctx := context.Background()
	if timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if cmd == 0 {
		q, err := l.Queue(queue)
		if err != nil {
			return err
		}
		return q.WaitAll(ctx)
	}
	_, issued, err := l.issued(queue, cmd)
	if err != nil {
		return err
	}
	return issued.Wait(ctx)
}

// WaitCommand has a queue's later commands wait for a command of another queue.
func (l *Library) WaitCommand(queue, other uint64) error {
	q, err := l.queues.get(queue)
	if err != nil {
		return err
	}
	c, err := l.commands.get(other)
	if err != nil {
		return err
	}
	c.mu.Lock()
	issued := c.issued
	c.mu.Unlock()
	if issued == nil {
		return refuse(NotAllowed, "command %#x has not been submitted", other)
	}
	_, err = q.SubmitAfter(nil, issued)
	return err
}

// Guard calls f and makes an error of a panic in it.
func Guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = refuse(Unknown, "%s", fmt.Sprint("defect in the library: ", v))
		}
	}()
	return f()
}
