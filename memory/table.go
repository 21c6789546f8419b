package memory

import (
	"fmt"
	"iter"
	"slices"
)

// SegmentError reports what somebody claims to be a segment and cannot be one.
type SegmentError struct {
	Segment Segment
	Why     string
}

func (e *SegmentError) Error() string {
	return fmt.Sprintf("segment %d: %s", e.Segment.ID, e.Why)
}

// Figures are a table's sums.
type Figures struct {
	Allocated Bytes
	Resident  Bytes // on the device: Device and Loading
	Host      Bytes // backed by the host: Host and Away
	Pinned    Bytes // of the resident
	ByPin     [pinEnd]Bytes
	Segments  int
}

// Table holds the segments of one task on one device. It follows the table in
// the preload library, which has the truth; see [Table.Reset].
type Table struct {
	segments []Segment // by address
	index    map[ID]int32
	figures  Figures
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{index: make(map[ID]int32)} }

// Reset takes the segments over in place of those that were there. The slice
// stays the caller's. A list that cannot be true leaves the table empty; the
// error is a *SegmentError.
func (t *Table) Reset(list []Segment) error {
	t.segments = append(t.segments[:0], list...)
	slices.SortFunc(t.segments, byAddress)
	clear(t.index)
	t.figures = Figures{}
	var end uint64
	for i := range t.segments {
		s := &t.segments[i]
		if err := t.plausible(s, end); err != nil {
			t.segments = t.segments[:0]
			clear(t.index)
			t.figures = Figures{}
			return err
		}
		end = s.Address + uint64(s.Bytes)
		t.index[s.ID] = int32(i)
		t.count(s, 1)
	}
	return nil
}

// plausible checks a segment against those before it, which end at end.
func (t *Table) plausible(s *Segment, end uint64) error {
	_, twice := t.index[s.ID]
	why := ""
	switch {
	case s.ID == 0:
		why = "0 is no id"
	case twice:
		why = "listed twice"
	case s.Bytes <= 0 || s.Bytes%Granularity != 0 || s.Bytes > MaxBytes:
		why = fmt.Sprintf("%d bytes, not a multiple of %s up to %s", s.Bytes, Granularity, MaxBytes)
	case s.Address+uint64(s.Bytes) < s.Address:
		why = "beyond the end of the address space"
	case s.Address < end:
		why = fmt.Sprintf("address %#x is within another", s.Address)
	case int(s.State) >= len(stateNames):
		why = s.State.String() + " does not exist"
	case s.Pin >= pinEnd:
		why = s.Pin.String() + " does not exist"
	case t.figures.Allocated+s.Bytes > MaxBytes:
		why = fmt.Sprintf("the sum passes %s", MaxBytes)
	default:
		return nil
	}
	return &SegmentError{*s, why}
}

func byAddress(a, b Segment) int {
	switch {
	case a.Address < b.Address:
		return -1
	case a.Address > b.Address:
		return 1
	}
	return 0
}

func (t *Table) count(s *Segment, sign Bytes) {
	f, b := &t.figures, sign*s.Bytes
	f.Segments += int(sign)
	f.Allocated += b
	if !s.State.OnDevice() {
		f.Host += b
		return
	}
	f.Resident += b
	if s.Pin != Movable {
		f.Pinned += b
		f.ByPin[s.Pin] += b
	}
}

// Figures returns the sums.
func (t *Table) Figures() Figures { return t.figures }

// Get returns a segment.
func (t *Table) Get(id ID) (Segment, bool) {
	s := t.find(id)
	if s == nil {
		return Segment{}, false
	}
	return *s, true
}

func (t *Table) find(id ID) *Segment {
	i, ok := t.index[id]
	if !ok {
		return nil
	}
	return &t.segments[i]
}

// All yields the segments by address. They must not change meanwhile.
func (t *Table) All() iter.Seq[Segment] {
	return func(yield func(Segment) bool) {
		for i := range t.segments {
			if !yield(t.segments[i]) {
				return
			}
		}
	}
}

// set changes a segment's state.
func (t *Table) set(s *Segment, to State) {
	t.count(s, -1)
	s.State = to
	t.count(s, 1)
}

// Mapped says that segments that were Away are mapped to their host slots.
func (t *Table) Mapped(ids []ID) {
	for _, id := range ids {
		if s := t.find(id); s != nil && s.State == Away {
			t.set(s, Host)
		}
	}
}

// Resumed says that the task may run again: what was mapped to nothing, or
// half way in, has its host slot mapped now.
func (t *Table) Resumed() {
	for i := range t.segments {
		if s := &t.segments[i]; s.State == Away || s.State == Loading {
			t.set(s, Host)
		}
	}
}
