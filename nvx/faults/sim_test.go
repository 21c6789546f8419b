package faults

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
	"xmsched/hal/sim/simtest"
)

// gpu is the simulated driver in this process: there can be one.
type gpu struct {
	t        *testing.T
	d        *cuda.Driver
	find     Find
	modules  []*cuda.Module
	stream   cuda.Stream
	managed  []Range
	prefetch cuda.Proc
	advise   cuda.Proc
}

func openGPU(t *testing.T) *gpu {
	t.Helper()
	library := simtest.Library(t)
	for _, v := range simtest.StartWith(t, library, simtest.HBM(512<<20)) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	handle, err := purego.Dlopen(filepath.Join(library, "libcuda.so.1"), purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	g := &gpu{t: t, find: func(symbol string) uintptr {
		address, err := purego.Dlsym(handle, symbol)
		if err != nil {
			return 0
		}
		return address
	}}
	g.d = must(cuda.Adopt(g.find))(t)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	check(t, g.d.Init())
	c := must(g.d.NewContext(must(g.d.Device(0))(t), 0))(t)
	t.Cleanup(func() { check(t, c.Release()) })
	for _, text := range [][]byte{kernels.PTX(), kernels.StressPTX(), kernels.SciencePTX()} {
		g.modules = append(g.modules, must(g.d.LoadModule(text))(t))
	}
	g.stream = must(g.d.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)))(t)
	g.prefetch, g.advise = must(g.d.Proc("cuMemPrefetchAsync"))(t), must(g.d.Proc("cuMemAdvise"))(t)
	return g
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T { t.Helper(); check(t, err); return v }
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (g *gpu) call(p cuda.Proc, args ...uintptr) {
	g.t.Helper()
	if r := p.Call(args...); r != abi.CUDA_SUCCESS {
		g.t.Fatalf("%s: %v", p.Symbol, r)
	}
}

// alloc makes managed memory.
func (g *gpu) alloc(n uint64) uint64 {
	g.t.Helper()
	p := new(uint64)
	g.call(must(g.d.Proc("cuMemAllocManaged"))(g.t), uintptr(unsafe.Pointer(p)), uintptr(n), 1)
	g.managed = append(g.managed, Range{*p, n})
	return *p
}

// home sends all managed memory to the host, or to the device.
func (g *gpu) home(device int) {
	g.t.Helper()
	for _, r := range g.managed {
		g.call(g.prefetch, uintptr(r.Base), uintptr(r.Bytes), uintptr(device), uintptr(g.stream.Handle))
	}
	check(g.t, g.stream.Synchronize())
}

// mostly advises it to be read mostly, or no longer.
func (g *gpu) mostly(on bool) {
	g.t.Helper()
	how := map[bool]uintptr{true: 1, false: 2}[on]
	for _, r := range g.managed {
		g.call(g.advise, uintptr(r.Base), uintptr(r.Bytes), how, 0)
	}
}

func (g *gpu) launch(name string, blocks, threads uint32, values ...any) {
	g.t.Helper()
	for _, m := range g.modules {
		if f, err := m.Function(name); err == nil {
			args := must(cuda.NewLaunchArgs(values...))(g.t)
			check(g.t, g.d.Launch(f, [3]uint32{blocks, 1, 1}, [3]uint32{threads, 1, 1}, 0, g.stream, args))
			check(g.t, g.stream.Synchronize())
			return
		}
	}
	g.t.Fatalf("no kernel %s", name)
}

// stated is what a kernel says that it touches, by aligned blocks.
func stated(t *testing.T, name string, blocks, threads uint32, values ...any) map[uint64]Access {
	t.Helper()
	k, ok := kernels.ByName(name)
	if !ok || k.Spans == nil {
		t.Fatalf("kernel %s states nothing", name)
	}
	l := kernels.Launch{Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1}, Args: layout(k, values)}
	touched := map[uint64]Access{}
	for _, s := range k.Spans(l) {
		for i := range s.Count {
			from := s.Base + i*s.Stride
			for at := from &^ (BlockBytes - 1); at < from+s.Bytes; at += BlockBytes {
				touched[at] |= [...]Access{kernels.Read: Read, kernels.Write: Write, kernels.Update: Read | Write}[s.Access]
			}
		}
	}
	return touched
}

func layout(k kernels.Kernel, values []any) []byte {
	args := make([]byte, k.ArgBytes())
	for i, p := range k.Params {
		switch v := values[i].(type) {
		case uint64:
			*(*uint64)(unsafe.Pointer(&args[p.Offset])) = v
		case uint32:
			*(*uint32)(unsafe.Pointer(&args[p.Offset])) = v
		}
	}
	return args
}

func blocksOf(f *Fold) map[uint64]Access {
	all := map[uint64]Access{}
	for _, b := range f.Blocks() {
		all[b.Base] = b.Access
	}
	return all
}

// TestFaultsOfTheSimulatedDevice: what the feed shows of a kernel is what the kernel
// says that it touches.
func TestFaultsOfTheSimulatedDevice(t *testing.T) {
	g := openGPU(t)
	const mib = uint64(1 << 20)
	a, b, c := g.alloc(64*mib), g.alloc(48*mib), g.alloc(3*mib)
	feed := must(Open(SystemOf(g.find), 1024))(t)
	defer feed.Close()
	// seen is what a launch shows when all memory is on the host before.
	seen := func(name string, blocks, threads uint32, values ...any) map[uint64]Access {
		t.Helper()
		g.home(-1)
		g.mostly(true)
		feed.Drain(func(Event) {})
		g.launch(name, blocks, threads, values...)
		feed.Flush()
		fold := NewFold(g.managed)
		feed.Drain(fold.Add)
		g.mostly(false)
		if fold.Strangers() != 0 {
			t.Errorf("%s: %d faults elsewhere", name, fold.Strangers())
		}
		return blocksOf(fold)
	}
	for _, l := range []struct {
		name            string
		blocks, threads uint32
		values          []any
	}{
		{"xm_fill", 1, 32, []any{a, uint32(7), uint32(5 * mib / 4)}},
		{"xm_fill", 1, 32, []any{a + 9*mib, uint32(7), uint32(1)}},
		{"xm_increment", 4, 32, []any{b + mib, uint32(2 * mib / 4)}},
		{"xm_vector_add", 4, 32, []any{a + 32*mib, a, b, uint32(7*mib/4 + 1)}},
		{"xm_checksum", 1, 32, []any{c, b, 48 * mib / 4}},
		{"xm_copy", 1, 32, []any{c, a + 3*mib, 3 * mib / 4}},
		{"xm_churn", 1, 32, []any{c, uint32(mib), uint32(0)}},
		{"xm_wavelet", 4, 32, []any{a, mib, uint32(12), uint32(100)}},
		{"xm_stencil", 4, 32, []any{b, a + 10*mib, uint32(1000), uint32(700)}},
		{"xm_histogram", 4, 32, []any{c, b + 5*mib, 9 * mib / 4}},
		{"xm_empty", 1, 32, nil},
	} {
		if l.name == "xm_churn" {
			l.values[1] = uint32(3 * mib / 4)
		}
		have, want := seen(l.name, l.blocks, l.threads, l.values...), stated(t, l.name, l.blocks, l.threads, l.values...)
		if !maps.Equal(have, want) {
			t.Errorf("%s: seen %v, stated %v", l.name, sorted(have), sorted(want))
		}
	}
	func() { // what is there is not seen
		g.home(0)
		g.launch("xm_increment", 1, 32, a, uint32(64*mib/4))
		feed.Flush()
		if n := feed.Drain(func(Event) {}); n != 0 {
			t.Errorf("%d faults on resident memory", n)
		}
	}()
	func() { // without advice the first access hides the second
		g.home(-1)
		feed.Drain(func(Event) {})
		fold := NewFold(g.managed)
		g.launch("xm_increment", 1, 32, a, uint32(2*mib/4))
		feed.Flush()
		feed.Drain(fold.Add)
		if have := blocksOf(fold); !maps.Equal(have, map[uint64]Access{a: Read}) {
			t.Errorf("seen %v", have)
		}
	}()
	func() { // drops are counted
		small := must(Open(SystemOf(g.find), 4))(t)
		defer small.Close()
		g.home(-1)
		g.launch("xm_fill", 1, 32, a, uint32(1), uint32(64*mib/4))
		small.Flush()
		if n := small.Drain(func(Event) {}); n != 3 || small.Dropped() != 29 {
			t.Errorf("%d faults, %d dropped of 32", n, small.Dropped())
		}
	}()
	func() { // what comes is charged
		g.home(-1)
		before, _, err := g.d.MemInfo()
		check(t, err)
		g.launch("xm_fill", 1, 32, a, uint32(1), uint32(10*mib/4))
		during, _, err := g.d.MemInfo()
		check(t, err)
		if before-during != 10*mib {
			t.Errorf("10 MiB that were faulted in took %d bytes", before-during)
		}
	}()
}

func sorted(m map[uint64]Access) []string {
	var all []string
	for _, at := range slices.SortedFunc(maps.Keys(m), cmp.Compare[uint64]) {
		all = append(all, fmt.Sprintf("%#x %v", at, m[at]))
	}
	return all
}
