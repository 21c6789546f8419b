package mover

import (
	"errors"
	"syscall"
	"time"

	"xmsched/hal/cuda/abi"
	"xmsched/memory"
)

// Memory is the preload library's table of the process's memory, and the calls
// that change it (shim/cuda/preload/memory.h). Errors are a syscall.Errno, or the
// driver's abi.Result.
type Memory interface {
	// List appends the segments of a section to into[:0].
	List(section int, into []memory.Segment) ([]memory.Segment, error)
	// Device is the device's number in this process.
	Device(section int) (int, error)

	// Begin takes the move lock: EAGAIN while the process is not Stopped, ECANCELED
	// while somebody wants it to run or to free memory. End gives it back: EBUSY while
	// something is in flight.
	Begin(section int) error
	End(section int) error
	// Wanted says that the move should end soon.
	Wanted(section int) bool

	// Slots makes free slots of that size until there are count; Trim gives free
	// ones back until at most so many bytes are kept; Pool is how many bytes of
	// slots there are, and how many of them are free.
	Slots(section, count int, size memory.Bytes) error
	Trim(section int, keep memory.Bytes) error
	Pool(section int) (all, idle memory.Bytes, err error)

	// Give takes a free slot for another process, by a descriptor that the caller closes; -1:
	// it could not be passed on, and is no more; 0 bytes: none is free. It counts as this
	// process's until Given. Accept makes another's slot a free one of this; the descriptor
	// stays the caller's. From any goroutine.
	Give(section int) (fd int, bytes memory.Bytes, err error)
	Given(section int, bytes memory.Bytes) error
	Accept(section, fd int, bytes memory.Bytes) error

	// Slot is the address at which copies reach a segment's slot. It takes one for
	// a segment that has none.
	Slot(section int, id memory.ID) (address uint64, err error)
	// Away: the bytes are in the slots; device memory is given up. Also for what
	// was loaded in vain.
	Away(section int, ids []memory.ID) error
	// Load makes device memory for the segments; Loaded says that the bytes are
	// there.
	Load(section int, ids []memory.ID) error
	Loaded(section int, ids []memory.ID) error

	// Home maps segments that are Away to their slots, which the process would wait for when
	// it is to run.
	Home(section int, ids []memory.ID) error

	// Spare: segments that are Kept go as by Away, though nothing was copied: ESTALE if
	// one is kept no more. Forgo gives clean copies up until at most so many bytes of
	// them are kept, and says how many are.
	Spare(section int, ids []memory.ID) error
	Forgo(section int, keep memory.Bytes) (kept memory.Bytes, err error)

	// Flight brackets what the device is given to do with segments and slots, from before it
	// is given until it is done: EPERM, or ENODEV, when the move is not ours. Meanwhile the
	// move is not taken from us. From any goroutine.
	Flight(section int, begin bool) error

	// Unheld brackets, on one thread, the making of channels that are never to be
	// held: ours.
	Unheld(section int, begin bool) error
	// Driver is the driver's own function of that name, 0 if there is none.
	Driver(symbol string) uintptr
}

// Orders are the daemon's answer for the memory of this process on a device.
type Orders struct {
	Managed bool
	// Drained: the process may be Stopped by a closed gate with nothing
	// outstanding, which nobody tells us of.
	Drained bool
	// Prepare: memory will have to move soon. Gentle: somebody waits for short
	// times; host memory is to be made slowly.
	Prepare, Gentle bool
	Turn            time.Duration // how long the process's next turn is expected to be; 0: no word
	Target          memory.Bytes  // that may be on the device
	Host            memory.Bytes  // of slots that the process may have; 0: no word
}

// Figures are what the library tells of the process's memory on a device.
type Figures struct {
	Resident memory.Bytes `json:"resident"`
	Host     memory.Bytes `json:"host"`
}

// Board is one device's section of the page that the process shares with the
// daemon.
type Board interface {
	// Orders is the daemon's answer and its number; 0: there is none.
	Orders() (want uint32, o Orders)
	// WaitOrders sleeps while the number is old, at most for limit. It may return
	// early.
	WaitOrders(old uint32, limit time.Duration)
	// Holds is the number of the last change to what of the process is held;
	// WaitHolds is as WaitOrders.
	Holds() uint32
	WaitHolds(old uint32, limit time.Duration)
	// Wake ends all waits in this process.
	Wake()
	Figures() Figures
	// Open says whether the process would run if it were not for us.
	Open() bool
	// Done says that the answer of that number was taken note of: nothing that an older one
	// allowed is under way.
	Done(want uint32)
	// Stalled tells for how long in all the process stood still for us.
	Stalled(total time.Duration)
	// Foreseen tells how many bytes the next turn touches, 0 for not known, and how many a
	// short stop would bring in of what is used, for what is not.
	Foreseen(working, exchange memory.Bytes)
	// Clean tells how much was compared with its clean copies so far, how much of that
	// was the same and not copied, and how much had changed.
	Clean(hashed, spared, wrong memory.Bytes)
	// Ring has the daemon look at the figures.
	Ring()
}

// errLost reports that the move is no longer ours: the library took it back, or
// the process is leaving.
var errLost = errors.New("the move was taken back")

// soft is a failure that ends one direction of a move and not the other.
type soft struct {
	kind error // memory.ErrHostMemory or memory.ErrDeviceMemory
	err  error
}

func (e *soft) Error() string        { return e.err.Error() }
func (e *soft) Unwrap() error        { return e.err }
func (e *soft) Is(target error) bool { return target == e.kind }

// meaning says what a failed step means for its move.
func meaning(a memory.Act, err error) error {
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENODEV):
		return errLost
	case errors.Is(err, memory.ErrStale):
		return err
	case a == memory.CopyOut || a == memory.CopyIn:
		return errors.Join(memory.ErrCopy, err)
	case !short(err):
		return errors.Join(memory.ErrMap, err)
	case a == memory.Reserve || a == memory.Unmap || a == memory.Drop:
		return &soft{memory.ErrHostMemory, err}
	}
	return &soft{memory.ErrDeviceMemory, err}
}

// short says whether a failure is for lack of something that others may have
// more of: memory, room below the target, or a segment that is in use.
func short(err error) bool {
	return errors.Is(err, abi.CUDA_ERROR_OUT_OF_MEMORY) || errors.Is(err, syscall.ENOMEM) ||
		errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EBUSY)
}
