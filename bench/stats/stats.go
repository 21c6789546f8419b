// Package stats holds the few statistics that rows need: exact quantiles of
// kept samples, and differences of paired ones.
//
// Samples are kept and sorted, not binned: the largest set is some 10,000
// latencies, and a bound of 3 % must not be blurred by a bucket's width.
// Pure functions; no state.
package stats

import (
	"errors"
	"math"
	"slices"
)

// ErrNoSamples says that there is nothing to take a quantile of.
var ErrNoSamples = errors.New("no samples")

// Quantile gives the smallest sample that at least the share q (0..1) of all
// samples does not exceed: nearest rank, so the result is a measured value.
// sorted must be in ascending order and not empty.
func Quantile(sorted []float64, q float64) float64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Summary is what the rows and tables say of a set of latencies.
type Summary struct {
	N                       int
	Min, P50, P90, P99, Max float64
}

// Summarize sorts a copy and gives its quantiles. NaN is refused: it would sort
// to the front and shift every rank.
func Summarize(samples []float64) (Summary, error) {
	if len(samples) == 0 {
		return Summary{}, ErrNoSamples
	}
	s := slices.Clone(samples)
	for _, v := range s {
		if math.IsNaN(v) {
			return Summary{}, errors.New("a sample is NaN")
		}
	}
	slices.Sort(s)
	return Summary{
		N: len(s), Min: s[0], Max: s[len(s)-1],
		P50: Quantile(s, 0.50), P90: Quantile(s, 0.90), P99: Quantile(s, 0.99),
	}, nil
}

// Median gives the middle sample, or the mean of the two middle ones.
func Median(samples []float64) (float64, error) {
	if len(samples) == 0 {
		return 0, ErrNoSamples
	}
	s := slices.Clone(samples)
	slices.Sort(s)
	n := len(s)
	if n%2 == 1 {
		return s[n/2], nil
	}
	return (s[n/2-1] + s[n/2]) / 2, nil
}

// PairedMedian gives the median of b[i]-a[i]. Neighbours in time share what
// drifts (clocks, temperature), so their differences do not.
func PairedMedian(a, b []float64) (float64, error) {
	if len(a) != len(b) {
		return 0, errors.New("pairs of unequal length")
	}
	d := make([]float64, len(a))
	for i := range a {
		d[i] = b[i] - a[i]
	}
	return Median(d)
}

// InterquartileRange is the width of the middle half of the samples: the
// spread within which one more run may fall.
func InterquartileRange(samples []float64) (float64, error) {
	if len(samples) == 0 {
		return 0, ErrNoSamples
	}
	s := slices.Clone(samples)
	slices.Sort(s)
	return Quantile(s, 0.75) - Quantile(s, 0.25), nil
}
