package compute

import (
	"cmp"
	"iter"
	"time"
)

// floors see to it that whoever has a floor ([Hints.MinShare]) is not kept
// waiting for ever by a strict policy. A party that waits earns credit; when it
// has earned a turn it gets one, alone on the device, whoever outranks it. With
// share s and turns of length t that is after waiting for t/s - t, so that it
// has s of the time in which it is ready.
type floors struct {
	strict bool        // the policy can starve
	many   int         // parties with a floor
	owed   heap[party] // that earn credit, by the time at which it is enough
	turn   *party      // who runs by its floor; nil: the policy rules
	end    time.Duration
}

// floorState is a party's account.
type floorState struct {
	share  float64
	turn   time.Duration // that it gets
	price  time.Duration // of waiting for one
	credit time.Duration // of waiting, until since
	since  time.Duration
	earns  bool          // since then it waits; else, if it runs, it spends
	due    time.Duration // when it has earned a turn
	index  int
}

func (f *floors) init() {
	f.owed = heap[party]{
		less: func(a, b *party) bool {
			if a.floor.due != b.floor.due {
				return a.floor.due < b.floor.due
			}
			return a.id < b.id
		},
		place: func(p *party) *int { return &p.floor.index },
	}
}

// against says whether a floor may stop p.
func (f *floors) against(p *party) bool {
	others := f.many
	if p.floor.share > 0 {
		others--
	}
	return f.strict && others > 0
}

// keep brings p's account up to date and files it by what it does from now on.
// A gang of several devices has no floor, as it would have to hold all of them.
func (f *floors) keep(p *party, now time.Duration) {
	s := &p.floor
	share := 0.0
	if !p.gone && f.strict && (p.gang == nil || len(p.gang.parties) == 1) {
		share = p.hints().MinShare
	}
	if share == 0 && s.share == 0 {
		return
	}
	if s.share > 0 {
		s.settle(now, p)
	}
	if (share > 0) != (s.share > 0) {
		if share > 0 {
			f.many++
		} else {
			f.many--
			s.credit = 0
		}
		p.device.touchAll() // who is Top may have changed
	}
	if f.owed.has(p) {
		f.owed.remove(p)
	}
	s.share, s.since, s.earns = share, now, share > 0 && p.ready > 0 && !p.verdict.Open && f.turn != p
	if share > 0 {
		s.turn = cmp.Or(p.hints().Quantum, DefaultQuantum)
		s.price = time.Duration(float64(s.turn)/share) - s.turn
	}
	if s.earns {
		s.due = now + max(s.price-s.credit, 0)
		f.owed.push(p)
	}
}

// settle books the time since the last look.
func (s *floorState) settle(now time.Duration, p *party) {
	elapsed := now - s.since
	switch {
	case s.earns:
		s.credit = min(s.credit+elapsed, s.price)
	case p.running.linked():
		s.credit = max(s.credit-time.Duration(float64(elapsed)*(1/s.share-1)), 0)
	}
	s.since = now
}

// rule says whose turn it is by floors, and returns whether that changed. The
// accounts must have been kept.
func (f *floors) rule(now time.Duration) (before *party, changed bool) {
	before = f.turn
	if p := f.turn; p != nil && (p.gone || p.ready == 0 || p.floor.share == 0 || now >= f.end || p.verdict.Open) {
		f.turn = nil
	}
	if p := f.owed.first(); f.turn == nil && p != nil && p.floor.due <= now {
		f.turn, f.end = p, now+p.floor.turn
	}
	return before, before != f.turn
}

// next is when to rule again.
func (f *floors) next() time.Duration {
	if f.turn != nil {
		return f.end
	}
	if p := f.owed.first(); p != nil {
		return p.floor.due
	}
	return 0
}

// allowed says whether policy and floors let p run.
func (p *party) allowed() bool {
	if t := p.device.floors.turn; t != nil {
		return t == p
	}
	return p.verdict.Open
}

// plan is the policy's plan with the present or the next turn by a floor in it.
// Strict policies place nobody later than now.
func (f *floors) plan(now time.Duration, policy iter.Seq[Slot]) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		start := now
		if f.turn != nil {
			start = f.end
			if !yield(Slot{Task: f.turn.id, Start: now, Length: f.end - now}) {
				return
			}
		}
		next := f.owed.first()
		for slot := range policy {
			if slot.Start > now || next != nil && next.floor.due <= start {
				break
			}
			slot.Start = start
			if next != nil && (slot.Length == 0 || start+slot.Length > next.floor.due) {
				slot.Length = next.floor.due - start
			}
			if !yield(slot) {
				return
			}
		}
		if next != nil {
			yield(Slot{Task: next.id, Start: max(start, next.floor.due), Length: next.floor.turn})
		}
	}
}
