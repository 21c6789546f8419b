package observe

import (
	"fmt"
	"strings"
	"time"
)

// share is a part of a time in percent.
func share(part, whole time.Duration) string {
	if whole <= 0 {
		return "-"
	}
	p := percent(part, whole)
	if p > 0 && p < 0.1 {
		return "less than 0.1 %"
	}
	return trimmed(p, 1) + " %"
}

// rate is a number of times a second.
func rate(n uint64, in time.Duration) string {
	if in < time.Millisecond {
		return "-"
	}
	return trimmed(float64(n)/in.Seconds(), 1)
}

// length is a length of time in its unit, with three digits.
func length(d time.Duration) string {
	switch {
	case d >= time.Second:
		return digits(d.Seconds()) + " s"
	case d >= time.Millisecond:
		return digits(d.Seconds()*1e3) + " ms"
	case d >= time.Microsecond:
		return digits(d.Seconds()*1e6) + " us"
	}
	return fmt.Sprintf("%d ns", d.Nanoseconds())
}

// amount is a number of bytes.
func amount(n uint64) string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if one := uint64(1) << (40 - 10*i); n >= one {
			return digits(float64(n)/float64(one)) + " " + unit
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// signed is more or less bytes.
func signed(n int64) string {
	if n < 0 {
		return amount(-uint64(n)) + " less"
	}
	return amount(uint64(n)) + " more"
}

// digits shows three, or all before the point.
func digits(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return trimmed(x, 1)
	}
	return trimmed(x, 2)
}

func trimmed(x float64, places int) string {
	text := fmt.Sprintf("%.*f", places, x)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
