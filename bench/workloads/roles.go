package workloads

import (
	"context"
	"math"
	"runtime"
	"time"
)

// watch reads the gate word without pause and notes each change to closed.
func (p *player) watch(ctx context.Context, say *Speaker) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.setReady(true); err != nil {
		return err
	}
	var closed []int64
	last := p.device.Gate()
	if err := say.Say(Event{Kind: KindGate, Open: last.Open()}); err != nil { // it looks
		return err
	}
	for n := 0; n&0xfff != 0 || ctx.Err() == nil; n++ {
		g := p.device.Gate()
		if g == last {
			continue
		}
		now := MonotonicNS()
		p.device.Ack(g)
		if g.Open() != last.Open() {
			if !g.Open() {
				closed = append(closed, now)
			}
			if err := say.Say(Event{Kind: KindGate, Open: g.Open(), AtNS: now}); err != nil {
				return err
			}
		}
		last = g
	}
	return say.SayTimes(closed)
}

// toggle makes the edges, each once the last has been answered at the watcher's
// gate. The time is read before the edge is stored, so all of the way is in the
// figure.
func (p *player) toggle(st Steering, say *Speaker, edges int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ready []int64
	for range edges {
		at := MonotonicNS()
		if err := p.setReady(true); err != nil {
			return err
		}
		if !st.waitGate(false) {
			break
		}
		ready = append(ready, at)
		time.Sleep(settle)
		p.device.Ack(p.device.Gate())
		if err := p.setReady(false); err != nil {
			return err
		}
		if !st.waitGate(true) {
			break
		}
		time.Sleep(settle)
	}
	return say.SayTimes(ready)
}

// pulse is ready and idle in turn. The rests are of different lengths, evenly
// spread, so that the edges fall into every phase of what the others do.
func (p *player) pulse(ctx context.Context, say *Speaker, c Client) error {
	e := Event{Kind: KindResult}
	next := time.Now()
	rest := func(d time.Duration) {
		if next = next.Add(d); c.Paced {
			d = time.Until(next)
		}
		sleep(ctx, d)
	}
	for i := range c.Edges {
		at := MonotonicNS()
		if err := p.setReady(true); err != nil {
			return err
		}
		rest(c.Hold)
		p.device.Ack(p.device.Gate())
		end := MonotonicNS()
		if err := p.setReady(false); err != nil {
			return err
		}
		e.StartNS, e.EndNS = append(e.StartNS, at), append(e.EndNS, end)
		rest(c.Rest + evenly(i, c.Spread))
		if ctx.Err() != nil {
			break
		}
	}
	e.Count, e.AtNS = uint64(len(e.StartNS)), MonotonicNS()
	return say.Say(e)
}

// evenly gives times below spread that the numbers i spread evenly.
func evenly(i int, spread time.Duration) time.Duration {
	const golden = 0.6180339887498949 // its multiples spread evenly
	_, phase := math.Modf(float64(i) * golden)
	return time.Duration(phase * float64(spread))
}

// sleep ends early with the context.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
