package top

import "strings"

// span is how many samples a graph shows: a minute of them.
const span = 60

// graph draws the last minute of a series of thousandths in so many columns, the
// newest at the right.
func graph(samples []uint32, columns int, ascii bool) string {
	if ascii {
		return asciiGraph(resample(samples, columns))
	}
	return brailleGraph(resample(samples, 2*columns))
}

// resample gives so many points of the last minute: negative where nothing was seen.
// A point of several samples is their mean.
func resample(samples []uint32, points int) []int {
	if len(samples) > span {
		samples = samples[len(samples)-span:]
	}
	missing := span - len(samples)
	out := make([]int, points)
	for i := range out {
		from, to := i*span/points, (i+1)*span/points
		if points >= span { // finer than it was seen: one sample a point, at the right
			from = i - (points - span)
			to = from + 1
		}
		sum, n := 0, 0
		for at := max(from, missing); at < to; at++ {
			sum += int(samples[at-missing])
			n++
		}
		if out[i] = -1; n > 0 {
			out[i] = sum / n
		}
	}
	return out
}

// level is a point's height of so many; what is not quite nothing has one.
func level(point, of int) int {
	if point <= 0 {
		return 0
	}
	return min((point*of+999)/1000, of)
}

// brailleGraph has two points in a column, four dots high.
func brailleGraph(points []int) string {
	// Dots by height, of the left and the right half of a character.
	left := [5]rune{0, 0x40, 0x44, 0x46, 0x47}
	right := [5]rune{0, 0x80, 0xa0, 0xb0, 0xb8}
	var b strings.Builder
	for i := 0; i+1 < len(points); i += 2 {
		b.WriteRune(0x2800 + left[level(points[i], 4)] + right[level(points[i+1], 4)])
	}
	return b.String()
}

func asciiGraph(points []int) string {
	const heights = " .:-=+*#"
	var b strings.Builder
	for _, p := range points {
		b.WriteByte(heights[level(p, len(heights)-1)])
	}
	return b.String()
}

// bar is a part of a whole in so many columns.
func bar(part, whole uint64, columns int, ascii bool) string {
	full, empty := "█", "░"
	if ascii {
		full, empty = "#", "."
	}
	n := 0
	if whole > 0 {
		n = min(int(float64(part)/float64(whole)*float64(columns)+0.5), columns)
	}
	return strings.Repeat(full, n) + strings.Repeat(empty, columns-n)
}
