package workloads

import (
	"xmsched/bench/internal/limit"
)

// Pin is the program that pins host memory and gives it back, over and over: the
// driver holds a lock over all devices meanwhile, which a suspension needs too.
type Pin struct {
	Bytes uint64 // together
	Chunk uint64 // of one call
}

// Validate says what is wrong with the settings.
func (p Pin) Validate() error {
	return limit.First(
		limit.Check("bytes", p.Bytes, 1, 1<<40),
		limit.Check("chunk", p.Chunk, 1, 1<<32),
	)
}

// RunPin pins until it is told to end.
func RunPin(st Steering, say *Speaker, p Pin) error {
	if err := p.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	e := Event{Kind: KindResult, BeganNS: MonotonicNS()}
	for st.Context.Err() == nil {
		pinned, err := g.pin(st, p)
		for _, b := range pinned {
			if freeErr := g.driver.HostFree(b); freeErr != nil && err == nil {
				err = freeErr
			}
			e.Count += uint64(len(b))
		}
		if err != nil {
			return err
		}
		if err := say.Say(Event{Kind: KindProgress, Count: e.Count, AtNS: MonotonicNS()}); err != nil {
			return err
		}
	}
	e.AtNS = MonotonicNS()
	return say.Say(e)
}

func (g *gpu) pin(st Steering, p Pin) (pinned [][]byte, err error) {
	for left := p.Bytes; left > 0 && st.Context.Err() == nil; {
		n := min(left, p.Chunk)
		b, err := g.driver.HostAlloc(n, 0)
		if err != nil {
			return pinned, err
		}
		pinned = append(pinned, b)
		left -= n
	}
	return pinned, nil
}
