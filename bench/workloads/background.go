package workloads

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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
	if b.Iterations < 1 {
		return fmt.Errorf("iterations is %d, want at least 1", b.Iterations)
	}
	if b.InFlight < 1 || b.InFlight > maxInFlight {
		return fmt.Errorf("in-flight is %d, want 1 to %d", b.InFlight, maxInFlight)
	}
	return nil
}

// verifyOneIn kernels has its result cleared before and compared after; the
// copy runs beside the next kernels.
const verifyOneIn = 32

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
	err = l.run(st)
	stop()
	if err != nil {
		return err
	}
	return say.Say(Event{
		Kind: KindResult, Count: l.done.Load(), BeganNS: began, AtNS: MonotonicNS(), Verified: l.verified, Wrong: l.wrong,
	})
}

// place is one of the InFlight places in the queue, with its own results.
type place struct {
	job    *job
	ended  cuda.Event
	verify bool // the kernel in it is to be compared
}

type load struct {
	stream   cuda.Stream
	copies   cuda.Stream
	places   []place
	done     atomic.Uint64 // kernels known to have ended
	verified uint64
	wrong    uint64
}

func newLoad(g *gpu, b Background) (*load, error) {
	l := &load{}
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

// run keeps the places full, then empties them.
func (l *load) run(st Steering) error {
	launched := uint64(0)
	for ; st.Context.Err() == nil; launched++ {
		p := &l.places[launched%uint64(len(l.places))]
		if launched >= uint64(len(l.places)) {
			if err := l.end(p); err != nil {
				return err
			}
		}
		p.verify = launched%verifyOneIn == 0
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
	}
	for launched > l.done.Load() {
		if err := l.end(&l.places[l.done.Load()%uint64(len(l.places))]); err != nil {
			return err
		}
	}
	return nil
}

// end waits for the kernel in the place; places end in the order of launching.
func (l *load) end(p *place) error {
	if err := p.ended.Synchronize(); err != nil {
		return err
	}
	l.done.Add(1)
	if !p.verify {
		return nil
	}
	wrong, err := p.job.check(l.copies)
	if err != nil {
		return err
	}
	l.verified += uint64(len(p.job.expected) / 4)
	l.wrong += wrong
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
