package workloads

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/preempt/board"
)

// Beats is the background program of the row preempt at Level 3: kernels of one
// length in a row, that compute with all the threads that the device holds. Whichever
// of them runs counts up a word of host memory, a beat every 10 us or so; whoever
// reads that word sees soon when they stand still. They read hardly anything over the
// link, and what they store there is nothing beside their work. It may suspend itself, by
// the preload library and without a daemon.
type Beats struct {
	Iterations uint64 // of each thread of a kernel
	Every      int    // iterations between two looks at the clock
	InFlight   int    // kernels handed to the driver and not ended
	Direct     int    // suspensions of itself; 0: none
	// RunFor and HoldFor are the times between two suspensions (up to twice as long,
	// evenly spread) and within one.
	RunFor, HoldFor time.Duration
}

// Validate says what is wrong with the settings.
func (b Beats) Validate() error {
	return limit.First(
		limit.Check("iterations", b.Iterations, 1, maxIterations),
		limit.Check("every", b.Every, 1, 1<<30),
		limit.Check("in-flight", b.InFlight, 1, maxInFlight),
		limit.Check("direct", b.Direct, 0, maxPulses),
		limit.Check("run-for", b.RunFor, 0, maxPause),
		limit.Check("hold-for", b.HoldFor, 0, maxPause),
	)
}

// Where a heart's words lie in the shared memory.
const (
	offBeats = 0   // counted up by the kernels
	offStop  = 128 // not 0: kernels end
)

// RunBeats runs until it is told to end.
func RunBeats(st Steering, say *Speaker, b Beats) error {
	if err := b.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	h, err := newHeart(g, b)
	if err != nil {
		return err
	}
	var own *channels
	if b.Direct > 0 {
		if own, err = openChannels(g.facts.UUID); err != nil {
			return err
		}
		if _, err := own.counts(); err != nil {
			return err
		}
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts, WordsFD: h.fd}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	e := Event{Kind: KindResult, BeganNS: MonotonicNS()}
	directed := make(chan error, 1)
	ctx, cancel := context.WithCancel(st.Context)
	defer cancel()
	go func() {
		err := h.direct(ctx, own, b, say, &e)
		if err != nil {
			cancel()
		}
		directed <- err
	}()
	err = h.run(ctx, b.InFlight)
	cancel()
	if directErr := <-directed; directErr != nil {
		return directErr
	}
	if err != nil {
		return err
	}
	e.Count, e.AtNS = h.done, MonotonicNS()
	return say.Say(e)
}

type heart struct {
	gpu        *gpu
	work       fullWork
	settings   Beats
	stream     cuda.Stream
	words      *words
	fd         int
	beats, end abi.DevicePtr // of the words
	ends       []cuda.Event
	done       uint64 // kernels that ended
}

func newHeart(g *gpu, b Beats) (*heart, error) {
	h := &heart{gpu: g, settings: b}
	var err error
	if h.work, err = g.newWork(); err != nil {
		return nil, err
	}
	if h.stream, err = g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return nil, err
	}
	if h.words, h.fd, err = newWords(); err != nil {
		return nil, err
	}
	const flags = uint32(abi.CU_MEMHOSTREGISTER_PORTABLE | abi.CU_MEMHOSTREGISTER_DEVICEMAP)
	if err := g.driver.HostRegister(h.words.mapping, flags); err != nil {
		return nil, err
	}
	base, err := g.driver.HostDevicePointer(h.words.mapping)
	if err != nil {
		return nil, err
	}
	h.beats, h.end = base+offBeats, base+offStop
	for range b.InFlight {
		end, err := g.driver.NewEvent(uint32(abi.CU_EVENT_BLOCKING_SYNC | abi.CU_EVENT_DISABLE_TIMING))
		if err != nil {
			return nil, err
		}
		h.ends = append(h.ends, end)
	}
	return h, nil
}

// beatInterval is the time between two beats, whatever the length of the kernels.
const beatInterval = 10 * time.Microsecond

func (h *heart) launch() error {
	args, err := h.work.args(h.beats, h.end, h.settings.Iterations, uint32(h.settings.Every), beatInterval)
	if err != nil {
		return err
	}
	return h.work.launch(h.stream, args)
}

// run keeps so many kernels queued until the context ends, then has them end.
func (h *heart) run(ctx context.Context, inFlight int) error {
	stopped := context.AfterFunc(ctx, func() { atomic.StoreUint32(h.words.word(offStop), 1) })
	defer stopped()
	for k := 0; ctx.Err() == nil; k++ {
		end := h.ends[k%inFlight]
		if k >= inFlight {
			if err := end.Synchronize(); err != nil {
				return err
			}
			h.done++
		}
		if err := h.launch(); err != nil {
			return err
		}
		if err := end.Record(h.stream); err != nil {
			return err
		}
	}
	return h.stream.Synchronize()
}

// direct suspends and resumes the program, and notes when it asked for each and
// when the call returned.
func (h *heart) direct(ctx context.Context, own *channels, b Beats, say *Speaker, into *Event) error {
	if b.Direct == 0 {
		return nil
	}
	defer func() { _, _ = own.set(board.HoldNone) }() // once more does no harm
	for i := range b.Direct {
		sleep(ctx, b.RunFor+evenly(i, b.RunFor))
		if ctx.Err() != nil {
			return nil
		}
		from := MonotonicNS()
		if _, err := own.set(board.HoldCompute); err != nil {
			return err
		}
		into.StartNS = append(into.StartNS, from)
		into.HoldUS = append(into.HoldUS, float64(MonotonicNS()-from)/1e3)
		sleep(ctx, b.HoldFor)
		end := MonotonicNS()
		if _, err := own.set(board.HoldNone); err != nil {
			return err
		}
		into.EndNS = append(into.EndNS, end)
		into.ReleaseUS = append(into.ReleaseUS, float64(MonotonicNS()-end)/1e3)
	}
	return say.Say(Event{Kind: KindProgress, Count: uint64(b.Direct), AtNS: MonotonicNS()})
}

// BeatsGone says that a watcher saw nothing beat.
type BeatsGone struct{ Pid int }

func (e *BeatsGone) Error() string { return fmt.Sprintf("the kernels of process %d never beat", e.Pid) }
