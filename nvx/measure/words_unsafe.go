package measure

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// words are some 32-bit words of pinned host memory, a cache line each, that both
// sides read and write while kernels run.
type words struct {
	driver *cuda.Driver
	memory []byte
	device abi.DevicePtr
}

const lineBytes = 64

func newWords(d *cuda.Driver, n int) (*words, error) {
	b, err := d.HostAlloc(uint64(n*lineBytes), abi.CU_MEMHOSTALLOC_PORTABLE|abi.CU_MEMHOSTALLOC_DEVICEMAP)
	if err != nil {
		return nil, err
	}
	p, err := d.HostDevicePointer(b)
	if err != nil {
		_ = d.HostFree(b) // the error before it says more
		return nil, err
	}
	clear(b)
	return &words{d, b, p}, nil
}

func (w *words) word(i int) *uint32     { return (*uint32)(unsafe.Pointer(&w.memory[i*lineBytes])) }
func (w *words) load(i int) uint32      { return atomic.LoadUint32(w.word(i)) }
func (w *words) store(i int, v uint32)  { atomic.StoreUint32(w.word(i), v) }
func (w *words) at(i int) abi.DevicePtr { return w.device + abi.DevicePtr(i*lineBytes) }
func (w *words) free()                  { _ = w.driver.HostFree(w.memory) } // the process ends soon

// fewProcessors: whoever looks at a word without pause there takes the time of
// those who would change it.
var fewProcessors = runtime.NumCPU() < 4

// pause passes a moment between two looks at a word; none at all where there are
// processors enough.
func pause() {
	if fewProcessors {
		// Not time.Sleep, which in an idle process is a millisecond or more.
		ts := unix.NsecToTimespec(20_000)
		_ = unix.Nanosleep(&ts, nil) // a signal may end it early
	}
}

// until waits for a condition, at most for limit, and says when it was seen.
func until(limit time.Duration, seen func() bool) (time.Time, bool) {
	for begin := time.Now(); ; {
		if seen() {
			return time.Now(), true
		}
		if time.Since(begin) > limit {
			return time.Time{}, false
		}
		pause()
	}
}

// quiet waits until a word has not changed for a while, at most for limit. It
// gives the moment of the last change; begin, if there was none.
func quiet(begin time.Time, word func() uint32, calm, limit time.Duration) (last time.Time, ok bool) {
	last, value := begin, word()
	seen := time.Now()
	for {
		now := time.Now()
		if v := word(); v != value {
			value, last, seen = v, now, now
		}
		if now.Sub(seen) >= calm {
			return last, true
		}
		if now.Sub(begin) > limit {
			return last, false
		}
		pause()
	}
}
