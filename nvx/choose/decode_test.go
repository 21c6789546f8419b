package choose

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xmsched/compute"
)

// decode is a foreground that generates tokens, as it runs on an H200's virtual machine:
// a thousand launches a token, bound by the CPU, whose speed changes by itself. One run
// is one token.
type decode struct {
	*replay
	random *rand.Rand
	token  time.Duration
	speed  func(at time.Duration) float64 // how much longer tokens take, by the processor
	slower float64                        // and how much longer beside the background
}

// play generates for so long.
func (d *decode) play(span time.Duration) {
	const look, synced, pause = time.Millisecond, 300 * time.Microsecond, 100 * time.Microsecond
	for end := d.now + span; d.now < end; {
		start := d.now
		d.chooser.Ready(d.fore, start)
		left := time.Duration(float64(d.token) * (0.95 + 0.1*d.random.Float64()) * d.speed(start))
		for left > 0 {
			if d.until(d.now); d.together() {
				left -= time.Duration(float64(look) / d.slower)
			} else {
				left -= look
			}
			d.until(d.now + look)
		}
		d.launches += 1000
		d.chooser.Ran(d.fore, d.now, d.now-start, d.now-start-synced)
		d.chooser.Launched(d.fore, d.now, uint64(d.launches))
		d.until(d.now + pause) // too short to count as idle
	}
}

func steady(time.Duration) float64 { return 1 }

func newDecode(seed uint64, token time.Duration) *decode {
	r := newReplay()
	r.chooser.Verdict(r.back, false, compute.Bounded)
	return &decode{replay: r, random: rand.New(rand.NewPCG(seed, 1)), token: token, speed: steady, slower: 1}
}

// TestDecodeIsKnownAtOnce has the background kept out for two tokens and no longer.
func TestDecodeIsKnownAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := time.Duration(rapid.IntRange(31_000, 45_000).Draw(t, "token us")) * time.Microsecond
		d := newDecode(rapid.Uint64().Draw(t, "seed"), token)
		d.slower = 1 + rapid.Float64Range(0, 0.2).Draw(t, "slower")
		d.play(30 * time.Second)
		if most := min(2*token*11/10, 100*time.Millisecond); d.out > most || len(d.left) > 0 {
			t.Fatalf("kept out for %v of %v, left %v", d.out, d.now, d.left)
		}
	})
}

// TestProcessorCostsTheBackgroundLittle has the processor change its speed in several
// ways: of 12 s the background loses as little as the start takes and one comparison.
func TestProcessorCostsTheBackgroundLittle(t *testing.T) {
	for name, speed := range map[string]func(*rand.Rand) func(time.Duration) float64{
		"by a factor of 2, every second or so": func(r *rand.Rand) func(time.Duration) float64 {
			next, speed := time.Duration(0), 1.0
			return func(at time.Duration) float64 {
				if at > next {
					next, speed = at+time.Duration((0.4+2*r.Float64())*float64(time.Second)), 1+float64(r.IntN(2))
				}
				return speed
			}
		},
		"from token to token": func(r *rand.Rand) func(time.Duration) float64 {
			return func(time.Duration) float64 { return 0.8 + 0.6*r.Float64() }
		},
		"slowly": func(r *rand.Rand) func(time.Duration) float64 {
			speed := 1.0
			return func(time.Duration) float64 {
				speed = min(1.5, max(0.75, speed*(0.925+0.15*r.Float64())))
				return speed
			}
		},
	} {
		const times, span = 200, 12 * time.Second
		var sum, worst time.Duration
		for seed := range uint64(times) {
			d := newDecode(seed, 35*time.Millisecond)
			d.speed = speed(d.random)
			d.play(span)
			sum, worst = sum+d.out, max(worst, d.out)
		}
		mean := sum / times
		t.Logf("%s: kept out for %v of %v, %v at worst", name, mean, span, worst)
		if mean > span*2/100 || worst > span*3/100 {
			t.Errorf("%s: kept out for %v of %v, %v at worst", name, mean, span, worst)
		}
	}
}

// TestComparisonsAreRare has every second of the processor look like the background's
// fault: what is lost to comparisons is one hundredth of the time, and the first.
func TestComparisonsAreRare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDecode(rapid.Uint64().Draw(t, "seed"), 35*time.Millisecond)
		half := time.Duration(rapid.IntRange(400, 3000).Draw(t, "half ms")) * time.Millisecond
		d.speed = func(at time.Duration) float64 { return 1 + float64(at/half%2) }
		d.play(time.Second)
		before := d.out
		const span = time.Minute
		d.play(span)
		if out, most := d.out-before, span/comparedShare+500*time.Millisecond; out > most && len(d.left) == 0 {
			t.Fatalf("kept out for %v of %v", out, span)
		}
	})
}

// TestBackgroundThatBecomesHeavyIsTakenAway has one that did no harm begin to slow the
// foreground down by half and more: that is seen within what is looked at, a second.
func TestBackgroundThatBecomesHeavyIsTakenAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDecode(rapid.Uint64().Draw(t, "seed"), 35*time.Millisecond)
		d.play(time.Duration(rapid.IntRange(1000, 9000).Draw(t, "light ms")) * time.Millisecond)
		before := d.beside
		d.slower = rapid.Float64Range(1.6, 4).Draw(t, "slower")
		d.play(20 * time.Second)
		if len(d.left) != 1 || d.beside-before > 1500*time.Millisecond {
			t.Fatalf("%v beside, %.1f times as slow; left %v", d.beside-before, d.slower, d.left)
		}
	})
}

// TestWhatWasKnownIsKeptOverAPause has two clients of MPS do nothing for seconds and go on
// at the same time: the background is not kept out to find out what was known before.
func TestWhatWasKnownIsKeptOverAPause(t *testing.T) {
	d := newDecode(1, 35*time.Millisecond)
	d.chooser.SetAble(d.back, false, false)
	d.chooser.SetShares(d.back, true)
	d.chooser.SetShares(d.fore, true)
	d.chooser.SetGrain(d.back, 100*time.Microsecond)
	d.play(time.Second)
	before := d.out
	for _, c := range []*Task{d.fore, d.back} {
		d.chooser.Idle(c, d.now)
	}
	d.chooser.Verdict(d.back, true, compute.Bounded)
	d.until(d.now + 5*time.Second)
	if got := d.chooser.Regime(); got != Plain {
		t.Fatalf("the regime is %v though nobody does anything", got)
	}
	d.chooser.Verdict(d.back, false, compute.Bounded)
	d.chooser.Ready(d.back, d.now)
	d.play(5 * time.Second)
	if out := d.out - before; out > 2*time.Millisecond {
		t.Errorf("kept out for %v", out)
	}
	d.slower = 2
	if d.play(3 * time.Second); d.chooser.Regime() != Plain {
		t.Error("that the background became heavy was not noticed")
	}
}

// TestComparisonFindsOutWhatWasNotKnown has a background turn up beside a foreground of
// which nothing but that it is bound by the CPU is known: how fast it is alone is found
// out, as a background that slows it down would not be noticed otherwise.
func TestComparisonFindsOutWhatWasNotKnown(t *testing.T) {
	for _, slower := range []float64{1, 2} {
		d := newDecode(1, 35*time.Millisecond)
		d.play(200 * time.Millisecond)
		d.fore.bound.base = 0
		d.slower = slower
		d.play(2 * time.Second)
		if known := d.fore.bound.base != 0; slower == 1 && !known {
			t.Error("how fast it is alone is not known after 2 s")
		}
		if away := len(d.left) > 0; away != (slower > 1) {
			t.Errorf("%.0f times as slow: left %v", slower, d.left)
		}
	}
}

// TestPauseIsNoComparison has the foreground pause for a minute in the middle of a
// comparison, while the background runs: that counts for nothing, and a background that
// becomes heavy later is taken away as soon as ever.
func TestPauseIsNoComparison(t *testing.T) {
	d := newDecode(1, 35*time.Millisecond)
	d.play(3 * time.Second)
	d.speed = func(time.Duration) float64 { return 2 }
	for limit := d.now + 5*time.Second; !d.fore.bound.comparison.keepsOut(); {
		if d.play(time.Millisecond); d.now > limit {
			t.Fatal("there was no comparison")
		}
	}
	d.chooser.Idle(d.fore, d.now)
	d.chooser.Verdict(d.back, true, compute.Bounded)
	d.until(d.now + time.Minute)
	d.chooser.Verdict(d.back, false, compute.Bounded)
	d.speed = steady
	d.play(30 * time.Second)
	if len(d.left) > 0 {
		t.Fatalf("left %v for a slow processor", d.left)
	}
	before := d.beside
	d.slower = 3
	if d.play(20 * time.Second); len(d.left) == 0 {
		t.Errorf("%v beside a heavy background after the pause, no comparison before %v of %v", d.beside-before, d.fore.bound.comparison.next, d.now)
	}
}
