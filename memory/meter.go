package memory

import (
	"slices"
	"time"
)

const (
	// LeastLink is the slowest link that is believed: a lane of PCIe 1, and a simulated
	// device on a machine of two busy cores (0.2 to 0.7 GB/s). What is slower is a device
	// that somebody stopped, or a claim. Waits for memory end by arithmetic on the rate,
	// so it has to have an end itself.
	LeastLink Rate = 0.25e9
	// MostLink is the fastest: above any between a host and a device.
	MostLink Rate = 1e12

	// A sample is of that much, and took that long, at least. Who tells of a batch may
	// do so some milliseconds late, and of two at once.
	sampleBytes = 64 * MiB
	sampleTime  = 20 * time.Millisecond
	// sampleCount is how many samples count, the latest; fewSamples are too few to go
	// by. At 50 GB/s they are 16 GiB.
	sampleCount, fewSamples = 16, 5
	// strayPart: one in so many may be too fast.
	strayPart = 4
	// rateStep is by what part of itself a rate has to be wrong before another is
	// given out: turns change their length with it.
	rateStep = 16
)

// Meter makes a rate of what moved one way over a link: its upper quartile of late.
// Moves are slowed by much that is not the link (what they wait for, who copies late,
// a machine that has other things to do), and hardly anything makes them look faster,
// so three quarters of the samples may be too slow, and still less than a quarter too
// fast. As samples are of bytes and of time, who moves little, or says so, has little
// weight.
//
// The zero value is a meter of a link of which nothing is known: its rate is LinkRate
// until something was measured.
//
// Invariant: LeastLink <= Rate() <= what Expect was last told, or MostLink.
type Meter struct {
	sheet Rate // 0: not known

	bytes Bytes // of the sample that is being taken
	took  time.Duration

	samples [sampleCount]Rate
	count   uint // of samples in all
	rate    Rate // that was last given out; 0: none
}

// Expect tells what the link carries by a measurement of nothing else: that is the rate
// until something was measured, and no rate is ever above it. 0, or what is no rate, is
// not known.
func (m *Meter) Expect(sheet Rate) {
	if !(sheet > 0) {
		sheet = 0
	}
	if sheet == m.sheet {
		return
	}
	m.sheet = sheet
	m.rate = 0 // what it was given out for no longer holds
	m.settle()
}

// Add takes in that b came over the link in a time in which there was more to come all
// along; what came while something else was waited for is to be left out. Neither need
// be true or possible.
func (m *Meter) Add(b Bytes, took time.Duration) {
	if b < 0 || took < 0 {
		return
	}
	m.bytes = within(b, MaxBytes-m.bytes) + m.bytes
	m.took += min(took, time.Hour)
	if m.bytes < sampleBytes || m.took < sampleTime {
		return
	}
	m.samples[m.count%sampleCount] = Rate(float64(m.bytes) / m.took.Seconds())
	m.count++
	m.bytes, m.took = 0, 0
	m.settle()
}

// Rate is what the link carries, as far as is known.
func (m *Meter) Rate() Rate {
	if m.rate == 0 {
		m.settle()
	}
	return m.rate
}

// settle works the rate out.
func (m *Meter) settle() {
	r := m.sheet
	if r == 0 {
		r = LinkRate
	}
	if m.count >= fewSamples {
		r = m.quartile()
	}
	r = max(LeastLink, min(r, m.most()))
	if step := m.rate / rateStep; r > m.rate+step || r < m.rate-step {
		m.rate = r
	}
}

// most is the highest rate there can be.
func (m *Meter) most() Rate {
	if m.sheet == 0 {
		return MostLink
	}
	return max(LeastLink, min(m.sheet, MostLink))
}

// quartile is the highest of the samples but for a quarter, which may be too fast.
func (m *Meter) quartile() Rate {
	n := min(m.count, sampleCount)
	sorted := m.samples
	slices.Sort(sorted[:n])
	return sorted[n-1-(n-1)/strayPart]
}
