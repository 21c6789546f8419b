// Package kernels holds the project's own GPU kernels: their PTX texts (a first
// module for everything, a second of kernels that a suspension could hurt, others that
// measure devices and that touch memory in ways of all kinds, a
// last for sm_90), the same computation as a CPU body for the simulated device,
// and a cost model.
//
// It does not launch anything and knows no driver. The PTX is written by hand
// for sm_70 and later, so that any later driver can compile it. All results are
// integers in closed form: a test can say what every word must be.
//
// Model: a kernel has a name, parameters laid out as the driver lays them out
// (natural alignment, in order), a Body over bytes behind a Memory, and a Cost
// in simulated time. Counts n are 32-bit words everywhere.
//
// Concurrency: the tables are constant after init; bodies touch only the memory
// they are given.
package kernels

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"
)

//go:embed kernels.ptx
var ptx []byte

//go:embed probe.ptx
var probePTX []byte

// PTX returns a copy of the main module's text, without a terminating NUL: the
// driver wants one behind it.
func PTX() []byte { return append([]byte(nil), ptx...) }

// ProbePTX is PTX of the module that measures devices.
func ProbePTX() []byte { return append([]byte(nil), probePTX...) }

// Access says what a body does with bytes it asks for.
type Access uint8

// The accesses. Update reads and writes.
const (
	Read Access = iota
	Write
	Update
)

// Memory is what a body sees of the device's address space.
type Memory interface {
	// View returns the n bytes at address addr. They stay valid until the
	// body returns; with Write the content is unspecified until written.
	// An address that is not mapped is an error, as on the device.
	//
	// To ask is to touch: a body asks for what the kernel touches and for no
	// more, piece by piece where that lies apart. The simulated device makes its
	// page faults of it.
	View(addr, n uint64, a Access) ([]byte, error)
}

// Launch is one launch of a kernel.
type Launch struct {
	Grid, Block [3]uint32
	Args        []byte // laid out by Kernel.Params
}

// Threads is the number of threads along x, which is the only dimension the
// kernels look at.
func (l Launch) Threads() uint64 { return uint64(l.Grid[0]) * uint64(l.Block[0]) }

// allThreads counts every dimension: it sizes the cost. It saturates.
func (l Launch) allThreads() uint64 {
	n := uint64(1)
	for i := range l.Grid {
		hi, lo := bits.Mul64(n, uint64(l.Grid[i])*uint64(l.Block[i]))
		if hi != 0 {
			return math.MaxUint64 / residentThreads
		}
		n = lo
	}
	return min(n, math.MaxUint64/residentThreads)
}

// Param is one parameter: offset and size in bytes within the argument block.
type Param struct {
	Name         string
	Offset, Size int
}

// Kernel is one kernel of the module.
type Kernel struct {
	Name   string
	Params []Param
	// Body computes on the CPU what the PTX computes on a GPU.
	Body func(m Memory, l Launch) error
	// Cost is the simulated run time, launch overhead excluded.
	Cost func(l Launch) time.Duration
	// Step, where it is set, stands for Body in a kernel whose effects are
	// seen, or whose end is decided, while it runs. It is called now and then
	// during the run and once at its end, with the time that the kernel has had
	// on its engine so far (the time it was stopped does not count, and it never
	// goes back); it writes what is to be seen by then, and says whether
	// the kernel is through before its Cost is up.
	Step func(m Memory, l Launch, ran time.Duration) (through bool, err error)
	// Touched estimates the bytes that Body reads and writes: what the body
	// itself costs on a CPU.
	Touched func(l Launch) uint64
	// Spans is what the kernel touches, in closed form; nil where that depends
	// on what lies in memory. A test holds it against what Body asks for.
	Spans func(l Launch) []Span
}

// ArgBytes is the size of the argument block.
func (k Kernel) ArgBytes() int {
	if len(k.Params) == 0 {
		return 0
	}
	last := k.Params[len(k.Params)-1]
	return last.Offset + last.Size
}

// Check refuses a launch whose argument block is not what Body expects. A kernel
// without parameters looks at none: a module may declare it with any.
func (k Kernel) Check(l Launch) error {
	if len(k.Params) > 0 && len(l.Args) != k.ArgBytes() {
		return fmt.Errorf("launch %s: %d bytes of arguments, want %d", k.Name, len(l.Args), k.ArgBytes())
	}
	return nil
}

// ByName finds a kernel of any module.
func ByName(name string) (Kernel, bool) {
	for _, k := range Every() {
		if k.Name == name {
			return k, true
		}
	}
	return Kernel{}, false
}

// All returns the first module's kernels in the order of its text.
func All() []Kernel { return append([]Kernel(nil), table...) }

// params lays parameters out as the driver does: each aligned to its size.
func params(ps ...Param) []Param {
	offset := 0
	for i, p := range ps {
		offset = (offset + p.Size - 1) / p.Size * p.Size
		ps[i].Offset = offset
		offset += p.Size
	}
	return ps
}

func u64(name string) Param { return Param{Name: name, Size: 8} }
func u32(name string) Param { return Param{Name: name, Size: 4} }

func arg64(l Launch, offset int) uint64 { return binary.LittleEndian.Uint64(l.Args[offset:]) }
func arg32(l Launch, offset int) uint32 { return binary.LittleEndian.Uint32(l.Args[offset:]) }
