package memory

import (
	"cmp"
	"iter"
	"slices"
)

// Belady lets go what is used next furthest in the future (Belady 1966), which
// no order can beat, as far as the plan that it is told comes true. What the plan
// does not name goes before all it names, by when it was used.
type Belady struct {
	next   map[ID]int // when it is used next, by the plan
	unsaid LRU        // all on the device
	sorted []ranked
	stale  bool
	at     int
}

type ranked struct {
	id   ID
	next int // 0: not named by the plan
	age  int // 0 is the one used longest ago
}

// NewBelady returns an order that knows of no plan.
func NewBelady() *Belady { return &Belady{next: make(map[ID]int), unsaid: *NewLRU()} }

func (b *Belady) Name() string { return "belady" }

// Plan takes what the next commands touch, in order, in place of what was told
// before. A segment's first mention counts.
func (b *Belady) Plan(uses iter.Seq[ID]) {
	clear(b.next)
	b.at, b.stale = 0, true
	for id := range uses {
		if b.at++; b.next[id] == 0 {
			b.next[id] = b.at
		}
	}
}

// Next says as the how-manieth use of the plan, from 1 on, a segment comes; 0:
// the plan does not name it.
func (b *Belady) Next(id ID) int { return b.next[id] }

func (b *Belady) Use(id ID)    { b.stale = true; b.unsaid.Use(id) }
func (b *Belady) Evict(id ID)  { b.stale = true; b.unsaid.Evict(id) }
func (b *Belady) Forget(id ID) { b.Evict(id); delete(b.next, id) }

func (b *Belady) Victims(ID) iter.Seq[ID] {
	if b.stale {
		b.sort()
	}
	return b.yield
}

func (b *Belady) yield(yield func(ID) bool) {
	for i := range b.sorted {
		if !yield(b.sorted[i].id) {
			return
		}
	}
}

func (b *Belady) sort() {
	b.sorted, b.stale = b.sorted[:0], false
	for id := range b.unsaid.list.oldest {
		b.sorted = append(b.sorted, ranked{id, b.next[id], len(b.sorted)})
	}
	slices.SortFunc(b.sorted, func(x, y ranked) int {
		// A plan's number 0 comes out furthest: uint(0)-1 is the largest.
		return cmp.Or(-cmp.Compare(uint(x.next)-1, uint(y.next)-1), cmp.Compare(x.age, y.age))
	})
}
