package workloads

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// place is one of the places in a load's queue: a group of spin kernels, of which the
// last one's results lie in pinned host memory. A word that no kernel writes stands in each until it is
// written; so whoever looks sees the kernel's end, and needs nobody else for it,
// neither the thread that launches nor the driver.
type place struct {
	gpu      *gpu
	args     *cuda.LaunchArgs
	silent   *cuda.LaunchArgs // of those that write nothing
	group    int
	out      []uint32
	expected []uint32 // shared by all places of that length
	blank    uint32   // none of the expected words
	seen     int      // words known to be written
}

func (g *gpu) newPlace(iterations uint64, group int, expected []byte) (*place, error) {
	b, err := g.driver.HostAlloc(uint64(len(expected)), abi.CU_MEMHOSTALLOC_PORTABLE|abi.CU_MEMHOSTALLOC_DEVICEMAP)
	if err != nil {
		return nil, err
	}
	at, err := g.driver.HostDevicePointer(b)
	if err != nil {
		return nil, err
	}
	p := newPlaceOn(asWords(b), asWords(expected))
	p.gpu, p.group = g, group
	if p.args, err = cuda.NewLaunchArgs(at, iterations); err != nil {
		return nil, err
	}
	p.silent, err = cuda.NewLaunchArgs(abi.DevicePtr(0), iterations)
	return p, err
}

// asWords takes bytes as words of the machine's order, which is the device's.
func asWords(b []byte) []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(b)/4) }

func newPlaceOn(out, expected []uint32) *place {
	p := &place{out: out, expected: expected, blank: blankFor(expected)}
	p.clear()
	return p
}

// blankFor gives a word that is none of these.
func blankFor(expected []uint32) uint32 {
	blank := uint32(poison)
	for slices.Contains(expected, blank) {
		blank = kernels.SpinResult(blank, 1)
	}
	return blank
}

// launch queues the group.
func (p *place) launch(s cuda.Stream) error {
	for range p.group - 1 {
		if err := p.spin(s); err != nil {
			return err
		}
	}
	return p.queue(s, p.args)
}

// spin queues one kernel that writes nothing.
func (p *place) spin(s cuda.Stream) error { return p.queue(s, p.silent) }

func (p *place) queue(s cuda.Stream, args *cuda.LaunchArgs) error {
	return p.gpu.driver.Launch(p.gpu.spin, [3]uint32{p.gpu.blocks, 1, 1}, [3]uint32{blockThreads, 1, 1}, 0, s, args)
}

// clear makes ready for a launch. Nobody else looks at the words meanwhile, so these
// are plain stores: of atomic ones, some 17,000 would take longer than a short kernel.
func (p *place) clear() {
	for i := range p.out {
		p.out[i] = p.blank
	}
	p.seen = 0
}

// written says whether the kernel has written all its words, which is the last
// that it does.
func (p *place) written() bool {
	for ; p.seen < len(p.out); p.seen++ {
		if atomic.LoadUint32(&p.out[p.seen]) == p.blank {
			return false
		}
	}
	return true
}

// differing counts the words that are not the closed form's.
func (p *place) differing() (wrong uint64) {
	for i, want := range p.expected {
		if atomic.LoadUint32(&p.out[i]) != want {
			wrong++
		}
	}
	return wrong
}
