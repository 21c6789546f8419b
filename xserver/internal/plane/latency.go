package plane

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latency is the distribution of the loop's turns.
type latency struct{ h *hdrhistogram.Histogram }

// Latency summarises turns of the loop: from waking up to all gate words stored.
type Latency struct{ P50, P99, Max time.Duration }

func (l *latency) record(d time.Duration) {
	if l.h == nil {
		l.h = hdrhistogram.New(100, int64(10*time.Second), 2)
	}
	_ = l.h.RecordValue(min(int64(d), int64(10*time.Second)))
}

func (l *latency) summary() Latency {
	if l.h == nil {
		return Latency{}
	}
	return Latency{
		P50: time.Duration(l.h.ValueAtQuantile(50)),
		P99: time.Duration(l.h.ValueAtQuantile(99)),
		Max: time.Duration(l.h.Max()),
	}
}
