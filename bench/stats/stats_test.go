package stats

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantileIsNearestRank(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.9: 90, 0.99: 99, 1: 100} {
		if got := Quantile(hundred, q); got != want {
			t.Errorf("quantile %v of 1..100 is %v, want %v", q, got, want)
		}
	}
	if got := Quantile([]float64{7}, 0.99); got != 7 {
		t.Errorf("quantile of one sample is %v", got)
	}
}

// The definition itself, by counting, on random samples.
func TestQuantileAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 300).Draw(t, "samples")
		q := rapid.SampledFrom([]float64{0.01, 0.25, 0.5, 0.9, 0.99, 1}).Draw(t, "q")
		slices.Sort(s)
		got := Quantile(s, q)
		atMost, below := 0, 0
		for _, v := range s {
			if v <= got {
				atMost++
			}
			if v < got {
				below++
			}
		}
		n := float64(len(s))
		if float64(atMost) < q*n {
			t.Fatalf("only %d of %d samples are at most %v", atMost, len(s), got)
		}
		if float64(below) >= q*n && below > 0 {
			t.Fatalf("a smaller sample than %v would have done (%d of %d below)", got, below, len(s))
		}
	})
}

func TestSummarizeRefuses(t *testing.T) {
	if _, err := Summarize(nil); !errors.Is(err, ErrNoSamples) {
		t.Errorf("no samples: %v", err)
	}
	if _, err := Summarize([]float64{1, math.NaN()}); err == nil {
		t.Error("NaN was taken")
	}
	in := []float64{3, 1, 2}
	if _, err := Summarize(in); err != nil || !slices.Equal(in, []float64{3, 1, 2}) {
		t.Errorf("the caller's samples were reordered: %v, %v", in, err)
	}
}

func TestMedians(t *testing.T) {
	if m, _ := Median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v, want 2.5", m)
	}
	d, err := PairedMedian([]float64{100, 200, 300}, []float64{110, 205, 420})
	if err != nil || d != 10 {
		t.Errorf("paired median %v, %v, want 10", d, err)
	}
	if _, err := PairedMedian([]float64{1}, nil); err == nil {
		t.Error("unequal pairs were taken")
	}
	if r, _ := InterquartileRange([]float64{1, 2, 3, 4, 5, 6, 7, 8}); r != 4 {
		t.Errorf("interquartile range %v, want 4", r)
	}
}
