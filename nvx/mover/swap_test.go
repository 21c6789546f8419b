package mover

import (
	"testing"
	"time"

	"xmsched/memory"
)

// leg is memory of one task that went one way at once.
type leg struct {
	who         *rider
	way         direction
	told, ended time.Duration // of the first target that asked for it, and when the last batch was there, or gone
	begun       time.Duration // the first was
	bytes       memory.Bytes
}

func (l leg) rate() memory.Rate { return memory.Rate(float64(l.bytes) / (l.ended - l.told).Seconds()) }

// legs notes what moves in a hall, as an observer of the boards does.
type legs struct {
	told map[*rider][directions]time.Duration
	open map[*rider][directions]*leg
	all  []*leg
}

func (h *hall) observe() *legs {
	l := &legs{told: map[*rider][directions]time.Duration{}, open: map[*rider][directions]*leg{}}
	h.tells = func(r *rider, target memory.Bytes) {
		told, open := l.told[r], l.open[r]
		up := in
		if target < r.most {
			up = out
		}
		open[1-up], told[1-up] = nil, 0
		if told[up] == 0 && open[up] == nil {
			told[up] = h.now
		}
		l.told[r], l.open[r] = told, open
	}
	h.watch = func(r *rider, ids []memory.ID, to memory.State) {
		up := in
		switch to {
		case memory.Loading:
			return
		case memory.Away:
			up = out
		}
		told, open := l.told[r], l.open[r]
		if open[up] == nil {
			open[up] = &leg{who: r, way: up, told: told[up], begun: h.now}
			l.all = append(l.all, open[up])
			told[up] = 0
		}
		for _, id := range ids {
			open[up].bytes += r.list[id-1].Bytes
		}
		open[up].ended = h.now
		l.told[r], l.open[r] = told, open
	}
	return l
}

// TestSwap has two tasks of 16 GiB that write all of it take short turns on 17, and after
// each of them a small one a long turn, as the row swap does: beside that all of the one's
// memory goes and the other's comes, each at nearly the speed of the link from when its
// task is told to the last byte, also where words and calls take several times as long as
// they do as a rule. The small ones' memory stays.
func TestSwap(t *testing.T) {
	const size, turns = 16 * memory.GiB, 16
	for _, c := range []costs{
		usualCosts,
		{hearing: time.Millisecond, mapping: 5 * time.Millisecond, unmapping: time.Millisecond},
		{hearing: 600 * time.Microsecond, mapping: 8 * time.Millisecond, unmapping: 800 * time.Microsecond},
		{hearing: 600 * time.Microsecond, mapping: 8 * time.Millisecond, unmapping: 5500 * time.Microsecond},
	} {
		h := emptyHall(t, size+8*memory.MiB+memory.GiB)
		h.costs, h.written = c, true
		for range 2 {
			h.enter(t, size, 200*time.Millisecond)
			h.enter(t, 4*memory.MiB, 1100*time.Millisecond)
		}
		h.pass(t, 8)
		seen := h.observe()
		h.pass(t, turns)
		var n [directions]int
		least := rhythmLink
		for _, l := range seen.all {
			n[l.way]++
			if least = min(least, l.rate()); l.bytes < size*9/10 || l.rate() < rhythmLink*94/100 {
				t.Errorf("%+v: %s of task %d, direction %d, told at %v: the first after %v, the last after %v, %.1f GB/s",
					c, l.bytes, l.who.id, l.way, l.told, l.begun-l.told, l.ended-l.told, l.rate()/1e9)
				break
			}
		}
		t.Logf("%+v: %.1f GB/s at least", c, least/1e9)
		if n[in] < turns/2-1 || n[out] < turns/2-1 {
			t.Errorf("%+v: %d times memory came and %d times it went in %d turns", c, n[in], n[out], turns)
		}
	}
}
