package workloads

import (
	"context"
	"runtime"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// Chain is the background program of the row preempt: one kernel after the
// other, each of which itself writes into host memory that it ended. The
// program makes no other call into the driver, so nothing that measures is in
// its queue, and it reads its own progress from that memory.
type Chain struct {
	Iterations uint64
	InFlight   int // kernels handed to the driver and not ended
}

// Validate says what is wrong with the settings.
func (c Chain) Validate() error {
	return limit.First(
		limit.Check("iterations", c.Iterations, 1, maxIterations),
		limit.Check("in-flight", c.InFlight, 1, maxInFlight),
	)
}

// RunChain runs until it is told to end.
func RunChain(st Steering, say *Speaker, c Chain) error {
	if err := c.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	l, err := newLinks(g, c)
	if err != nil {
		return err
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts, WordsFD: l.fd}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	began := MonotonicNS()
	if err := l.run(st.Context, c.InFlight); err != nil {
		return err
	}
	return say.Say(Event{
		Kind: KindResult, Count: l.seen, BeganNS: began, AtNS: MonotonicNS(), Verified: l.seen, Wrong: l.wrong,
	})
}

// links are the kernels of a chain, one for each word.
type links struct {
	gpu    *gpu
	stream cuda.Stream
	words  *words
	fd     int
	args   []*cuda.LaunchArgs

	seen  uint64 // kernels that ended
	wrong uint64 // of these, with another result than the closed form
}

func newLinks(g *gpu, c Chain) (*links, error) {
	l := &links{gpu: g}
	var err error
	if l.stream, err = g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return nil, err
	}
	if l.words, l.fd, err = newWords(); err != nil {
		return nil, err
	}
	// A cleared word must differ from a result; one in 2^32 results does not.
	for kernels.SpinResult(0, c.Iterations) == 0 {
		c.Iterations++
	}
	l.words.setResult(kernels.SpinResult(0, c.Iterations))
	const flags = uint32(abi.CU_MEMHOSTREGISTER_PORTABLE | abi.CU_MEMHOSTREGISTER_DEVICEMAP)
	if err := g.driver.HostRegister(l.words.mapping, flags); err != nil {
		return nil, err
	}
	base, err := g.driver.HostDevicePointer(l.words.mapping)
	if err != nil {
		return nil, err
	}
	for k := range uint64(wordSlots) {
		args, err := cuda.NewLaunchArgs(base+abi.DevicePtr(l.words.offset(k)), c.Iterations)
		if err != nil {
			return nil, err
		}
		l.args = append(l.args, args)
	}
	return l, nil
}

// run keeps the chain going until the context ends, then waits for its end.
func (l *links) run(ctx context.Context, inFlight int) error {
	for k := uint64(0); ctx.Err() == nil; k++ {
		l.await(ctx, k, uint64(inFlight))
		l.words.clear(k + wordSlots/2)
		l.words.setLaunched(k + 1)
		err := l.gpu.driver.Launch(l.gpu.spin, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, l.stream, l.args[k%wordSlots])
		if err != nil {
			return err
		}
	}
	if err := l.stream.Synchronize(); err != nil {
		return err
	}
	l.look()
	return nil
}

// await returns when fewer than inFlight kernels are outstanding, or at the end.
// It spins for short kernels, else the queue would run dry while it sleeps.
func (l *links) await(ctx context.Context, launched, inFlight uint64) {
	const spin, nap = time.Millisecond, 100 * time.Microsecond
	for begun := time.Now(); ctx.Err() == nil; {
		l.look()
		if launched-l.seen < inFlight {
			return
		}
		if time.Since(begun) < spin {
			runtime.Gosched()
		} else {
			time.Sleep(nap)
		}
	}
}

// look sees kernels end, in their order.
func (l *links) look() {
	want := l.words.result()
	for launched := l.words.launched(); l.seen < launched; l.seen++ {
		v := l.words.load(l.seen)
		if v == 0 {
			return
		}
		if v != want {
			l.wrong++
		}
	}
}
