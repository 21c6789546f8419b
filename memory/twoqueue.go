package memory

import "iter"

// TwoQueue is 2Q (Johnson and Shasha 1994): what was used once queues apart from
// what was used again, so that one pass over much memory does not push out what
// is used all the time. What has just gone from the first queue is remembered,
// and counts as used again if it comes back.
type TwoQueue struct {
	recent, frequent, gone list
	once, ghosts           int
}

// NewTwoQueue returns an order for about capacity segments on the device: those
// used once may be a quarter of them, and half as many are remembered.
func NewTwoQueue(capacity int) *TwoQueue {
	return &TwoQueue{
		recent: newList(), frequent: newList(), gone: newList(),
		once: capacity / 4, ghosts: capacity / 2,
	}
}

func (q *TwoQueue) Name() string { return "2q" }

func (q *TwoQueue) Use(id ID) {
	// What comes back is remembered even if what just went for it is one too many.
	back := q.gone.has(id)
	for q.gone.len() > q.ghosts {
		q.gone.remove(q.gone.first())
	}
	if q.gone.remove(id) || back || q.frequent.remove(id) || q.recent.remove(id) {
		q.frequent.push(id)
	} else {
		q.recent.push(id)
	}
}

func (q *TwoQueue) Evict(id ID) {
	if q.frequent.remove(id) || !q.recent.remove(id) {
		return
	}
	q.gone.push(id)
}

func (q *TwoQueue) Forget(id ID) {
	q.frequent.remove(id)
	q.recent.remove(id)
	q.gone.remove(id)
}

// Victims yields the first queue down to its share, then the second, then the
// rest of the first. A segment that comes back leaves the first its full share.
func (q *TwoQueue) Victims(coming ID) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		keep := q.once
		if !q.gone.has(coming) {
			keep = max(0, keep-1)
		}
		over, done := q.recent.len()-keep, 0
		for id := range q.recent.oldest {
			if done >= over {
				break
			}
			if done++; !yield(id) {
				return
			}
		}
		for id := range q.frequent.oldest {
			if !yield(id) {
				return
			}
		}
		at := 0
		for id := range q.recent.oldest {
			if at++; at > done && !yield(id) {
				return
			}
		}
	}
}
