package workloads

import (
	"context"
	"sync/atomic"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// stepsQueued is how many steps lie in the queue, so that the device is never
// without work while it is the program's turn.
const stepsQueued = 4

// toucher makes the steps of a program with much memory.
type toucher struct {
	m        *massif
	settings Touch
	result   Touched
	ended    atomic.Uint64 // steps
	latency  []float64     // of steps that are released by the clock, in us
	released []int64       // when each of those was, in ns
}

func (r *toucher) run(ctx context.Context) error {
	if r.settings.Period > 0 {
		return r.byTheClock(ctx)
	}
	return r.endless(ctx)
}

// more says whether step n is still to be made.
func (r *toucher) more(ctx context.Context, n uint64) bool {
	return ctx.Err() == nil && (r.settings.Steps == 0 || n < uint64(r.settings.Steps))
}

// endless queues steps and waits for the one that is stepsQueued older.
func (r *toucher) endless(ctx context.Context) error {
	var ends [stepsQueued]cuda.Event
	for i := range ends {
		var err error
		if ends[i], err = r.m.gpu.driver.NewEvent(uint32(abi.CU_EVENT_DISABLE_TIMING)); err != nil {
			return err
		}
	}
	var scratch []int
	var err error
	n := uint64(0)
	for ; r.more(ctx, n); n++ {
		if n >= stepsQueued {
			if err := r.await(ends[n%stepsQueued], n-stepsQueued); err != nil {
				return err
			}
		}
		if scratch, err = r.m.queue(n, scratch); err != nil {
			return err
		}
		if err := ends[n%stepsQueued].Record(r.m.stream); err != nil {
			return err
		}
	}
	for k := n - min(n, stepsQueued); k < n; k++ {
		if err := r.await(ends[k%stepsQueued], k); err != nil {
			return err
		}
	}
	return nil
}

func (r *toucher) await(end cuda.Event, step uint64) error {
	if err := end.Synchronize(); err != nil {
		return err
	}
	r.ended.Store(step + 1)
	r.result.mark(MonotonicNS(), step+1)
	return nil
}

// byTheClock makes one step at a time, released by the clock. One whose time has
// passed begins at once, and has waited since.
func (r *toucher) byTheClock(ctx context.Context) error {
	var scratch []int
	var err error
	next := MonotonicNS()
	for n := uint64(0); r.more(ctx, n); n++ {
		if sleepUntil(ctx, next); ctx.Err() != nil {
			return nil
		}
		if scratch, err = r.m.queue(n, scratch); err != nil {
			return err
		}
		if err := r.m.stream.Synchronize(); err != nil {
			return err
		}
		now := MonotonicNS()
		r.ended.Store(n + 1)
		r.result.mark(now, n+1)
		r.latency, r.released = append(r.latency, float64(now-next)/1e3), append(r.released, next)
		next += r.settings.Period.Nanoseconds()
		if b := uint64(r.settings.Burst); b > 0 && (n+1)%b == 0 {
			next = max(next, MonotonicNS()) + r.settings.Pause.Nanoseconds()
		}
	}
	return nil
}

// sleepUntil sleeps, and spins for the last part, which a timer misses.
func sleepUntil(ctx context.Context, at int64) {
	const spin = 200 * time.Microsecond
	if d := time.Duration(at - MonotonicNS()); d > spin {
		sleep(ctx, d-spin)
	}
	for MonotonicNS() < at && ctx.Err() == nil {
	}
}
