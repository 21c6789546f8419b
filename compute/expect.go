package compute

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Expectation is what is known of a task for which the timeline has no start:
// it is idle, or it waits behind one whose end nobody knows.
type Expectation struct {
	Task TaskID
	// NextReady is when it should have work again, not before the last Apply;
	// for a waiting task that is now. 0 if there is nothing to judge by.
	NextReady time.Duration
	// Keep is the policy's word on whose memory to keep: the larger first.
	Keep int
}

// Expected lists the tasks of a device that its timeline does not place, those
// most worth keeping first, of equal ones the one that is expected sooner; a
// task of which nothing is known comes after its equals.
func (s *Scheduler) Expected(name Device) []Expectation {
	d := s.device(name)
	if d == nil {
		return nil
	}
	placed := make(map[TaskID]bool)
	for slot := range s.Timeline(name) {
		placed[slot.Task] = true
	}
	var list []Expectation
	for id, seat := range d.seats {
		if !placed[id] {
			list = append(list, Expectation{Task: id, NextReady: seat.nextReady(s.now), Keep: seat.keep()})
		}
	}
	slices.SortFunc(list, func(a, b Expectation) int {
		return cmp.Or(
			-cmp.Compare(a.Keep, b.Keep),
			cmp.Compare(unknownLast(a.NextReady), unknownLast(b.NextReady)),
			cmp.Compare(a.Task, b.Task),
		)
	})
	return list
}

// keep is the policy's word; a task that is not to run is worth nothing.
func (s *seat) keep() int {
	if s.party == nil {
		return math.MinInt
	}
	return s.party.verdict.Keep
}

func (s *seat) nextReady(now time.Duration) time.Duration {
	switch {
	case s.party == nil:
		return 0
	case s.ready:
		return now
	case s.period == 0 || !s.steady:
		return 0
	}
	return max(now, s.readySince+s.period)
}

// unknownLast orders the unknown 0 behind every time.
func unknownLast(t time.Duration) uint64 { return uint64(t) - 1 }
