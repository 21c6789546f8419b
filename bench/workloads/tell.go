package workloads

import (
	"context"
	"sync"
	"time"
)

// tell reports a count by the clock, not by what is counted: a program that stands
// still must be seen to. The returned function ends the reporting and waits.
func tell(ctx context.Context, say *Speaker, every time.Duration, count func() uint64) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if say.Say(Event{Kind: KindProgress, Count: count(), AtNS: MonotonicNS()}) != nil {
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
