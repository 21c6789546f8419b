package mover

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
	"time"

	"xmsched/memory"
)

// foreseen is what is foreseen of a segment.
type foreseen struct {
	memory.Segment
	first int          // its place in the order of first use, from 1 on; 0: it is not named
	soon  bool         // the coming turn touches it
	now   bool         // within atOnce
	heat  memory.Bytes // that the coming turn's commands touch, counted for each

	chosen bool // to be on the device, because of that
}

// stays says whether the segment is where it is whatever is foreseen.
func (s *foreseen) stays() bool {
	return s.Pin != memory.Movable || s.State == memory.Loading
}

// class is how hot a segment is: by how much as much more of it is touched than there is.
func (s *foreseen) class() int {
	if !s.soon {
		return -1
	}
	return bits.Len64(uint64(s.heat / s.Bytes))
}

// forecast is what is foreseen of a section's segments. It is read anew rather than
// made anew, so that it allocates nothing once it has grown.
type forecast struct {
	known    bool
	segments []foreseen // by address
	named    int
	ranked   []int32 // places of segments, the hottest first
	places   []int32
	wanted   []memory.ID
}

// read takes in the segments and what is foreseen of their use.
func (f *forecast) read(list []memory.Segment, uses iter.Seq[Use], turn time.Duration) {
	f.known, f.named = true, 0
	f.segments = f.segments[:0]
	for i := range list {
		f.segments = append(f.segments, foreseen{Segment: list[i]})
	}
	slices.SortFunc(f.segments, func(a, b foreseen) int { return cmp.Compare(a.Address, b.Address) })
	n := 0
	for u := range uses {
		if n++; n > maxUses {
			return
		}
		if u.Bytes > 0 {
			f.use(u, turn)
		}
	}
}

// atOnce is within what time a process that runs touches what it is to be stopped for now:
// what it touches later may come in when it does, or when its turn is over.
const atOnce = 10 * time.Millisecond

// use marks the segments of a range.
func (f *forecast) use(u Use, turn time.Duration) {
	end := u.Address + uint64(u.Bytes)
	if end < u.Address {
		return
	}
	i, _ := slices.BinarySearchFunc(f.segments, u.Address, func(s foreseen, at uint64) int {
		return cmp.Compare(s.Address+uint64(s.Bytes)-1, at)
	})
	for ; i < len(f.segments) && f.segments[i].Address < end; i++ {
		s := &f.segments[i]
		if s.first == 0 {
			f.named++
			s.first = f.named
		}
		if u.In >= turn {
			continue
		}
		s.soon, s.now = true, s.now || u.In < atOnce
		touched := memory.Bytes(min(end, s.Address+uint64(s.Bytes)) - max(u.Address, s.Address))
		s.heat = min(s.heat+touched*memory.Bytes(min(max(u.Times, 1), 1<<16)), memory.MaxBytes)
	}
}

// working is how much the coming turn touches, in whole segments. Arenas are always
// among them.
func (f *forecast) working() (b memory.Bytes) {
	for i := range f.segments {
		if s := &f.segments[i]; s.soon || s.Arena {
			b += s.Bytes
		}
	}
	return b
}

// order ranks the segments: the hottest first, and what is as hot by when it is used.
func (f *forecast) order() {
	f.ranked = f.ranked[:0]
	for i := range f.segments {
		f.ranked = append(f.ranked, int32(i))
	}
	slices.SortFunc(f.ranked, func(i, j int32) int {
		a, b := &f.segments[i], &f.segments[j]
		return cmp.Or(
			-cmp.Compare(a.class(), b.class()),
			cmp.Compare(uint(a.first)-1, uint(b.first)-1), // who is not named comes last
			-cmp.Compare(a.Used, b.Used),
			cmp.Compare(a.Allocation, b.Allocation),
			cmp.Compare(a.Address, b.Address),
		)
	})
}

// exchange is what it would do to have on the device what is used most, beyond what there is
// room for.
type exchange struct {
	in  memory.Bytes // that would come in
	out memory.Bytes // that would have to go for that
	// What of them the coming turn touches, each time counted.
	hot, cold memory.Bytes
	now       bool // some of what would come in is touched at once
}

// gain is by how much less would be touched in host memory in the coming turn.
func (x exchange) gain() memory.Bytes { return x.hot - x.cold }

// pays says whether an exchange is worth its copies. While the process could run
// instead, each byte that comes in has to spare two that it would have read from
// the host, and some of them at once: it stands still meanwhile. What comes in has to be
// touched twice as often as what goes, or a program that goes over more than it has room for,
// again and again, would exchange what it begins with for what it ends with at every turn
// (H200: 16 GiB of 110, and host memory made for it for 3 s, for a 24th pass over 13 GiB).
// What there is room for is no exchange: it comes in, and what there will be room for after it.
func (x exchange) pays(open bool) bool {
	if x.in < memory.BatchBytes || x.out == 0 || x.hot < 2*x.cold {
		return false
	}
	if open {
		return x.now && x.gain() >= 2*x.in
	}
	return x.gain() >= x.in
}

// pick chooses what should be on the device, of which no more than target may be,
// and says what that would bring. Precondition: order.
func (f *forecast) pick(target memory.Bytes) (x exchange) {
	room, resident := target, memory.Bytes(0) // resident: and what there is room for
	for i := range f.segments {
		s := &f.segments[i]
		if s.State.OnDevice() || s.Arena { // these come in whatever is foreseen
			resident += s.Bytes
		}
		if s.Arena || s.stays() && s.State.OnDevice() {
			room -= s.Bytes
		}
	}
	for _, i := range f.ranked {
		s := &f.segments[i]
		s.chosen = s.soon && !s.stays() && !s.Arena && s.Bytes <= room
		if !s.chosen {
			continue
		}
		room -= s.Bytes
		switch {
		case s.State.OnDevice():
		case x.in == 0 && resident+s.Bytes <= target: // there is room for the first of them only
			resident += s.Bytes
		default:
			x.in += s.Bytes
			x.hot += s.heat
			x.now = x.now || s.now
		}
	}
	for _, i := range slices.Backward(f.ranked) {
		s := &f.segments[i]
		if resident+x.in > target && s.State.OnDevice() && !s.chosen && !s.stays() && !s.Arena {
			resident -= s.Bytes
			x.out += s.Bytes
			x.cold += s.heat
		}
	}
	return x
}

// arrivals lists what should come, and where it is not to displace anything before
// that what is there: what was chosen in the order of its first use, then the rest
// of what is foreseen, the hottest first. Precondition: pick.
func (f *forecast) arrivals(displacing bool) []memory.ID {
	f.wanted, f.places = f.wanted[:0], f.places[:0]
	for _, i := range f.ranked {
		s := &f.segments[i]
		switch {
		case !displacing && s.State.OnDevice():
			f.wanted = append(f.wanted, s.ID)
		case s.chosen:
			f.places = append(f.places, i)
		}
	}
	slices.SortFunc(f.places, func(i, j int32) int { return cmp.Compare(f.segments[i].first, f.segments[j].first) })
	for _, i := range f.places {
		f.wanted = append(f.wanted, f.segments[i].ID)
	}
	for _, i := range f.ranked {
		if s := &f.segments[i]; !displacing && s.first != 0 && !s.chosen && !s.State.OnDevice() {
			f.wanted = append(f.wanted, s.ID)
		}
	}
	return f.wanted
}

// A forecast is an order in which memory goes: the coldest first. Precondition for
// its use: order.

func (f *forecast) Name() string   { return "forecast" }
func (*forecast) Use(memory.ID)    {}
func (*forecast) Evict(memory.ID)  {}
func (*forecast) Forget(memory.ID) {}

func (f *forecast) Victims(memory.ID) iter.Seq[memory.ID] {
	return func(yield func(memory.ID) bool) {
		for _, i := range slices.Backward(f.ranked) {
			if !yield(f.segments[i].ID) {
				return
			}
		}
	}
}
