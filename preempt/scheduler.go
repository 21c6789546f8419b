package preempt

import (
	"sync"
	"time"

	"xmsched/compute"
)

// Scheduler decides, inside this process and for XQueues of this process, who
// runs, by any policy of package compute. It needs no daemon. A decision is made
// where the change is, on the caller's thread: a queue that turns ready has
// stopped the others when its first Submit returns.
//
// All methods may be called from any goroutine.
type Scheduler struct {
	born time.Time
	done chan struct{} // closed when the timer's goroutine has ended

	mu     sync.Mutex
	core   *compute.Scheduler
	places map[compute.TaskID]*place
	last   compute.TaskID  // given out
	waits  map[*place]bool // those that wait for other queues
	lent   []*place        // those that run for others
	change []*place        // reused by decide
	next   time.Duration   // of the timer; 0: none
	closed bool
	wake   chan struct{} // the timer has changed, or the end has come
}

// place is what the scheduler knows of one queue.
type place struct {
	queue *XQueue
	task  compute.TaskID
	hints compute.Hints
	ready bool

	open  bool   // the policy's word
	until uint64 // behind a closed gate: what others wait for
	told  gate   // what the queue knows
}

type gate struct {
	open  bool
	until uint64
}

// NewScheduler returns a scheduler without queues. Close ends it.
func NewScheduler(p compute.Policy) *Scheduler {
	s := &Scheduler{
		born: time.Now(), core: compute.NewScheduler(p), places: make(map[compute.TaskID]*place), waits: make(map[*place]bool),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go s.keepTime()
	return s
}

// Add puts a queue under the scheduler. It need not be called for a queue that
// has the scheduler in its Options. Errors are ErrClosed and ErrAttached.
func (s *Scheduler) Add(q *XQueue) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	q.mu.Lock()
	if q.scheduler != nil || q.closing {
		err := ErrAttached
		if q.closing {
			err = ErrClosed
		}
		q.mu.Unlock()
		return err
	}
	s.last++
	q.scheduler, q.task = s, s.last
	hints := q.hints
	q.mu.Unlock()
	p := &place{queue: q, task: s.last, hints: hints, open: true, told: gate{open: true}}
	s.places[p.task] = p
	s.decide(compute.TaskAdded{Task: p.task, Device: q.device, Hints: hints})
	s.lookAt(p)
	return nil
}

// Remove takes a queue off the scheduler; it then runs unless its program
// suspends it. A queue that the scheduler does not have is left alone.
func (s *Scheduler) Remove(q *XQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.mu.Lock()
	if q.scheduler != s {
		q.mu.Unlock()
		return
	}
	id := q.task
	q.scheduler = nil
	q.mu.Unlock()
	s.forget(s.places[id])
	s.decide(compute.TaskRemoved{Task: id})
}

// SetPolicy replaces the policy. Hints and readiness stay, and it takes effect
// before SetPolicy returns.
func (s *Scheduler) SetPolicy(p compute.Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.decide(compute.PolicyChanged{Policy: p})
	}
}

// Policy is the one in force.
func (s *Scheduler) Policy() compute.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Policy()
}

// Close takes all queues off and ends the scheduler. It may be called again.
func (s *Scheduler) Close() {
	s.mu.Lock()
	s.closed = true
	for _, p := range s.places {
		p.queue.mu.Lock()
		p.queue.scheduler = nil
		p.queue.mu.Unlock()
		s.forget(p)
	}
	s.poke()
	s.mu.Unlock()
	<-s.done
}

func (s *Scheduler) forget(p *place) {
	delete(s.places, p.task)
	delete(s.waits, p)
	p.queue.setGate(gate{open: true})
}

// look is called by a queue in which something has changed.
func (s *Scheduler) look(q *XQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.mu.Lock()
	id, mine := q.task, q.scheduler == s
	q.mu.Unlock()
	if p := s.places[id]; mine && p != nil {
		s.lookAt(p)
	}
}

// lookAt compares a queue with what is known of it. What counts is how the queue
// is now: of two threads with news of it, either may come first.
func (s *Scheduler) lookAt(p *place) {
	q := p.queue
	q.mu.Lock()
	ready, waits, hints := q.machine.Ready(), q.machine.Blocked(), q.hints
	q.mu.Unlock()
	var events [2]compute.Event
	n := 0
	if hints != p.hints {
		p.hints = hints
		events[n] = compute.HintsChanged{Task: p.task, Hints: hints}
		n++
	}
	if ready != p.ready {
		p.ready = ready
		if ready {
			events[n] = compute.Ready{Task: p.task, Device: q.device}
		} else {
			events[n] = compute.Idle{Task: p.task, Device: q.device}
		}
		n++
	}
	if waits {
		s.waits[p] = true
	} else {
		delete(s.waits, p)
	}
	s.decide(events[:n]...)
}

// decide applies events and carries out what follows. Precondition: mu is held.
func (s *Scheduler) decide(events ...compute.Event) {
	out := s.core.Apply(time.Since(s.born), events...)
	s.change = s.change[:0]
	for _, g := range out.Grants { // those that stop come first
		if p := s.places[g.Task]; p != nil {
			p.open = g.Open
			s.change = append(s.change, p)
		}
	}
	s.inherit()
	for _, p := range s.change {
		if now := (gate{p.open, p.until}); p.told != now {
			p.told = now
			p.queue.setGate(now)
		}
	}
	if out.Next != s.next {
		s.next = out.Next
		s.poke()
	}
}

func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// keepTime looks again when the policy wants it, until Close.
func (s *Scheduler) keepTime() {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return
		}
		if s.next != 0 && time.Since(s.born) >= s.next {
			s.decide(compute.Tick{})
		}
		next := s.next
		s.mu.Unlock()
		if next != 0 {
			timer.Reset(next - time.Since(s.born))
		} else {
			timer.Stop()
		}
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
}
