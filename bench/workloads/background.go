package workloads

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// Background is the program that keeps the device busy for ever: InFlight
// kernels are queued at any time.
type Background struct {
	Iterations uint64
	InFlight   int
}

// maxInFlight is below what the driver's own queue holds (1,024 launches), so
// that the program waits for its kernels and not for the queue.
const maxInFlight = 512

// Validate says what is wrong with the settings.
func (b Background) Validate() error {
	return limit.First(
		limit.Check("iterations", b.Iterations, 1, maxIterations),
		limit.Check("in-flight", b.InFlight, 1, maxInFlight),
	)
}

// verifyOneIn kernels has its result cleared before and compared after; the
// copy runs beside the next kernels.
const verifyOneIn = 32

// maxEnded bounds the times that are kept of ended kernels: half an hour of
// kernels of 4.7 ms. Later ones are counted only.
const maxEnded = 400_000

// RunBackground runs until it is told to end.
func RunBackground(st Steering, say *Speaker, b Background) error {
	if err := b.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	l, err := newLoad(g, b)
	if err != nil {
		return err
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	began := MonotonicNS()
	stop := l.tell(st.Context, say)
	err = l.run(st.Context)
	stop()
	if err != nil {
		return err
	}
	return say.Say(Event{
		Kind: KindResult, Count: l.done.Load(), BeganNS: began, AtNS: MonotonicNS(),
		EndedNS: l.ended, Verified: l.verified, Wrong: l.wrong,
	})
}

// place is one of the InFlight places in the queue, with its own results.
type place struct {
	job    *job
	ended  cuda.Event
	verify bool // the kernel in it is to be compared
}

type load struct {
	gpu    *gpu
	stream cuda.Stream
	copies cuda.Stream
	places []place
	done   atomic.Uint64 // kernels known to have ended

	// Written by the waiting thread, read when it is gone.
	ended    []int64
	verified uint64
	wrong    uint64
}

func newLoad(g *gpu, b Background) (*load, error) {
	l := &load{gpu: g}
	var err error
	if l.stream, err = g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return nil, err
	}
	if l.copies, err = g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return nil, err
	}
	expected := g.expected(b.Iterations)
	for range b.InFlight {
		var p place
		if p.job, err = g.newJob(b.Iterations, expected); err != nil {
			return nil, err
		}
		// Blocking: the thread sleeps in the driver instead of taking a core from
		// the program whose latency is measured.
		if p.ended, err = g.driver.NewEvent(uint32(abi.CU_EVENT_BLOCKING_SYNC | abi.CU_EVENT_DISABLE_TIMING)); err != nil {
			return nil, err
		}
		l.places = append(l.places, p)
	}
	return l, nil
}

// run keeps the places full, then empties them. One thread launches and another
// waits: a launch may take long (it may have to wait itself), and the end of a
// kernel must be seen when it comes.
func (l *load) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Each place is in one of the two channels or in the hands of one thread.
	free, launched := make(chan *place, len(l.places)), make(chan *place, len(l.places))
	for i := range l.places {
		free <- &l.places[i]
	}
	waited := make(chan error, 1)
	go func() {
		err := l.wait(launched, free)
		cancel()
		waited <- err
	}()
	err := l.launch(ctx, free, launched)
	close(launched)
	if waitErr := <-waited; waitErr != nil {
		return waitErr
	}
	return err
}

// launch fills free places until the context ends.
func (l *load) launch(ctx context.Context, free <-chan *place, launched chan<- *place) error {
	for n := uint64(0); ; n++ {
		var p *place
		select {
		case p = <-free:
		case <-ctx.Done():
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		p.verify = n%verifyOneIn == 0
		if p.verify {
			if err := p.job.poison(l.stream); err != nil {
				return err
			}
		}
		if err := p.job.launch(l.stream); err != nil {
			return err
		}
		if err := p.ended.Record(l.stream); err != nil {
			return err
		}
		launched <- p
	}
}

// wait sees kernels end, in the order of launching, until there are no more.
func (l *load) wait(launched <-chan *place, free chan<- *place) error {
	unlock, err := l.gpu.join()
	if err != nil {
		return err
	}
	defer unlock()
	for p := range launched {
		if err := p.ended.Synchronize(); err != nil {
			return err
		}
		if l.done.Add(1); len(l.ended) < maxEnded {
			l.ended = append(l.ended, MonotonicNS())
		}
		if p.verify {
			wrong, err := p.job.check(l.copies)
			if err != nil {
				return err
			}
			l.verified += uint64(len(p.job.expected) / 4)
			l.wrong += wrong
		}
		free <- p
	}
	return nil
}

// tell reports the count by the clock, not by the kernels: a load that stands
// still must be seen to. The returned function ends the reporting and waits.
func (l *load) tell(ctx context.Context, say *Speaker) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			if say.Say(Event{Kind: KindProgress, Count: l.done.Load(), AtNS: MonotonicNS()}) != nil {
				return // the parent is gone; our stdin ends too
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
