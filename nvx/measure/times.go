package measure

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"xmsched/nvx/sheet"
)

// times sums up samples; nil for none.
func times(samples []time.Duration) *sheet.Times {
	if len(samples) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(samples))
	return &sheet.Times{
		MedianUS: microseconds(sorted[len(sorted)/2]),
		WorstUS:  microseconds(sorted[len(sorted)-1]),
		Samples:  len(sorted),
	}
}

// microseconds rounds to nanoseconds, which is what the clock has.
func microseconds(d time.Duration) float64 { return float64(d) / 1e3 }

func milliseconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// anyMoment passes up to d, so that what follows meets the GPU anywhere in what
// it does.
func anyMoment(d time.Duration) { time.Sleep(rand.N(d)) }

// oneLine makes an error's text fit a field of the sheet.
func oneLine(err error) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(err.Error(), "?"))
	const most = 400
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
