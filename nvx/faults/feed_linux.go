package faults

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnavailable says that this process has no fault feed: no driver, none with
// such an interface, or none that lets us.
var ErrUnavailable = errors.New("no page-fault feed")

// StatusError is a refusal of the driver's.
type StatusError struct {
	Request uint64
	Status  uint32
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("request %d of %s: status %#x", e.Request, toolsPath, e.Status)
}

// Is makes every refusal an ErrUnavailable.
func (e *StatusError) Is(target error) bool { return target == ErrUnavailable }

// System is the driver as the kernel has it, or who stands in for it.
type System interface {
	// Spaces are the descriptors of the driver's file that this process's CUDA
	// driver has open. They are not ours to close.
	Spaces() ([]int, error)
	// OpenTools opens the file for tools.
	OpenTools() (int, error)
	// Ioctl is as ioctl(2). The argument's memory is the heap's, or not Go's.
	Ioctl(fd int, request uint64, argument unsafe.Pointer) error
}

// DefaultEntries is the queue that a probe overran with a stream of 1 GiB when
// nobody drained it meanwhile: 4.5 MiB.
const DefaultEntries = 1 << 16

// Feed is a queue that the driver fills.
type Feed struct {
	system       System
	tools, space int
	mapped       []byte
	queue        *queue
}

// Open begins to watch the GPU faults of this process. The number of entries is a
// power of two from 2; 0 is DefaultEntries. Its memory is pinned as long as the
// feed is open.
func Open(system System, entries int) (*Feed, error) {
	if entries == 0 {
		entries = DefaultEntries
	}
	if entries < 2 || entries > 1<<20 || entries&(entries-1) != 0 {
		return nil, fmt.Errorf("queue of %d page faults: must be a power of two from 2 to %d", entries, 1<<20)
	}
	spaces, err := system.Spaces()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if len(spaces) == 0 {
		return nil, fmt.Errorf("%w: the CUDA driver has no %s open in this process", ErrUnavailable, spacePath)
	}
	size := controlBytes + entries*entryBytes
	mapped, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("queue of page faults: %w", err)
	}
	f := &Feed{system: system, tools: -1, mapped: mapped, queue: newQueue(mapped[:controlBytes], mapped[controlBytes:])}
	if err := f.begin(spaces, uint64(entries)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// begin tries the descriptors one by one: the driver has a second one, which is no
// address space.
func (f *Feed) begin(spaces []int, entries uint64) error {
	var refused error
	for _, fd := range spaces {
		tools, err := f.system.OpenTools()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		p := &UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS{
			QueueBuffer: addressOf(f.queue.entries), QueueBufferSize: entries, ControlBuffer: addressOf(f.queue.control),
			AllProcessors: 1, UvmFd: uint32(fd),
		}
		if err = f.call(tools, UVM_TOOLS_INIT_EVENT_TRACKER_V2, unsafe.Pointer(p), &p.RmStatus); err == nil {
			f.tools, f.space = tools, fd
			return f.events(UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS)
		}
		refused = errors.Join(refused, err)
		_ = unix.Close(tools)
	}
	return refused
}

func (f *Feed) events(request uint64) error {
	p := &UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS_PARAMS{EventTypeFlags: 1 << UvmEventTypeGpuFault}
	return f.call(f.tools, request, unsafe.Pointer(p), &p.RmStatus)
}

func (f *Feed) call(fd int, request uint64, argument unsafe.Pointer, status *uint32) error {
	if err := f.system.Ioctl(fd, request, argument); err != nil {
		return fmt.Errorf("%w: request %d: %w", ErrUnavailable, request, err)
	}
	if *status != 0 {
		return &StatusError{request, *status}
	}
	return nil
}

// Drain reads the faults that are there. Call it again and again while kernels run:
// a queue that is full drops.
func (f *Feed) Drain(take func(Event)) (n int) {
	return f.queue.drain(func(entry []byte) {
		if e, ok := Decode(entry); ok {
			take(e)
		}
	})
}

// Dropped is how many faults found the queue full, since Open.
func (f *Feed) Dropped() uint64 { return f.queue.dropped() }

// flushTime is how long a probe on an H200 waited in place of a flush, and missed
// nothing.
const flushTime = 2 * time.Millisecond

// Flush returns when the faults of all that the device has done are in the queue: by
// the driver's word, or where it has none after a while.
func (f *Feed) Flush() {
	p := &UVM_TOOLS_FLUSH_EVENTS_PARAMS{}
	if f.call(f.space, UVM_TOOLS_FLUSH_EVENTS, unsafe.Pointer(p), &p.RmStatus) != nil {
		time.Sleep(flushTime)
	}
}

// Close ends the feed. The driver lets go of the queue before it is unmapped.
func (f *Feed) Close() {
	if f.tools >= 0 {
		_ = f.events(UVM_TOOLS_EVENT_QUEUE_DISABLE_EVENTS)
		_ = unix.Close(f.tools)
		f.tools = -1
	}
	if f.mapped != nil {
		_ = unix.Munmap(f.mapped)
		f.mapped, f.queue = nil, newQueue(make([]byte, controlBytes), make([]byte, 2*entryBytes))
	}
}
