package workloads

import (
	"context"
	"sync/atomic"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// Background is the program that keeps the device busy for ever: InFlight
// kernels are queued at any time. They write their results to host memory, where
// the program sees them end without a call into the driver, and compares them.
//
// Of a group of kernels only the last one writes: where kernels are short, looking at
// the results of each would keep the program from launching the next ones in time.
type Background struct {
	Iterations uint64
	InFlight   int
	Group      int  // kernels, the last of which writes its results
	Pace       bool // how fast the device is with queued kernels is measured beforehand
}

// maxInFlight is below what the driver's own queue holds (1,024 launches), so
// that the program waits for its kernels and not for the queue.
const maxInFlight = 512

// Validate says what is wrong with the settings.
func (b Background) Validate() error {
	return limit.First(
		limit.Check("iterations", b.Iterations, 1, maxIterations),
		limit.Check("in-flight", b.InFlight, 1, maxInFlight),
		limit.Check("group", b.Group, 1, b.InFlight),
	)
}

// maxEnded bounds the times that are kept of ended groups: half an hour of
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
	ready := Event{Kind: KindReady, Facts: &g.facts}
	if b.Pace {
		if ready.PeriodUS, err = l.pace(); err != nil {
			return err
		}
	}
	if err := say.Say(ready); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	began := MonotonicNS()
	stop := tell(st.Context, say, progressEvery, l.done.Load)
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

type load struct {
	gpu    *gpu
	stream cuda.Stream
	places []*place
	group  int           // kernels of a place
	done   atomic.Uint64 // kernels known to have ended
	over   atomic.Bool   // the stream is empty: nothing will be written any more

	// Written by the observing goroutine, read when it is gone.
	ended    []int64
	verified uint64
	wrong    uint64
}

func newLoad(g *gpu, b Background) (*load, error) {
	l := &load{gpu: g, group: b.Group}
	var err error
	if l.stream, err = g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return nil, err
	}
	expected := g.expected(b.Iterations)
	for range b.InFlight / b.Group {
		p, err := g.newPlace(b.Iterations, b.Group, expected)
		if err != nil {
			return nil, err
		}
		l.places = append(l.places, p)
	}
	return l, nil
}

// run keeps the places full, then empties them. One goroutine launches, and may
// have to wait with it for as long as a gate is closed; another sees kernels end
// by the words that they write, and calls the driver for nothing.
func (l *load) run(ctx context.Context) error {
	// Each place is in one of the two channels or in the hands of one goroutine.
	free, launched := make(chan *place, len(l.places)), make(chan *place, len(l.places))
	for _, p := range l.places {
		free <- p
	}
	observed := make(chan struct{})
	go func() {
		defer close(observed)
		l.observe(launched, free)
	}()
	err := l.launch(ctx, free, launched)
	if syncErr := l.stream.Synchronize(); err == nil {
		err = syncErr
	}
	l.over.Store(true)
	close(launched)
	<-observed
	return err
}

// pace gives the time between two ends of kernels that lie queued, in us: what the
// device takes for one with all that belongs to it, or what a launch takes where that
// is more. Nothing else must use the device.
func (l *load) pace() (float64, error) {
	const span = 5 * time.Millisecond // of the shorter of two queues
	first, err := l.queued(1)
	if err != nil {
		return 0, err
	}
	n := min(max(int(span/max(first, 1)), 1), maxInFlight/4)
	short, long := time.Duration(1<<62), time.Duration(1<<62)
	for begun, tries := time.Now(), 0; tries < 3 || time.Since(begun) < warmUp; tries++ {
		a, err := l.queued(n)
		if err != nil {
			return 0, err
		}
		b, err := l.queued(2 * n)
		if err != nil {
			return 0, err
		}
		short, long = min(short, a), min(long, b)
	}
	return float64((long - short).Nanoseconds()) / 1e3 / float64(n), nil
}

// queued times n kernels in a row.
func (l *load) queued(n int) (time.Duration, error) {
	begun := time.Now()
	for range n {
		if err := l.places[0].spin(l.stream); err != nil {
			return 0, err
		}
	}
	err := l.stream.Synchronize()
	return time.Since(begun), err
}

// faultsEvery is how often a launcher without a free place asks whether the
// device still works: a kernel that failed writes nothing.
const faultsEvery = time.Second

// launch fills free places until the context ends.
func (l *load) launch(ctx context.Context, free <-chan *place, launched chan<- *place) error {
	tick := time.NewTicker(faultsEvery)
	defer tick.Stop()
	for {
		var p *place
		select {
		case p = <-free:
		case <-tick.C:
			if _, err := l.stream.Query(); err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := p.launch(l.stream); err != nil {
			return err
		}
		launched <- p
	}
}

// lookEvery is the time between two looks for ends of kernels: by so much an end
// may be noted late. It is slept, since the core may be wanted by the program
// whose latency is measured.
const lookEvery = 50 * time.Microsecond

// observe sees kernels end, in the order of launching, until there are no more.
func (l *load) observe(launched <-chan *place, free chan<- *place) {
	for p := range launched {
		for !p.written() && !l.over.Load() {
			time.Sleep(lookEvery)
		}
		if l.done.Add(uint64(l.group)); len(l.ended) < maxEnded {
			l.ended = append(l.ended, MonotonicNS())
		}
		l.verified += uint64(len(p.out))
		l.wrong += p.differing()
		p.clear()
		free <- p
	}
}
