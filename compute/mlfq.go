package compute

import (
	"iter"
	"time"
)

// MLFQ is a multilevel feedback queue (Corbató 1962, with the rules of Arpaci-
// Dusseau's textbook): it learns who is interactive. A task starts at the top
// level; one that has used up its allotment there, in one go or in many, goes a
// level down, where turns are longer and rarer; levels above go first, at once.
// Who has waited for 100 ms at a stretch, or slept for 100 ms in all, comes a level
// up, so that nobody starves and who uses little stays at the top.
//
// The name, the levels and their lengths are XSched's.
func MLFQ() Policy {
	return &policy{
		name: "MLFQ",
		traits: Traits{
			Summary: "short users go before long ones, as learnt from what they use; who waits long rises",
			Hints:   []string{"quantum"},
		},
		fresh: func() Decider { return newTurns(&mlfq{}) },
	}
}

const (
	mlfqLevels = 4
	mlfqTurn   = 10 * time.Millisecond  // at the top; each level has twice the one above
	mlfqBoost  = 100 * time.Millisecond // of waiting or sleeping lifts by a level
	// mlfqGrid is how often is looked who rises, so that many that wait need few
	// timers.
	mlfqGrid = 10 * time.Millisecond
)

// mlfq is a queue for each level, those in each in the order of their waits.
type mlfq struct {
	plainOrder
	levels [mlfqLevels]queue[turner]
	count  int
}

func allotment(level int) time.Duration { return mlfqTurn << level }

func (m *mlfq) wakes(t *turner, now time.Duration) {
	t.slept = min(t.slept+now-t.from, mlfqLevels*mlfqBoost)
	if up := int(t.slept / mlfqBoost); up > 0 {
		t.level, t.used, t.slept = max(t.level-up, 0), 0, t.slept%mlfqBoost
	}
}

func (m *mlfq) sleeps(t *turner, now time.Duration) { t.from = now }

// wait puts who used up its allotment, or had no work, at a tail; who was
// overtaken goes on first when its level has its turn.
func (m *mlfq) wait(t *turner, now time.Duration, woke bool) {
	m.count++
	if t.used >= allotment(t.level) {
		t.level, t.used = min(t.level+1, mlfqLevels-1), 0
	} else if !woke {
		t.from = now
		if first := m.levels[t.level].first(); first != nil {
			t.from = min(t.from, first.from)
		}
		m.levels[t.level].pushFirst(&t.link)
		return
	}
	t.from = now
	m.levels[t.level].push(&t.link)
}

func (m *mlfq) leave(t *turner) {
	m.count--
	t.link.unlink()
}

func (m *mlfq) empty() bool { return m.count == 0 }

func (m *mlfq) next(time.Duration) *turner {
	for i := range m.levels {
		if t := m.levels[i].first(); t != nil {
			return t
		}
	}
	return nil
}

// turn is longer where turns are asked to be, as they are for tasks whose memory has to
// move between them.
func (m *mlfq) turn(t *turner, _ time.Duration) time.Duration {
	return max(allotment(t.level)-t.used, minTurn, t.hints.quantum)
}

func (m *mlfq) charge(t *turner, ran time.Duration) { t.used = max(t.used+ran, 0) }

// tick lifts who has waited for long enough.
func (m *mlfq) tick(_ *turner, now time.Duration) {
	for level := 1; level < mlfqLevels; level++ {
		for t := m.levels[level].first(); t != nil && t.from+mlfqBoost <= now; t = m.levels[level].first() {
			t.link.unlink()
			t.level, t.used, t.from = level-1, 0, now
			m.levels[level-1].push(&t.link)
		}
	}
}

func (m *mlfq) overtakes(h *turner) bool {
	t := m.next(0)
	return t != nil && t.level < h.level
}

// due is when somebody rises above the holder, as far as a timer is worth it.
func (m *mlfq) due(h *turner) (due time.Duration) {
	for level := 1; h != nil && level <= h.level; level++ {
		if t := m.levels[level].first(); t != nil && (due == 0 || t.from+mlfqBoost < due) {
			due = t.from + mlfqBoost
		}
	}
	return (due + mlfqGrid - 1) / mlfqGrid * mlfqGrid
}

// follow foresees until somebody comes again or may rise. Whose turn ends before the
// allotment is used up, as its turn began under another policy, comes again at once.
func (m *mlfq) follow(h *turner, left, end time.Duration) iter.Seq[*turner] {
	return func(yield func(*turner) bool) {
		if h.used+left < allotment(h.level) {
			return
		}
		back := min(h.level+1, mlfqLevels-1) // the highest level with somebody who had a turn
		due := m.rises()
		for level := range m.levels {
			for t := range m.levels[level].all() {
				if due != 0 && due <= end || !yield(t) {
					return
				}
				end += m.turn(t, end)
				back = min(back, level+1)
			}
			if back <= level {
				return
			}
		}
	}
}

// rises is when the first that waits rises.
func (m *mlfq) rises() (first time.Duration) {
	for level := 1; level < mlfqLevels; level++ {
		if t := m.levels[level].first(); t != nil && (first == 0 || t.from+mlfqBoost < first) {
			first = t.from + mlfqBoost
		}
	}
	return first
}
