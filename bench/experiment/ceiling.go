package experiment

import "time"

// What the link allows, before anything is measured: a floor under the bytes that
// have to move, and so a ceiling over what programs can make together.

// turns are programs of equal size that take turns on a device.
type turns struct {
	tasks     int
	footprint float64 // of each, bytes
	touched   float64 // of it, by a turn
	budget    float64 // of all together on the device
	slice     time.Duration
}

// leastIn is how many bytes have to come in for a turn, whatever is kept and however
// early it begins. Memory that is used in turns, round and round, is missing as often
// as Belady's rule leaves it: of all but the touched part, which is there anyhow, the
// part that does not fit.
func (t turns) leastIn() float64 {
	all := float64(t.tasks) * t.footprint
	if all <= t.budget {
		return 0
	}
	if t.budget <= t.touched {
		return t.touched // nothing outlives the others' turns
	}
	return t.touched * (all - t.budget) / (all - t.touched)
}

// ceiling is the part of what the programs make in memory that a link of so many
// bytes a second lets them make in turns that end on time, if whatever comes in does so
// while another runs, at no cost: the longer of the two, turn and load, is the time of a
// turn. Who goes on until the next one's memory is there makes more of it.
func (t turns) ceiling(perS float64) float64 {
	slice := t.slice.Seconds()
	if slice <= 0 || perS <= 0 {
		return 0
	}
	return slice / max(slice, t.leastIn()/perS)
}
