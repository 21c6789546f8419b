package cuda

import (
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// Stream is a queue of commands. The zero Stream is the legacy default stream of
// the current context.
type Stream struct {
	driver *Driver
	Handle abi.Stream
}

// NewStream makes a stream in the current context; flags are abi.StreamFlags.
func (d *Driver) NewStream(flags uint32) (Stream, error) {
	s := Stream{driver: d}
	err := d.call(procStreamCreate, uintptr(unsafe.Pointer(&s.Handle)), uintptr(flags))
	return s, err
}

// NewStreamWithPriority is NewStream with a priority; the driver clamps it to
// PriorityRange.
func (d *Driver) NewStreamWithPriority(flags uint32, priority int) (Stream, error) {
	s := Stream{driver: d}
	err := d.call(procStreamCreateWithPriority, uintptr(unsafe.Pointer(&s.Handle)), uintptr(flags), uintptr(uint32(int32(priority))))
	return s, err
}

//go:uintptrescapes
func (s Stream) call(id procID, args ...uintptr) error {
	d := s.driver
	if d == nil {
		var err error
		if d, err = current(); err != nil {
			return err
		}
	}
	return d.call(id, args...)
}

// Synchronize waits until everything in the stream is done.
func (s Stream) Synchronize() error { return s.call(procStreamSynchronize, uintptr(s.Handle)) }

// Query says whether everything in the stream is done, without waiting.
func (s Stream) Query() (done bool, err error) {
	return pending(s.call(procStreamQuery, uintptr(s.Handle)))
}

// Destroy gives the stream up; the driver finishes what is queued in it.
func (s Stream) Destroy() error { return s.call(procStreamDestroy, uintptr(s.Handle)) }

// WaitEvent lets later commands of the stream wait for an event's last record.
func (s Stream) WaitEvent(e Event) error {
	return s.call(procStreamWaitEvent, uintptr(s.Handle), uintptr(e.Handle), 0)
}

// WaitValue32 lets later commands of the stream wait until the word at address
// compares with value as flags say.
func (s Stream) WaitValue32(address abi.DevicePtr, value uint32, flags abi.StreamWaitValueFlags) error {
	return s.call(procStreamWaitValue32, uintptr(s.Handle), uintptr(address), uintptr(value), uintptr(flags))
}

// WriteValue32 writes the word at address once the commands before it are done.
func (s Stream) WriteValue32(address abi.DevicePtr, value uint32, flags abi.StreamWriteValueFlags) error {
	return s.call(procStreamWriteValue32, uintptr(s.Handle), uintptr(address), uintptr(value), uintptr(flags))
}

// Event is a point in a stream that can be waited for and timed.
type Event struct {
	driver *Driver
	Handle abi.Event
}

// NewEvent makes an event in the current context; flags are abi.EventFlags.
func (d *Driver) NewEvent(flags uint32) (Event, error) {
	e := Event{driver: d}
	err := d.call(procEventCreate, uintptr(unsafe.Pointer(&e.Handle)), uintptr(flags))
	return e, err
}

// Record puts the event behind everything that is in the stream now.
func (e Event) Record(s Stream) error {
	return e.driver.call(procEventRecord, uintptr(e.Handle), uintptr(s.Handle))
}

// Synchronize waits for the event's last record.
func (e Event) Synchronize() error { return e.driver.call(procEventSynchronize, uintptr(e.Handle)) }

// Query says whether the event's last record has been passed, without waiting.
func (e Event) Query() (done bool, err error) {
	return pending(e.driver.call(procEventQuery, uintptr(e.Handle)))
}

// Elapsed is the time from start's record to e's, in milliseconds. Both must have
// been passed and made for timing.
func (e Event) Elapsed(start Event) (milliseconds float32, err error) {
	err = e.driver.call(procEventElapsedTime, uintptr(unsafe.Pointer(&milliseconds)), uintptr(start.Handle), uintptr(e.Handle))
	return milliseconds, err
}

// Destroy gives the event up.
func (e Event) Destroy() error { return e.driver.call(procEventDestroy, uintptr(e.Handle)) }
