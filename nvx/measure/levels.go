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
	h, err := g.newWork(endless)
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
	resume, call, err = goOn(c, h)
	return stop, resume, call, err
}

// goOn resumes a kernel that has to stand still until then.
func goOn(c *channels, h *heart) (resume, call time.Duration, err error) {
	if !h.still(calm) {
		return 0, 0, errNotStill
	}
	before := h.beats()
	begin := time.Now()
	if err := c.set(holdNone); err != nil {
		return 0, 0, err
	}
	call = time.Since(begin)
	seen, ok := until(again, func() bool { return h.beats() != before })
	if !ok {
		return 0, 0, errors.New("a kernel did not go on when it was resumed")
	}
	return seen.Sub(begin), call, nil
}

// stopForRequest measures level 3 as it is used: this process is armed; another one
// begins to use the GPU, and at once this one is suspended. It is resumed when the
// other is done.
func stopForRequest(g *gpu, c *channels, p *peer) (*sheet.Stops, error) {
	h, err := g.newWork(endless)
	if err != nil {
		return nil, err
	}
	if err := h.start(g); err != nil {
		return nil, err
	}
	err = c.setSlice(1)
	var stopped, resumed, calls []time.Duration
	for i := 0; i < rounds && err == nil; i++ {
		anyMoment(4 * time.Millisecond)
		s, r, call, e := stopForOne(c, h, p)
		if err = e; err == nil {
			stopped, resumed, calls = append(stopped, s), append(resumed, r), append(calls, call)
		}
	}
	if err = errors.Join(err, c.set(holdNone), c.setSlice(sliceBefore), h.end()); err != nil {
		return nil, err
	}
	h.close()
	return &sheet.Stops{Stop: times(stopped), Resume: times(resumed), ResumeCall: times(calls)}, nil
}

// stopForOne is one such request.
func stopForOne(c *channels, h *heart, p *peer) (stop, resume, call time.Duration, err error) {
	if !h.beating(again) {
		return 0, 0, 0, errors.New("a kernel that is armed does not run beside an idle process")
	}
	if err := p.beginRequest(); err != nil {
		return 0, 0, 0, err
	}
	begin := time.Now()
	held := c.set(holdCompute)
	stop = time.Since(begin)
	if err := errors.Join(held, p.endRequest()); err != nil {
		return 0, 0, 0, err
	}
	resume, call, err = goOn(c, h)
	return stop, resume, call, err
}
