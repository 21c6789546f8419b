package memory

import "iter"

// Order says which segments go first when room is needed. It ranks what is on
// the device; what an order remembers of segments beyond that is its affair.
type Order interface {
	// Name is what users call it.
	Name() string
	// Use tells that a segment was used; one that is new came in by that.
	Use(ID)
	// Evict tells that a segment has gone to the host, and Forget that it was
	// freed.
	Evict(ID)
	Forget(ID)
	// Victims yields all segments, the first to go first. coming is the segment
	// that room is made for; 0: none in particular. The order must not be told
	// anything meanwhile.
	Victims(coming ID) iter.Seq[ID]
}

// FIFO lets go what came in longest ago, whatever was used since.
type FIFO struct{ list list }

// NewFIFO returns an order without segments.
func NewFIFO() *FIFO { return &FIFO{newList()} }

func (f *FIFO) Name() string { return "fifo" }

func (f *FIFO) Use(id ID) {
	if !f.list.has(id) {
		f.list.push(id)
	}
}

func (f *FIFO) Evict(id ID)  { f.list.remove(id) }
func (f *FIFO) Forget(id ID) { f.list.remove(id) }

func (f *FIFO) Victims(ID) iter.Seq[ID] { return f.list.oldest }

// LRU lets go what was used longest ago.
type LRU struct{ list list }

// NewLRU returns an order without segments.
func NewLRU() *LRU { return &LRU{newList()} }

func (l *LRU) Name() string { return "lru" }

func (l *LRU) Use(id ID) {
	l.list.remove(id)
	l.list.push(id)
}

func (l *LRU) Evict(id ID)  { l.list.remove(id) }
func (l *LRU) Forget(id ID) { l.list.remove(id) }

func (l *LRU) Victims(ID) iter.Seq[ID] { return l.list.oldest }
