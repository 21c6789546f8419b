package cuda

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"xmsched/hal/cuda/abi"
)

// LaunchArgs is a kernel's arguments in the form the driver reads them: one slot
// a parameter, and the array of pointers to the slots. It is built once and not
// changed, so any number of launches, from any goroutine, may use it.
type LaunchArgs struct {
	slots    []uint64
	pointers []unsafe.Pointer
}

// NewLaunchArgs builds the arguments of a kernel. A value is a uint32, int32,
// uint64, int64, float32, float64 or abi.DevicePtr, of the size of its
// parameter: the driver reads as many bytes as the kernel declares.
//
// Not inlined, so that the result is always on the heap: the driver sees the
// slots' addresses as plain numbers, which a move of a stack would leave behind.
//
//go:noinline
func NewLaunchArgs(values ...any) (*LaunchArgs, error) {
	a := &LaunchArgs{slots: make([]uint64, len(values)), pointers: make([]unsafe.Pointer, len(values))}
	for i, v := range values {
		switch v := v.(type) {
		case uint32:
			a.slots[i] = uint64(v)
		case int32:
			a.slots[i] = uint64(uint32(v))
		case uint64:
			a.slots[i] = v
		case int64:
			a.slots[i] = uint64(v)
		case float32:
			a.slots[i] = uint64(math.Float32bits(v))
		case float64:
			a.slots[i] = math.Float64bits(v)
		case abi.DevicePtr:
			a.slots[i] = uint64(v)
		default:
			return nil, fmt.Errorf("launch argument %d: type %T is not one of uint32, int32, uint64, int64, float32, float64, abi.DevicePtr", i, v)
		}
		a.pointers[i] = unsafe.Pointer(&a.slots[i])
	}
	return a, nil
}

// launchWords are the eleven arguments of cuLaunchKernel.
type launchWords [11]uintptr

var wordsPool = sync.Pool{New: func() any { return new(launchWords) }}

// Launch queues a kernel: grid blocks of block threads, with shared bytes of
// dynamic shared memory. args may be nil for a kernel without parameters. A
// launch that the driver takes allocates nothing.
func (d *Driver) Launch(fn Function, grid, block [3]uint32, shared uint32, s Stream, args *LaunchArgs) error {
	if d.procs[procLaunchKernel] == 0 {
		return &SymbolError{procNames[procLaunchKernel]}
	}
	w := wordsPool.Get().(*launchWords)
	*w = launchWords{
		uintptr(fn.Handle),
		uintptr(grid[0]), uintptr(grid[1]), uintptr(grid[2]),
		uintptr(block[0]), uintptr(block[1]), uintptr(block[2]),
		uintptr(shared), uintptr(s.Handle), 0, 0,
	}
	if args != nil && len(args.pointers) > 0 {
		w[9] = uintptr(unsafe.Pointer(&args.pointers[0]))
	}
	r, _, _ := purego.SyscallN(d.procs[procLaunchKernel], w[:]...)
	wordsPool.Put(w)
	runtime.KeepAlive(args)
	return failure(procLaunchKernel, abi.Result(int32(uint32(r))))
}
