package compute

import "iter"

// queue is a first-in, first-out list that its members link themselves into,
// so that one in the middle leaves at no cost and nothing is allocated. The
// zero value is empty.
type queue[T any] struct{ head link[T] }

// link is a member's place in a queue. The member sets owner, once.
type link[T any] struct {
	prev, next *link[T]
	owner      *T
}

func (q *queue[T]) push(l *link[T]) {
	if q.head.next == nil {
		q.head.prev, q.head.next = &q.head, &q.head
	}
	l.prev, l.next = q.head.prev, &q.head
	l.prev.next, l.next.prev = l, l
}

// pushFirst puts a member before all others.
func (q *queue[T]) pushFirst(l *link[T]) {
	if q.head.next == nil {
		q.head.prev, q.head.next = &q.head, &q.head
	}
	l.prev, l.next = &q.head, q.head.next
	l.prev.next, l.next.prev = l, l
}

// linked says whether a member is in a queue.
func (l *link[T]) linked() bool { return l.next != nil }

// unlink takes a member out. Precondition: it is in a queue.
func (l *link[T]) unlink() {
	l.prev.next, l.next.prev = l.next, l.prev
	l.prev, l.next = nil, nil
}

func (q *queue[T]) empty() bool { return q.first() == nil }

// first returns the member that has been in longest, or nil.
func (q *queue[T]) first() *T {
	if q.head.next == nil {
		return nil
	}
	return q.head.next.owner // the head itself has none
}

func (q *queue[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for l := q.head.next; l != nil && l != &q.head; l = l.next {
			if !yield(l.owner) {
				return
			}
		}
	}
}
