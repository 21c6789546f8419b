package memory

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sample gives a meter one sample of a rate.
func sample(m *Meter, r Rate) {
	b := max(sampleBytes, r.Over(sampleTime)+1)
	m.Add(b, r.Time(b))
}

func drawRate(t *rapid.T, what string) Rate {
	return Rate(rapid.Float64Range(float64(LeastLink), 200e9).Draw(t, what))
}

// near says whether a rate is what was wanted but for what a meter leaves alone.
func near(r, want Rate) bool { return math.Abs(float64(r-want)) <= float64(r)/rateStep*1.001 }

func TestMeterBeforeAnythingWasMeasured(t *testing.T) {
	var m Meter
	if m.Rate() != LinkRate {
		t.Errorf("nothing known: %g, want %g", m.Rate(), LinkRate)
	}
	for _, none := range []Rate{0, -1, Rate(math.NaN()), Rate(math.Inf(-1))} {
		if m.Expect(none); m.Rate() != LinkRate {
			t.Errorf("a sheet that says %g: %g", none, m.Rate())
		}
	}
	if m.Expect(24e9); m.Rate() != 24e9 {
		t.Errorf("a sheet that says 24 GB/s: %g", m.Rate())
	}
	if m.Expect(1); m.Rate() != LeastLink {
		t.Errorf("a sheet that says 1 B/s: %g", m.Rate())
	}
	if m.Expect(Rate(math.Inf(1))); m.Rate() != MostLink {
		t.Errorf("a sheet without an end: %g", m.Rate())
	}
	m.Expect(24e9)
	for range fewSamples - 1 {
		sample(&m, 5e9)
	}
	if m.Rate() != 24e9 {
		t.Errorf("with too few samples: %g", m.Rate())
	}
	if sample(&m, 5e9); !near(m.Rate(), 5e9) {
		t.Errorf("with enough of 5 GB/s: %g", m.Rate())
	}
}

// TestMeterFindsTheLink cuts what a steady link moved as looks may cut it, and wants
// that link's rate, with whatever there was before.
func TestMeterFindsTheLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Meter
		for range rapid.IntRange(0, 40).Draw(t, "samples of before") {
			sample(&m, drawRate(t, "rate of before"))
		}
		r, d := drawRate(t, "rate"), newDice(t)
		for end := m.count + sampleCount + 1; m.count < end; {
			// Looks are at times of their own: a batch is seen late, or two at once.
			b := Bytes(1+d.IntN(4)) * 16 * MiB
			early := min(r.Time(b), time.Duration(d.IntN(3000))*time.Microsecond)
			m.Add(b, r.Time(b)-early)
			m.Add(0, early)
		}
		// Three milliseconds of twenty, and what is left alone.
		if off := float64(m.Rate()-r) / float64(r); off < -0.2 || off > 0.25 {
			t.Errorf("a link of %g is taken for %g", r, m.Rate())
		}
	})
}

// TestMeterStandsStrays has most samples too slow, as of moves that waited for room that
// was not seen, and some too fast: the rate is that of the others.
func TestMeterStandsStrays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const fast, right = (sampleCount - 1) / strayPart, 1
		r := drawRate(t, "rate")
		rates := make([]Rate, 0, sampleCount)
		for range rapid.IntRange(0, fast).Draw(t, "too fast") {
			rates = append(rates, r*Rate(rapid.Float64Range(1, 50).Draw(t, "times")))
		}
		for len(rates) < fast+right {
			rates = append(rates, r)
		}
		for len(rates) < sampleCount {
			rates = append(rates, r*Rate(rapid.Float64Range(0.0001, 1).Draw(t, "of")))
		}
		rates = rapid.Permutation(rates).Draw(t, "order")
		var m Meter
		for range 3 {
			for _, s := range rates {
				sample(&m, s)
			}
		}
		if !near(m.Rate(), r) {
			t.Errorf("%g, want %g; of %g", m.Rate(), r, rates)
		}
	})
}

// TestMeterIsNeverAboveItsSheet adds what nothing can have moved, and amounts and times
// that do not exist.
func TestMeterIsNeverAboveItsSheet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Meter
		most := MostLink
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				most = Rate(rapid.Float64Range(float64(LeastLink), float64(MostLink)).Draw(t, "sheet"))
				m.Expect(most)
			default:
				m.Add(Bytes(rapid.Int64().Draw(t, "bytes")), time.Duration(rapid.Int64().Draw(t, "time")))
			}
			if r := m.Rate(); !(r >= LeastLink && r <= most) {
				t.Fatalf("%g, wanted from %g to %g", r, LeastLink, most)
			}
		}
	})
}

// TestMeterIsItsModel compares it with one that keeps everything and sorts it.
func TestMeterIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Meter
		var all []Rate
		was := m.Rate()
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			r := drawRate(t, "rate")
			sample(&m, r)
			all = append(all, r)
			late := slices.Clone(all[max(0, len(all)-16):])
			slices.Sort(late)
			slices.Reverse(late)
			want := LinkRate
			if len(all) >= 5 {
				want = late[(len(late)-1)/4]
			}
			got := m.Rate()
			if !near(got, want) {
				t.Fatalf("%g, want %g; the latest, sorted: %g", got, want, late)
			}
			if got != was && math.Abs(float64(got-was)) < float64(was)/17 {
				t.Fatalf("from %g to %g: too small a step", was, got)
			}
			was = got
		}
	})
}

// TestMeterWantsEnough has samples neither of little nor of a moment.
func TestMeterWantsEnough(t *testing.T) {
	var m Meter
	for range 100 {
		m.Add(sampleBytes, 0)
		m.Add(-GiB, time.Second)
		m.Add(GiB, -time.Second)
	}
	if m.count != 0 {
		t.Error("a sample of no time")
	}
	m = Meter{}
	m.Add(sampleBytes-1, time.Second)
	if m.count != 0 {
		t.Error("a sample of less than 64 MiB")
	}
	if m.Add(1, 0); m.count != 1 {
		t.Error("no sample of 64 MiB in two parts")
	}
}

func TestMeterTakesNoMemory(t *testing.T) {
	var m Meter
	if n := testing.AllocsPerRun(100, func() { m.Add(GiB, 20*time.Millisecond); m.Rate() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSetLink(t *testing.T) {
	p, err := NewPlanner(Config{Budget: 8 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	claims := []Claim{{Task: 1, Footprint: 4 * GiB}}
	load := func() time.Duration { return p.Decide(0, nil, nil, claims).Targets[0].Load }
	before := load()
	for _, bad := range []Rate{0, -1, 1e14, Rate(math.NaN())} {
		if err := p.SetLink(bad); err == nil {
			t.Errorf("a link of %g is taken", bad)
		}
	}
	if load() != before {
		t.Error("refused, and changed")
	}
	if err := p.SetLink(LinkRate / 4); err != nil {
		t.Fatal(err)
	}
	if got := load(); got < before*39/10 || got > before*41/10 {
		t.Errorf("loads in %v over a quarter of the link, %v over all of it", got, before)
	}
}
