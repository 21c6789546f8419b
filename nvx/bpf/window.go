package bpf

import "time"

// hot says whether a program may do so very often: these hooks are taken away for
// a while when they cost too much.
func (k Kind) hot() bool {
	switch k {
	case KindLaunch, KindCopy, KindFill, KindOther, KindQuery, kindRecord:
		return true
	}
	return false
}

// windows are when commands were hooked, by the kernel's clock.
type windows struct {
	from, to []uint64 // as many, or one more of from: then one is open
}

func (w *windows) begin(now uint64) { w.from = append(w.from, now) }
func (w *windows) end(now uint64)   { w.to = append(w.to, now) }
func (w *windows) open() bool       { return len(w.from) > len(w.to) }
func (w *windows) first() uint64    { return w.from[0] }

// number is that of the kernel's program: even in a window, odd between two.
func (w *windows) number() uint64 { return uint64(len(w.from) + len(w.to) - 1) }

// within is how much of a time lies in windows.
func (w *windows) within(from, to uint64) (d time.Duration) {
	for i, f := range w.from {
		t := to
		if i < len(w.to) {
			t = min(t, w.to[i])
		}
		d += since(max(f, from), t)
	}
	return d
}

// last is when what the kernel's program knows as its window ends: now, while that
// one lasts.
func (w *windows) last(window, now uint64) uint64 {
	if n := window / 2; n < uint64(len(w.to)) {
		return min(now, w.to[n])
	}
	return now
}

// due says what keeps the mean cost below a limit: whether a window is to be open
// now. spent is what hooks have cost in all, took how long since the beginning.
// A window that is open stays so for some time, so that something is seen in it.
func (w *windows) due(spent, took time.Duration, limitPercent float64, now uint64) bool {
	const least = 200 * time.Millisecond
	if limitPercent <= 0 || float64(spent)*100 <= limitPercent*float64(took) {
		return true
	}
	return w.open() && since(w.from[len(w.from)-1], now) < least
}
