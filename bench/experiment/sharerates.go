package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
)

// launchGapUS is what may lie between two kernels on the device: a start and an end.
const launchGapUS = 5

// filled is the part of the device's time that kernels of a length use, of which so
// many end a second and which end so far apart while they lie queued. Where launching
// takes longer than the kernels, these are not queued: then their own length counts.
func filled(perS, kernelUS, periodUS float64) float64 {
	return perS * min(periodUS, kernelUS+launchGapUS) / 1e6
}

// shareLoad keeps some 100 ms queued, within what a program may at Level 2: long
// enough to wait for a turn with work at hand. What is looked at is 400 us at least, so
// that looking does not keep up the launching.
func shareLoad(us float64) Load {
	const queuedUS, groupUS, most, mostGroup = 100_000, 400, 256, 16
	group := min(max(int(math.Ceil(groupUS/us)), 1), mostGroup)
	kernels := min(max(int(queuedUS/us), 4), most)
	return Load{Programs: 1, KernelUS: us, InFlight: kernels, Group: group}
}

// ends are the times within a span at which groups of kernels ended, in order.
type ends struct {
	atNS    []int64
	kernels int // of a group
}

func endsOf(done workloads.Event, kernels int, fromNS, toNS int64) (ends, error) {
	if uint64(len(done.EndedNS)*kernels) < done.Count {
		return ends{}, fmt.Errorf("only %d of the ends of %d kernels are known: take a shorter span", len(done.EndedNS)*kernels, done.Count)
	}
	at := done.EndedNS
	slices.Sort(at)
	first, _ := slices.BinarySearch(at, fromNS)
	last, _ := slices.BinarySearch(at, toNS)
	return ends{at[first:last], kernels}, nil
}

// rounds are a first and a last end between which there are only whole rounds of turns:
// ends that come long after the one before are the first of a turn. Where these cannot
// be told, as every turn has one end or there are none, it is the first and the last.
func (e ends) rounds() (from, to int64) {
	from, to = e.atNS[0], e.atNS[len(e.atNS)-1]
	gaps := make([]int64, 0, len(e.atNS))
	for i, at := range e.atNS[1:] {
		gaps = append(gaps, at-e.atNS[i])
	}
	sorted := slices.Sorted(slices.Values(gaps))
	short := sorted[len(sorted)/10] // within a turn, if more than one in ten lies there
	first, last := -1, -1
	for i, gap := range gaps {
		if gap <= 3*short {
			continue
		}
		if last = i + 1; first < 0 {
			first = last
		}
	}
	if first < last {
		return e.atNS[first], e.atNS[last]
	}
	return from, to
}

// ratesOf gives the kernels a second of each, over a time that begins and ends with the
// first end in a turn of the program that has the fewest: its count is exact then, and of
// the others there are so many that one more or less is nothing. Where a small share has
// one turn in a tenth of a second, half of one too many would be a percent of it.
func ratesOf(all []ends) []float64 {
	rarest := all[0].atNS
	for _, e := range all {
		if len(e.atNS) < len(rarest) {
			rarest = e.atNS
		}
	}
	rates := make([]float64, len(all))
	if len(rarest) < 2 {
		return rates
	}
	from, to := ends{atNS: rarest}.rounds()
	for i, e := range all {
		n := 0
		for _, at := range e.atNS {
			if at > from && at <= to {
				n += e.kernels
			}
		}
		rates[i] = float64(n) / (float64(to-from) / 1e9)
	}
	return rates
}

// ofDevice is what all programs together got of the device: the parts of what each
// makes alone without us.
func ofDevice(all []*shared, perS []float64) (total float64) {
	for i, p := range all {
		total += perS[i] / p.alonePS
	}
	return total
}

// shareMetrics says what the programs got, of which perS[i] are the kernels a second
// of program i. ratio is that of the first's time to the second's, error_pct the
// farthest that any is from its target, of the target; a program's time is what it
// made as a part of what it makes in its own turn.
func shareMetrics(all []*shared, perS []float64, native float64) (rows.Metrics, error) {
	parts := make([]float64, len(all))
	total := 0.0
	for i, p := range all {
		parts[i] = perS[i] / p.ownPS
		total += parts[i]
	}
	if !(total > 0) || !(native > 0) || slices.Min(parts) <= 0 {
		return nil, fmt.Errorf("the programs made %v kernels a second, and got %v of the device without us", perS, native)
	}
	worst, fill := 0.0, math.Inf(1)
	m := rows.Metrics{"ratio": parts[0] / parts[1], "total_pct": 100 * ofDevice(all, perS) / native, "native_pct": 100 * native}
	for i, p := range all {
		share := 100 * parts[i] / total
		m[fmt.Sprintf("share%d_pct", i+1)] = share
		worst = max(worst, math.Abs(share-p.target)/p.target)
		fill = min(fill, p.fill)
	}
	m["error_pct"], m["fill_pct"] = 100*worst, 100*fill
	return m, nil
}

// kernelsMeasured is how many kernels a program makes at least while its share is
// measured: a turn of two more or less is half a percent of that, and what is left of a
// turn at either end less.
const kernelsMeasured = 400

// lastOf is how long it takes until each program has made so many kernels.
func lastOf(all []*shared, kernels int) (long time.Duration) {
	for _, p := range all {
		long = max(long, time.Duration(float64(kernels)*p.kernelUS*1e3/(p.target/100)))
	}
	return long
}

// spanOf is how long the shares of programs are measured: longer than asked for where
// one of them would make too few kernels to tell its share within a percent.
func spanOf(all []*shared, least time.Duration) time.Duration {
	return max(least, min(lastOf(all, kernelsMeasured), maxShareSpan))
}

// spanError is how far a share can be from what it would be over a span without end,
// in percent of itself: whole kernels are counted, and turns end with whole ones, so
// that a program may be one of its kernels ahead or behind.
func spanError(all []*shared, span time.Duration) (worst float64) {
	for _, p := range all {
		worst = max(worst, p.kernelUS/(p.target/100*float64(span.Microseconds())))
	}
	return 100 * worst
}
