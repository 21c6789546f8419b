package predictor

import (
	"cmp"
	"slices"
)

// maxAddress bounds the addresses of devices (57 bits on current ones).
const maxAddress = 1 << 60

// Range is a stretch of addresses: an allocation as a rule.
type Range struct{ Base, Bytes uint64 }

// End is the first address behind it.
func (r Range) End() uint64 { return r.Base + r.Bytes }

func (r Range) holds(address uint64) bool { return address-r.Base < r.Bytes }

// Ranges are the allocations that pointers may point into, none overlapping.
// The zero value holds none.
type Ranges struct {
	list     []Range // by address
	low, end uint64  // all lie in [low, end)
}

// Len is the number of ranges.
func (r *Ranges) Len() int { return len(r.list) }

// Add takes a range in. What it overlaps was freed without our seeing it, and
// goes. A range that is empty, or beyond the addresses that devices have, is
// ignored: it came from a record.
func (r *Ranges) Add(a Range) {
	if a.Bytes == 0 || a.End() < a.Base || a.End() > maxAddress {
		return
	}
	from := r.search(a.Base)
	if from > 0 && r.list[from-1].End() > a.Base {
		from--
	}
	to := from
	for to < len(r.list) && r.list[to].Base < a.End() {
		to++
	}
	r.list = slices.Replace(r.list, from, to, a)
	r.bound()
}

// Remove takes out the range that begins at base, and says whether there was one.
func (r *Ranges) Remove(base uint64) bool {
	i := r.search(base)
	if i == len(r.list) || r.list[i].Base != base {
		return false
	}
	r.list = slices.Delete(r.list, i, i+1)
	r.bound()
	return true
}

// Find returns the range that holds an address.
func (r *Ranges) Find(address uint64) (Range, bool) {
	if address < r.low || address >= r.end {
		return Range{}, false
	}
	lo, hi := 0, len(r.list)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if r.list[mid].Base <= address {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 || !r.list[lo-1].holds(address) {
		return Range{}, false
	}
	return r.list[lo-1], true
}

// All calls yield with each range, by address.
func (r *Ranges) All(yield func(Range) bool) {
	for _, a := range r.list {
		if !yield(a) {
			return
		}
	}
}

// search returns the index of the first range that begins at base or later.
func (r *Ranges) search(base uint64) int {
	i, _ := slices.BinarySearchFunc(r.list, base, func(a Range, b uint64) int { return cmp.Compare(a.Base, b) })
	return i
}

func (r *Ranges) bound() {
	r.low, r.end = 0, 0
	if n := len(r.list); n > 0 {
		r.low, r.end = r.list[0].Base, r.list[n-1].End()
	}
}
