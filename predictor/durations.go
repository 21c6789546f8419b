package predictor

import "time"

// typical keeps how long a kernel takes: an average that forgets, 1/8 a launch.
type typical struct {
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
	if t.count == 0 {
		return unknownDuration
	}
	return t.mean
}

// took takes a duration in and says whether it was a slow one; those are believed
// only by half of what they exceed, so that one stall does not become the norm and
// a kernel that has become longer does.
func (t *typical) took(d time.Duration) (slow bool) {
	d = max(d, 0)
	if t.count == 0 {
		t.mean, t.count = d, 1
		return false
	}
	limit := slowFactor*t.mean + slowLeast
	if slow = t.count >= slowAfter && d > limit; slow {
		d = limit
	}
	if t.count < 8 {
		t.count++
	}
	t.mean += (d - t.mean) / time.Duration(t.count)
	return slow
}
