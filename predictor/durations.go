package predictor

import "time"

// typical keeps how long a kernel takes. Launches whose memory was not on the device say
// how fast the link is: they count as long as there are no others. What is foreseen by
// them would be as little as can be read over the link, and so would be what comes in.
type typical struct{ here, away average }

// average forgets, 1/8 a launch.
type average struct {
	mean  time.Duration
	count uint32
}

// unknownDuration is expected of a command that was never timed: a short kernel.
const unknownDuration = 10 * time.Microsecond

// A kernel is slow if it takes slowFactor times its time and slowLeast more: what
// a few 2 MiB read over the link instead of from the device cost (40 us each).
const (
	slowFactor = 3
	slowLeast  = 200 * time.Microsecond
	slowAfter  = 4 // launches before its time is known
)

func (t *typical) expected() time.Duration {
	switch {
	case t.here.count > 0:
		return t.here.mean
	case t.away.count > 0:
		return t.away.mean
	}
	return unknownDuration
}

// tookAway takes in a duration of a launch whose memory was not there, which made it no
// faster, and says whether it was slow.
func (t *typical) tookAway(d time.Duration) (slow bool) {
	if t.away.took(d); t.here.count > 0 && d < t.here.mean {
		t.here.took(d)
	}
	return t.here.slow(d)
}

// took takes a duration in and says whether it was a slow one; those are believed
// only by half of what they exceed, so that one stall does not become the norm and
// a kernel that has become longer does.
func (t *average) took(d time.Duration) (slow bool) {
	d = max(d, 0)
	if t.count == 0 {
		t.mean, t.count = d, 1
		return false
	}
	if slow = t.slow(d); slow {
		d = t.limit()
	}
	if t.count < 8 {
		t.count++
	}
	t.mean += (d - t.mean) / time.Duration(t.count)
	return slow
}

func (t *average) slow(d time.Duration) bool { return t.count >= slowAfter && d > t.limit() }
func (t *average) limit() time.Duration      { return slowFactor*t.mean + slowLeast }
