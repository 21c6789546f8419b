package experiment

import (
	"slices"

	"xmsched/bench/rows"
)

// gated picks the latencies of the requests that had the device for themselves
// because the background was stopped: in each burst those that began after the
// last background kernel of the burst had ended, and never the first, which is
// what closes the gate. Alone, these are all but the first of each burst: what
// the others are compared with. Without bursts, and without us, there are none.
//
// A kernel that ends after the burst is not seen: whether it ran in it, or only
// in the gaps between its requests, cannot be told from its end. So up to a kernel's
// length of requests at a burst's end may have had one beside them.
//
// A background that is not stopped ends kernels throughout the burst, and so
// leaves few such requests; their number is in the row.
func (r PairResult) gated(mode string, burst int) []float64 {
	if burst < 2 || len(r.StartNS) != len(r.LatencyUS) || mode == rows.ModeNative {
		return nil
	}
	var out []float64
	for first := 0; first < len(r.LatencyUS); first += burst {
		end := min(first+burst, len(r.LatencyUS))
		until := r.StartNS[end-1] + int64(r.LatencyUS[end-1]*1e3)
		quiet := lastWithin(r.EndedNS, r.StartNS[first], until)
		for i := first + 1; i < end; i++ {
			if r.StartNS[i] > quiet {
				out = append(out, r.LatencyUS[i])
			}
		}
	}
	return out
}

// lastWithin gives the last time of the span, or 0. times is in ascending order.
func lastWithin(times []int64, from, to int64) int64 {
	i, found := slices.BinarySearch(times, to)
	if !found {
		i--
	}
	if i < 0 || times[i] < from {
		return 0
	}
	return times[i]
}
