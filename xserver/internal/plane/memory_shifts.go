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
//
// A shift that somebody of a higher class breaks off goes on after that: with requests of
// 24 ms every 50 ms each gap between two would be another's shift, and its memory on its way
// whenever a gap is over (H200: neither of two ran while there were requests).
type shifts struct {
	head    *seat
	count   uint64
	counted time.Duration // until when what is used of the head's shift counts
	length  time.Duration // of a shift
	waiting []*seat       // in the order of their shifts
}

// aShift is a task's last.
type aShift struct {
	number uint64 // the larger the later
	on     bool   // it is not over
	used   time.Duration
	over   time.Duration // by which it is prolonged for the next one's memory
}

// compareShifts says which of two has the next shift: one whose own was broken off, or who
// had it longest ago.
func compareShifts(a, b *seat) int {
	x, y := &a.mem.shift, &b.mem.shift
	switch {
	case x.on && !y.on:
		return -1
	case y.on && !x.on:
		return 1
	}
	return cmp.Compare(x.number, y.number)
}

// compareWaiting says which of two that are kept out comes first: those that have work, by
// their shifts.
func compareWaiting(a, b *seat) int {
	x, y := a.ready > 0, b.ready > 0
	switch {
	case x && y:
		return compareShifts(a, b)
	case x:
		return -1
	case y:
		return 1
	}
	return 0
}

// arrange decides who of those whose turn it is runs now. room is what is there for
// memory that can move; need says how much of it a task wants. A zero end is never.
func (h *shifts) arrange(now time.Duration, due []*seat, room memory.Bytes, need func(*seat) memory.Bytes) (end time.Duration) {
	if h.head != nil && !h.head.mem.held {
		h.head.mem.shift.used += now - h.counted
	}
	if h.head != nil && (h.head.ready == 0 || h.left() <= 0) {
		h.head.mem.shift.on = false
		h.head = nil
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
	if !slices.Contains(due, h.head) {
		h.take(due)
	}
	slices.SortStableFunc(due, compareShifts)
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

// left is what is left of the head's shift.
func (h *shifts) left() time.Duration {
	return h.length + h.head.mem.shift.over - h.head.mem.shift.used
}

// take gives the shift to who has the next one.
func (h *shifts) take(due []*seat) {
	h.head = slices.MinFunc(due, compareShifts)
	if s := &h.head.mem.shift; !s.on {
		h.count++
		*s = aShift{number: h.count, on: true}
	}
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
