package measure

import (
	"errors"
	"fmt"
	"time"

	"xmsched/nvx/sheet"
)

const (
	// window is how long beats are counted for a share: some fifty turns.
	window = 200 * time.Millisecond
	// switchWindows of it are counted for the switch.
	switchWindows = 6
	// setRounds is how often a time slice is set for the time of the call.
	setRounds = 20
)

// acceptable lengths are asked for while the GPU is idle; shared ones also run
// beside the neighbour, whose turns they must not make too long.
var (
	acceptable = []uint32{1, 10, 100, 1000, 10_000, 100_000, 1_000_000}
	shared     = []uint32{1, 100, 300, 1000, 2048, 8192}
)

// together are two hearts of two processes.
type together struct {
	h             *heart
	peer          *peer
	alone, theirs float64 // beats a second of each when it runs alone
}

// rate counts the heart's beats for a window.
func (h *heart) rate() float64 {
	begin, before := time.Now(), h.beats()
	time.Sleep(window)
	return float64(h.beats()-before) / time.Since(begin).Seconds()
}

// meet measures both alone, and leaves both running.
func meet(g *gpu, p *peer) (*together, error) {
	h, err := g.newWork(endless)
	if err != nil {
		return nil, err
	}
	t := &together{h: h, peer: p}
	if err := p.beat(); err != nil {
		return nil, err
	}
	time.Sleep(window / 4)
	if t.theirs, err = p.rate(); err != nil {
		return nil, err
	}
	if err := p.rest(); err != nil {
		return nil, err
	}
	if err := h.start(g); err != nil {
		return nil, err
	}
	time.Sleep(window / 4)
	t.alone = h.rate()
	if t.alone == 0 || t.theirs == 0 {
		return nil, errors.Join(errors.New("a kernel that runs alone shows no progress"), h.end())
	}
	return t, p.beat()
}

// turns are what two busy processes get of the GPU.
type turns struct {
	own, other float64       // parts of its time
	turn       time.Duration // how long this process runs at a time; 0: not seen
}

func (t turns) lost() float64 { return max(0, 1-t.own-t.other) }

// look counts for a window.
func (t *together) look() (turns, error) {
	reply := make(chan error, 1)
	var theirs float64
	go func() { // ends with the peer's answer or its end
		var err error
		theirs, err = t.peer.rate()
		reply <- err
	}()
	begin, before := time.Now(), t.h.beats()
	n := t.h.absences(window, t.alone)
	took := time.Since(begin)
	now := turns{own: float64(t.h.beats()-before) / took.Seconds() / t.alone}
	if err := <-reply; err != nil {
		return now, err
	}
	now.other = theirs / t.theirs
	if n > 0 {
		now.turn = time.Duration(now.own * float64(took) / float64(n))
	}
	return now, nil
}

// absence is how long no beat is seen when another process has the GPU: beats are
// some 10 us apart.
const absence = 500 * time.Microsecond

// absences counts for a while how often another process got the GPU; rate is the
// kernel's beats a second when it is alone.
func (h *heart) absences(d time.Duration, rate float64) (n int) {
	value, seen := h.beats(), time.Now()
	for now, end := seen, seen.Add(d); now.Before(end); now = time.Now() {
		v := h.beats()
		if v == value {
			pause()
			continue
		}
		// Whoever looks may be late himself: then there were beats all the while.
		away := now.Sub(seen)
		if away > absence && float64(v-value) < away.Seconds()*rate/2 {
			n++
		}
		value, seen = v, now
	}
	return n
}

// part ends both.
func (t *together) part() error {
	err := errors.Join(t.h.end(), t.peer.rest())
	t.h.close()
	return err
}

// contextSwitch looks how both share the GPU with the time slices that they were
// made with.
func contextSwitch(g *gpu, p *peer) (*sheet.Switch, error) {
	t, err := meet(g, p)
	if err != nil {
		return nil, err
	}
	var costs []time.Duration
	var last turns
	for range switchWindows {
		now, e := t.look()
		if err = e; err != nil {
			break
		}
		last = now
		if now.turn > 0 { // of a turn and the switch after it, the part lost
			costs = append(costs, time.Duration(now.lost()/max(1-now.lost(), 0.01)*float64(now.turn)))
		}
	}
	if err == nil && len(costs) == 0 {
		err = fmt.Errorf("no turns of two busy processes were seen: one had %.1f %% of the GPU, the other %.1f %%", percent(last.own), percent(last.other))
	}
	if err := errors.Join(err, t.part()); err != nil {
		return nil, err
	}
	return &sheet.Switch{
		Cost: times(costs), TurnUS: microseconds(last.turn), SharePercent: percent(last.own), OtherSharePercent: percent(last.other),
	}, nil
}

// timeSlices finds out which lengths are accepted and what they do.
func timeSlices(g *gpu, c *channels, p *peer) (*sheet.TimeSlice, error) {
	s := &sheet.TimeSlice{}
	for _, us := range acceptable {
		if c.setSlice(us) == nil {
			s.HighestUS = us
			if s.LowestUS == 0 {
				s.LowestUS = us
			}
		}
	}
	var err error
	if s.SetIdle, err = settingTimes(c); err == nil {
		err = c.setSlice(sliceBefore)
	}
	if err != nil {
		return nil, err
	}
	t, err := meet(g, p)
	if err != nil {
		return nil, err
	}
	s.SetBusy, err = settingTimes(c)
	for _, us := range shared {
		if err != nil {
			break
		}
		var one sheet.Slice
		one, err = t.try(c, us)
		s.Tried = append(s.Tried, one)
	}
	return s, errors.Join(err, c.setSlice(sliceBefore), t.part())
}

// try runs with a time slice beside the neighbour.
func (t *together) try(c *channels, us uint32) (sheet.Slice, error) {
	one := sheet.Slice{AskedUS: us}
	if err := c.setSlice(us); err != nil {
		one.Status = refusal(err)
		return one, nil
	}
	one.Accepted = true
	time.Sleep(window / 10)
	now, err := t.look()
	one.TurnUS = microseconds(now.turn)
	one.SharePercent, one.OtherSharePercent = percent(now.own), percent(now.other)
	return one, err
}

// percent has a digit behind the point.
func percent(share float64) float64 { return float64(int(share*1000+0.5)) / 10 }

// settingTimes sets the slice to and fro.
func settingTimes(c *channels) (*sheet.Times, error) {
	var took []time.Duration
	for i := range setRounds {
		us := uint32(1000 + 1000*(i%2))
		begin := time.Now()
		if err := c.setSlice(us); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
		anyMoment(2 * time.Millisecond)
	}
	return times(took), nil
}

// requests of the foreground in each condition.
const requests = 50

// foreground measures how long an empty command of the peer takes while this
// process is alone with it, busy, armed, or stopped in mid-kernel.
func foreground(g *gpu, c *channels, p *peer) (*sheet.Foreground, error) {
	var f sheet.Foreground
	h, err := g.newWork(endless)
	if err != nil {
		return nil, err
	}
	if f.Alone, err = p.requests(requests); err != nil {
		return nil, err
	}
	if err := h.start(g); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		prepare func() error
		into    **sheet.Times
	}{
		{func() error { return nil }, &f.Beside},
		{func() error { return c.setSlice(1) }, &f.Armed},
		{func() error { return errors.Join(c.setSlice(sliceBefore), c.set(holdCompute)) }, &f.Stopped},
	} {
		if err = step.prepare(); err != nil {
			break
		}
		if *step.into, err = p.requests(requests); err != nil {
			break
		}
	}
	err = errors.Join(err, c.set(holdNone), c.setSlice(sliceBefore), h.end())
	if err != nil {
		return nil, fmt.Errorf("a foreground beside this process: %w", err)
	}
	h.close()
	return &f, nil
}
