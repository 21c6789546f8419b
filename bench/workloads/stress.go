package workloads

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// A stressor does one kind of work over and over, and can say of every word what
// it must be. It is used by one thread, which has joined the device.
type stressor interface {
	// round does the work once and compares its results.
	round() (verified, wrong uint64, err error)
}

// Kinds of work that a suspension could hurt.
const (
	WorkInPlace     = "in-place"    // kernels that write memory in place, round by round
	WorkAtomics     = "atomics"     // additions and compare-and-swaps by many threads
	WorkCooperative = "cooperative" // blocks of a grid that wait for each other
	WorkCluster     = "cluster"     // blocks of a cluster that read each other's shared memory
	WorkGraph       = "graph"       // a captured graph of kernels
	WorkCopies      = "copies"      // host to device, device to device, device to host
	WorkManaged     = "managed"     // kernels that fault on memory that the CPU touches in turn
)

// StressWork lists the kinds.
func StressWork() []string {
	return []string{WorkInPlace, WorkAtomics, WorkCooperative, WorkCluster, WorkGraph, WorkCopies, WorkManaged}
}

// Sizes: each kernel takes some milliseconds on an H200, so that most suspensions
// meet it running, and all of them together leave the device room to hold every
// block at once.
const (
	stressBlocks  = 32
	stressThreads = 256
	launchesEach  = 4 // kernels in a row before the results are looked at
	ringRounds    = 1500
	clusterRounds = 4000
	atomicWords   = 1 << 14
	atomicRounds  = 2000
	inPlaceWords  = 1 << 16
	inPlaceRounds = 500
	graphNodes    = 16
	copyBytes     = 16 << 20
	managedBytes  = 16 << 20
)

// stress makes stressors on a device.
type stress struct {
	gpu     *gpu
	module  *cuda.Module
	cluster *cuda.Module // nil: none here
	rng     *rand.Rand
}

// newStress loads the modules. why says why the kernel that needs clusters cannot
// run here; empty: it can.
func newStress(g *gpu, seed uint64) (s *stress, why string, err error) {
	s = &stress{gpu: g, rng: rand.New(rand.NewPCG(seed, 1))}
	if s.module, err = g.driver.LoadModule(kernels.StressPTX()); err != nil {
		return nil, "", err
	}
	if g.facts.Simulated {
		return s, "the simulated GPU has no clusters", nil
	}
	major, err := g.device.Attribute(abi.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
	if err != nil {
		return nil, "", err
	}
	if major < 9 {
		return s, fmt.Sprintf("compute capability %d has no clusters", major), nil
	}
	s.cluster, err = g.driver.LoadModule(kernels.ClusterPTX())
	return s, "", err
}

// make gives a stressor of the kind; the calling thread is the one that uses it.
func (s *stress) make(kind string) (stressor, error) {
	stream, err := s.gpu.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING))
	if err != nil {
		return nil, err
	}
	b := base{gpu: s.gpu, stream: stream, rng: rand.New(rand.NewPCG(s.rng.Uint64(), 2))}
	switch kind {
	case WorkInPlace:
		return b.inPlace(s.module)
	case WorkAtomics:
		return b.atomics(s.module)
	case WorkCooperative:
		return b.cooperative(s.module)
	case WorkCluster:
		return b.inCluster(s.cluster)
	case WorkGraph:
		return b.graph(s.module)
	case WorkCopies:
		return b.copies()
	case WorkManaged:
		return b.managed(s.module)
	}
	return nil, fmt.Errorf("work %q is none of %v", kind, StressWork())
}

// base is what all stressors have: a stream, and a way to bring results back.
type base struct {
	gpu    *gpu
	stream cuda.Stream
	rng    *rand.Rand
}

var (
	stressGrid  = [3]uint32{stressBlocks, 1, 1}
	stressBlock = [3]uint32{stressThreads, 1, 1}
)

func (b *base) launch(f cuda.Function, args *cuda.LaunchArgs) error {
	return b.gpu.driver.Launch(f, stressGrid, stressBlock, 0, b.stream, args)
}

// words is memory of the device with a copy of what it must hold.
type wordsOn struct {
	base *base
	at   abi.DevicePtr
	want []uint32
	got  []byte
}

func (b *base) newWords(n int) (*wordsOn, error) {
	at, err := b.gpu.driver.MemAlloc(uint64(4 * n))
	if err != nil {
		return nil, err
	}
	return &wordsOn{base: b, at: at, want: make([]uint32, n), got: make([]byte, 4*n)}, nil
}

// fill gives the words new values, and waits until they are there.
func (w *wordsOn) fill(value func(i int) uint32) error {
	for i := range w.want {
		w.want[i] = value(i)
		binary.LittleEndian.PutUint32(w.got[4*i:], w.want[i])
	}
	if err := w.base.gpu.driver.MemcpyHtoDAsync(w.at, w.got, w.base.stream); err != nil {
		return err
	}
	return w.base.stream.Synchronize()
}

// check brings the words back, behind what is queued, and counts those that are
// not as wanted.
func (w *wordsOn) check() (verified, wrong uint64, err error) {
	if err := w.base.gpu.driver.MemcpyDtoHAsync(w.got, w.at, w.base.stream); err != nil {
		return 0, 0, err
	}
	if err := w.base.stream.Synchronize(); err != nil {
		return 0, 0, err
	}
	return uint64(len(w.want)), differing(w.got, w.want), nil
}

func differing(got []byte, want []uint32) (wrong uint64) {
	for i, v := range want {
		if binary.LittleEndian.Uint32(got[4*i:]) != v {
			wrong++
		}
	}
	return wrong
}

// again is a stressor made of steps.
type again func() (uint64, uint64, error)

func (f again) round() (uint64, uint64, error) { return f() }

// inPlace: what a word is after a kernel begins the next one.
func (b *base) inPlace(m *cuda.Module) (stressor, error) {
	f, err := m.Function("xm_churn")
	if err != nil {
		return nil, err
	}
	w, err := b.newWords(inPlaceWords)
	if err != nil {
		return nil, err
	}
	args, err := cuda.NewLaunchArgs(w.at, uint32(inPlaceWords), uint32(inPlaceRounds))
	if err != nil {
		return nil, err
	}
	if err := w.fill(func(int) uint32 { return b.rng.Uint32() }); err != nil {
		return nil, err
	}
	return again(func() (uint64, uint64, error) {
		for range launchesEach {
			if err := b.launch(f, args); err != nil {
				return 0, 0, err
			}
		}
		for i, v := range w.want {
			w.want[i] = kernels.RoundResult(v, launchesEach*inPlaceRounds)
		}
		return w.check()
	}), nil
}

// atomics: the counts go on over all rounds.
func (b *base) atomics(m *cuda.Module) (stressor, error) {
	f, err := m.Function("xm_atomics")
	if err != nil {
		return nil, err
	}
	w, err := b.newWords(atomicWords)
	if err != nil {
		return nil, err
	}
	args, err := cuda.NewLaunchArgs(w.at, uint32(atomicWords), uint32(atomicRounds))
	if err != nil {
		return nil, err
	}
	if err := w.fill(func(int) uint32 { return 0 }); err != nil {
		return nil, err
	}
	each := kernels.AtomicsResult(stressBlocks*stressThreads, atomicWords, atomicRounds)
	return again(func() (uint64, uint64, error) {
		for range launchesEach {
			if err := b.launch(f, args); err != nil {
				return 0, 0, err
			}
			for i, n := range each {
				w.want[i] += n
			}
		}
		return w.check()
	}), nil
}

// cooperative: each round begins with fresh words and a barrier of 0.
func (b *base) cooperative(m *cuda.Module) (stressor, error) {
	f, err := m.Function("xm_ring")
	if err != nil {
		return nil, err
	}
	launch, err := b.gpu.driver.Proc("cuLaunchCooperativeKernel")
	if err != nil {
		return nil, err
	}
	const n = stressBlocks * stressThreads
	from, err := b.newWords(n)
	if err != nil {
		return nil, err
	}
	to, err := b.newWords(n)
	if err != nil {
		return nil, err
	}
	barrier, err := b.gpu.driver.MemAlloc(4)
	if err != nil {
		return nil, err
	}
	a, t, bar, rounds := uint64(from.at), uint64(to.at), uint64(barrier), uint32(ringRounds+1) // odd: the last writes `to`
	args := []unsafe.Pointer{unsafe.Pointer(&a), unsafe.Pointer(&t), unsafe.Pointer(&bar), unsafe.Pointer(&rounds)}
	return again(func() (uint64, uint64, error) {
		if err := from.fill(func(int) uint32 { return b.rng.Uint32() }); err != nil {
			return 0, 0, err
		}
		if err := b.gpu.driver.MemsetD32Async(barrier, 0, 1, b.stream); err != nil {
			return 0, 0, err
		}
		r := launch.Call(uintptr(f.Handle), stressBlocks, 1, 1, stressThreads, 1, 1, 0, uintptr(b.stream.Handle), uintptr(unsafe.Pointer(&args[0])))
		if r != abi.CUDA_SUCCESS {
			return 0, 0, fmt.Errorf("cuLaunchCooperativeKernel: %w", r)
		}
		for i := range to.want {
			to.want[i] = kernels.RingResult(from.want, i, stressThreads, rounds)
		}
		return to.check()
	}), nil
}

// inCluster: the words are poisoned before each kernel.
func (b *base) inCluster(m *cuda.Module) (stressor, error) {
	f, err := m.Function("xm_cluster")
	if err != nil {
		return nil, err
	}
	w, err := b.newWords(stressBlocks * stressThreads)
	if err != nil {
		return nil, err
	}
	return again(func() (uint64, uint64, error) {
		rounds := clusterRounds + b.rng.Uint32N(16)
		args, err := cuda.NewLaunchArgs(w.at, rounds)
		if err != nil {
			return 0, 0, err
		}
		if err := b.gpu.driver.MemsetD32Async(w.at, poison, uint64(len(w.want)), b.stream); err != nil {
			return 0, 0, err
		}
		if err := b.launch(f, args); err != nil {
			return 0, 0, err
		}
		for i := range w.want {
			w.want[i] = kernels.ClusterResult(i, stressThreads, rounds)
		}
		return w.check()
	}), nil
}
