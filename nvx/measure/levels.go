package measure

import (
	"errors"
	"time"

	"xmsched/nvx/sheet"
)

// rounds of stopping, per level and condition.
const rounds = 30

// levels are the three ways, without figures.
func levels() []sheet.Level {
	return []sheet.Level{
		{Level: 1, Unit: "outstanding commands", How: "no further command enters the queue; those outstanding run out"},
		{Level: 2, Unit: "command", How: "the GPU waits for a word in memory before each command; the running one ends"},
		{Level: 3, Unit: "instruction", How: "the channels are taken off the GPU; a kernel goes on where it stopped"},
	}
}

// stopCommands measures level 1 or, gated, level 2.
func stopCommands(g *gpu, gated bool) (*sheet.Stops, error) {
	c, err := newCommands(g, gated)
	if err != nil {
		return nil, err
	}
	stop := c.stopLaunching
	if gated {
		stop = c.closeGate
	}
	var stopped, resumed []time.Duration
	for range rounds {
		if err = c.running(); err != nil {
			break
		}
		anyMoment(2 * time.Millisecond)
		s, r, e := stop()
		if err = e; err != nil {
			break
		}
		stopped, resumed = append(stopped, s), append(resumed, r)
	}
	if err = errors.Join(err, c.end()); err != nil {
		return nil, err
	}
	return &sheet.Stops{Stop: times(stopped), Resume: times(resumed)}, nil
}

// stopKernel measures level 3: a kernel without end.
func stopKernel(g *gpu, c *channels) (*sheet.Stops, error) {
	h, err := g.newHeart()
	if err != nil {
		return nil, err
	}
	if err := h.start(g); err != nil {
		return nil, err
	}
	var stopped, resumed, calls []time.Duration
	for range rounds {
		anyMoment(4 * time.Millisecond)
		s, r, call, e := stopOnce(c, h)
		if err = e; err != nil {
			break
		}
		stopped, resumed, calls = append(stopped, s), append(resumed, r), append(calls, call)
	}
	if err = errors.Join(err, c.set(holdNone), h.end()); err != nil {
		return nil, err
	}
	h.close()
	return &sheet.Stops{Stop: times(stopped), Resume: times(resumed), ResumeCall: times(calls)}, nil
}

// stopOnce: when the call returns nothing of the process runs any more, which is
// watched.
func stopOnce(c *channels, h *heart) (stop, resume, call time.Duration, err error) {
	begin := time.Now()
	if err := c.set(holdCompute); err != nil {
		return 0, 0, 0, err
	}
	stop = time.Since(begin)
	if !h.still(calm) {
		return 0, 0, 0, errNotStill
	}
	before := h.beats()
	begin = time.Now()
	if err := c.set(holdNone); err != nil {
		return 0, 0, 0, err
	}
	call = time.Since(begin)
	seen, ok := until(again, func() bool { return h.beats() != before })
	if !ok {
		return 0, 0, 0, errors.New("a kernel did not go on when it was resumed")
	}
	return stop, seen.Sub(begin), call, nil
}
