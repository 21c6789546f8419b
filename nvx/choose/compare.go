package choose

import "time"

// A foreground that became slow with a background beside it may be slow for another
// reason: processors change their speed by themselves, by half on the virtual machine
// of the measurements. So before a background is banned it is kept out for some tens
// of milliseconds, let in and kept out again: only if the foreground was faster alone
// both times was it the background's fault.
const (
	// By how much more slowly than without a background the foreground has to launch for
	// a comparison, and over how much time with work that has to be seen. One that keeps
	// the device busy itself launches half as fast; the rate of one that is bound by the
	// CPU varies by a tenth.
	besideSlower = 1.4
	besideSeen   = 300 * time.Millisecond

	// By how much faster alone it has to be, and the time with work that each stage sees:
	// two tokens of a decode and more. Beside the background it is more, as that has to
	// get going first.
	aloneBetter = 1.2
	aloneSeen   = 60 * time.Millisecond
	againSeen   = 120 * time.Millisecond

	// comparedShare says how much of the time the background is kept out, at most, for
	// comparisons that find it not to blame: one part in so many.
	comparedShare = 100
)

// stage is where a comparison is.
type stage uint8

const (
	untried    stage = iota // there is none
	alone                   // the background is out
	again                   // it is back
	aloneAgain              // it is out once more
)

// comparison tells how fast a foreground launches with a background and without.
type comparison struct {
	stage  stage
	out    time.Duration // that the background was kept out for it: the foreground had work
	blamed float64       // commands a second beside the background
	next   time.Duration // none before
}

// keepsOut says whether the background is kept out for it.
func (c *comparison) keepsOut() bool { return c.stage == alone || c.stage == aloneAgain }

// enough is the time with work that has to be seen to judge by.
func (s stage) enough() time.Duration {
	switch s {
	case untried:
		return besideSeen
	case again:
		return againSeen
	}
	return aloneSeen
}

// compare begins a comparison, or takes one further, by the rate that was seen.
func (b *bound) compare(now time.Duration) {
	c := &b.comparison
	rate, over := b.pace.rate()
	switch {
	case over < c.stage.enough():
	case c.stage == untried:
		b.suspect(now, rate)
	case c.keepsOut():
		b.sawAlone(now, rate, over)
	case rate*aloneBetter > b.base:
		b.acquit(now)
	default:
		c.blamed = rate
		b.enter(aloneAgain)
	}
}

// suspect begins a comparison if the foreground became slow, or it is not known how
// fast it is alone.
func (b *bound) suspect(now time.Duration, rate float64) {
	unknown := b.base == 0
	b.base = max(b.base, rate) // alone it is no slower
	if c := &b.comparison; now >= c.next && (unknown || rate*besideSlower < b.base) {
		c.out, c.blamed = 0, rate
		b.enter(alone)
	}
}

// sawAlone takes in how fast the foreground is without the background.
func (b *bound) sawAlone(now time.Duration, rate float64, over time.Duration) {
	c := &b.comparison
	b.base = rate
	c.out += over
	switch {
	case rate < c.blamed*aloneBetter:
		b.acquit(now)
	case c.stage == aloneAgain:
		b.mistaken(now)
	default:
		b.enter(again)
	}
}

// enter begins a stage. What was seen before is no measure.
func (b *bound) enter(s stage) {
	b.comparison.stage = s
	b.pace.restart()
}

// acquit ends a comparison that found the background not to blame.
func (b *bound) acquit(now time.Duration) {
	b.enter(untried)
	b.comparison.next = now + comparedShare*b.comparison.out
}
