package compute

import "time"

// Turns are short for the sake of tasks that come and go: who wakes waits for the
// present one. While nobody does, all that short turns do is to switch often, and
// what that costs is not known so well that small shares came out right in turns of
// a millisecond. So once nobody has woken for calmAfter, turns are as long as it
// takes for the smallest share to have calmTurn, in rounds of calmRound at most; who
// wakes then finds the present one cut to what it would have been.
//
// With turns of calmTurn, a switch of 0.15 ms that is known to a third leaves an
// error of half a percent (H200, 2026-11-30).
const (
	calmAfter = time.Second
	calmTurn  = 10 * time.Millisecond
	calmRound = 100 * time.Millisecond // hardly to be told from a device that is shared slowly
)

// calm knows whether tasks come and go.
type calm struct {
	woke  time.Duration // somebody did, last
	hurry bool          // and turns were long until then
}

func (c *calm) settled(now time.Duration) bool { return now-c.woke >= calmAfter }

// tick begins a decision.
func (c *calm) tick() { c.hurry = false }

func (c *calm) wakes(now time.Duration) {
	c.hurry = c.hurry || c.settled(now)
	c.woke = now
}

func (c *calm) hurries() bool { return c.hurry }

// turn is the length of a task's turn where it may be long, given the part of a task
// and the whole. It is not for a task that has asked for a length.
func (c *calm) turn(t *turner, others []*turner, part func(*turner) int64, whole int64) time.Duration {
	own := part(t)
	least := own
	if len(others) >= int(calmRound/calmTurn) {
		least = 1 // the round is as long as it may be anyway
	} else {
		for _, other := range others {
			least = min(least, part(other))
		}
	}
	round := min(float64(calmTurn)*float64(whole)/float64(max(least, 1)), float64(calmRound))
	return time.Duration(round * float64(own) / float64(whole))
}
