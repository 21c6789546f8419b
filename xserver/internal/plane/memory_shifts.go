package plane

import (
	"cmp"
	"slices"
	"time"

	"xmsched/compute"
	"xmsched/memory"
)

// shifts has tasks take turns that the policy lets run at the same time (equals under
// a strict policy, all under one that shares in space) and whose memory does not fit
// the device together: beside each other each would read its memory over the link at
// every pass, one after the other each has it there. A policy that has turns of its
// own never gets that far.
//
// Who waited longest goes first, and with it whoever else fits beside it, so that up to
// half of what it leaves is still there for the memory of the next one to come in.
type shifts struct {
	head    *seat
	count   uint64
	used    time.Duration // of the head's shift
	counted time.Duration // until when used counts
	length  time.Duration // of a shift
	over    time.Duration // by which this one is prolonged for the next one's memory
	waiting []*seat       // in the order of their shifts
}

// arrange decides who of those whose turn it is runs now. room is what is there for
// memory that can move; need says how much of it a task wants. A zero end is never.
func (h *shifts) arrange(now time.Duration, due []*seat, room memory.Bytes, need func(*seat) memory.Bytes) (end time.Duration) {
	running := h.head != nil && !h.head.mem.held
	if running {
		h.used += now - h.counted
	}
	h.counted = now
	h.waiting = h.waiting[:0]
	var all memory.Bytes
	for _, st := range due {
		all += need(st)
	}
	if len(due) < 2 || all <= room {
		h.head = nil
		return 0
	}
	if !slices.Contains(due, h.head) || h.left() <= 0 {
		h.take(due)
	}
	slices.SortStableFunc(due, func(a, b *seat) int { return cmp.Compare(a.mem.shift, b.mem.shift) })
	room -= need(h.head)
	next := memory.Bytes(0) // the largest that may be the next
	for _, st := range due {
		if st != h.head {
			next = max(next, need(st))
		}
	}
	room -= min(next, room/2)
	for _, st := range due {
		switch n := need(st); {
		case st == h.head:
		case n <= max(room, 0):
			room -= n
		default:
			h.waiting = append(h.waiting, st)
		}
	}
	if len(h.waiting) == 0 {
		return 0
	}
	return now + max(h.left(), compute.MinQuantum)
}

// left is what is left of the shift.
func (h *shifts) left() time.Duration { return h.length + h.over - h.used }

// take gives the shift to who had it longest ago.
func (h *shifts) take(due []*seat) {
	h.head = slices.MinFunc(due, func(a, b *seat) int { return cmp.Compare(a.mem.shift, b.mem.shift) })
	h.count++
	h.head.mem.shift, h.used, h.over = h.count, 0, 0
}

// start is when a task that waits has its shift.
func (h *shifts) start(st *seat, now time.Duration) time.Duration {
	i := slices.Index(h.waiting, st)
	return now + max(h.left(), compute.MinQuantum) + time.Duration(max(i, 0))*h.length
}

// forget drops a task that left the device.
func (h *shifts) forget(st *seat) {
	if h.head == st {
		h.head = nil
	}
	h.waiting = slices.DeleteFunc(h.waiting, func(x *seat) bool { return x == st })
}
