package memory

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is an amount of memory. It is signed so that differences are plain; no
// amount that leaves this package is negative.
type Bytes int64

const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

const (
	// Granularity is what device and host backing are made in (H200: 2 MiB both).
	Granularity = 2 * MiB
	// PieceBytes is the most that one copy moves: the driver's calls for 32 MiB
	// hide behind the copy of 32 MiB, those for 2 MiB do not.
	PieceBytes = 32 * MiB
	// BatchBytes is what one unmapping, or one setting of access, covers at least
	// where there is that much to move: 128 MiB cost 2.6 ms of the link.
	BatchBytes = 128 * MiB
)

// MaxBytes bounds what is believed of anybody: beyond every machine's memory,
// and far enough from the type's end that no sum of tasks overflows.
const MaxBytes = 1 << 50 * Bytes(1)

// Clamp turns a figure that somebody claims into an amount from 0 to most.
func Clamp(claimed uint64, most Bytes) Bytes {
	if most <= 0 {
		return 0
	}
	if claimed > uint64(most) {
		return most
	}
	return Bytes(claimed)
}

// Down rounds down to a multiple of the granularity.
func (b Bytes) Down() Bytes { return b - b%Granularity }

// Up rounds up to a multiple of the granularity.
func (b Bytes) Up() Bytes { return (b + Granularity - 1).Down() }

var units = []struct {
	name string
	size Bytes
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}

// String writes the amount in its largest unit, with one digit after the point
// where it is not whole: "8 GiB", "1.5 GiB", "512 B".
func (b Bytes) String() string {
	for _, u := range units {
		if b >= u.size {
			if b%u.size == 0 {
				return fmt.Sprintf("%d %s", b/u.size, u.name)
			}
			return fmt.Sprintf("%.1f %s", float64(b)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", int64(b))
}

// SizeError reports text that is no amount of memory.
type SizeError struct{ Text string }

func (e *SizeError) Error() string {
	return fmt.Sprintf("%q is not an amount of memory: a number and B, KiB, MiB, GiB or TiB, up to %s", e.Text, MaxBytes)
}

// ParseBytes reads an amount: a number, with a point if need be, and a unit of
// 1,024s that may be shortened ("16GiB", "1.5 g", "512m"); without one it is in
// bytes. The error is a *SizeError.
func ParseBytes(text string) (Bytes, error) {
	word := strings.ToLower(strings.TrimSpace(text))
	number := strings.TrimRight(word, "kmgtib ")
	unit := strings.TrimSpace(word[len(number):])
	size := Bytes(0)
	switch unit {
	case "", "b":
		size = 1
	case "k", "kb", "kib":
		size = KiB
	case "m", "mb", "mib":
		size = MiB
	case "g", "gb", "gib":
		size = GiB
	case "t", "tb", "tib":
		size = TiB
	}
	plain := strings.Trim(number, "0123456789.") == ""
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !plain || size == 0 || value*float64(size) > float64(MaxBytes) {
		return 0, &SizeError{text}
	}
	return Bytes(math.Round(value * float64(size))), nil
}

// Rate is bytes in a second.
type Rate float64

// LinkRate is what the H200's link carries each way while both are busy
// (PCIe 5 x16: 101.6 GB/s in sum): what is taken where nothing was measured.
const LinkRate Rate = 50.8e9

// Time is how long b take; 0 for a rate that is not positive.
func (r Rate) Time(b Bytes) time.Duration {
	if r <= 0 || b <= 0 {
		return 0
	}
	return time.Duration(float64(b) / float64(r) * float64(time.Second))
}

// Over is what passes in d.
func (r Rate) Over(d time.Duration) Bytes {
	return Bytes(float64(r) * d.Seconds())
}
