package plane

import (
	"math/bits"
	"time"
)

const (
	// Each octave has so many buckets, so that a bucket's middle is within 1/32 of
	// every value in it.
	octaveBuckets = 1 << octaveBits
	octaveBits    = 4
	// Longer values count as the longest: 71 minutes.
	longestBits = 32
	buckets     = (longestBits - octaveBits + 1) * octaveBuckets
)

// histogram is a distribution of lengths of time, in microseconds, of a fixed size.
// The zero value is empty.
type histogram struct {
	counts [buckets]uint32 // one that is full stays so
	n      uint64
	sum    time.Duration
	max    time.Duration
}

func (h *histogram) record(d time.Duration) {
	d = max(d, 0)
	us := min(uint64(d/time.Microsecond), 1<<longestBits-1)
	if i := bucketOf(us); h.counts[i] != 1<<32-1 {
		h.counts[i]++
	}
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

// bucketOf is the bucket of a value. Values below an octave's number of buckets have
// one each.
func bucketOf(us uint64) int {
	if us < octaveBuckets {
		return int(us)
	}
	shift := bits.Len64(us) - 1 - octaveBits
	return shift*octaveBuckets + int(us>>shift)
}

// middleOf is the middle of a bucket.
func middleOf(i int) time.Duration {
	if i < 2*octaveBuckets { // one value each
		return time.Duration(i) * time.Microsecond
	}
	shift := i/octaveBuckets - 1
	low := uint64(i-shift*octaveBuckets) << shift
	return time.Duration(low+(1<<shift)/2) * time.Microsecond
}

// Latency limits of Requests.Within: powers of two from 64 us to 16.8 s.
const (
	firstLimitBits = 6
	Limits         = 19
)

// Limit is the i-th limit of Requests.Within.
func Limit(i int) time.Duration { return time.Microsecond << (firstLimitBits + i) }

// Requests is how long requests took, from turning ready to turning idle.
type Requests struct {
	N             uint64
	P50, P90, P99 time.Duration // to 3 percent
	Max, Sum      time.Duration
	Within        [Limits]uint64 // took less than Limit(i)
}

// summary goes over both histograms once; other may be nil.
func (h *histogram) summary(other *histogram) Requests {
	r := Requests{N: h.n, Max: h.max, Sum: h.sum}
	if other != nil {
		r.N, r.Max, r.Sum = r.N+other.n, max(r.Max, other.max), r.Sum+other.sum
	}
	if r.N == 0 {
		return r
	}
	rank := func(percent uint64) uint64 { return (r.N*percent + 99) / 100 }
	wanted := [3]uint64{rank(50), rank(90), rank(99)}
	found := [3]time.Duration{r.Max, r.Max, r.Max}
	var seen uint64
	next, limit := 0, 0
	for i := range h.counts {
		for limit < Limits && i == bucketOf(1<<(firstLimitBits+limit)) {
			r.Within[limit] = seen
			limit++
		}
		n := uint64(h.counts[i])
		if other != nil {
			n += uint64(other.counts[i])
		}
		seen += n
		for next < len(wanted) && n > 0 && seen >= wanted[next] {
			found[next] = min(middleOf(i), r.Max)
			next++
		}
	}
	r.P50, r.P90, r.P99 = found[0], found[1], found[2]
	return r
}

// recentSpan is the length of a half of what counts as recent.
const recentSpan = 30 * time.Second

// recent is a distribution over the last recentSpan to two times that.
type recent struct {
	halves [2]histogram // the present one first
	since  time.Duration
}

func (r *recent) turn(now time.Duration) {
	switch age := now - r.since; {
	case age < recentSpan:
		return
	case age < 2*recentSpan:
		r.halves[1] = r.halves[0]
		r.since += recentSpan
	default:
		r.halves[1] = histogram{}
		r.since = now
	}
	r.halves[0] = histogram{}
}

func (r *recent) record(d, now time.Duration) {
	r.turn(now)
	r.halves[0].record(d)
}

func (r *recent) summary(now time.Duration) Requests {
	r.turn(now)
	return r.halves[0].summary(&r.halves[1])
}
