package preempt

import (
	"xmsched/compute"
	"xmsched/preempt/internal/queue"
)

// inherit finds what stopped queues have to do for running ones: a queue that
// the policy lets run and that waits for a command of a stopped queue lends it
// its turn, up to that command and no further; and so on along a chain. Without
// that the two would wait for each other for as long as the policy prefers the
// first. Precondition: s.mu is held.
func (s *Scheduler) inherit() {
	for _, p := range s.lent {
		p.until = 0
		s.change = append(s.change, p)
	}
	s.lent = s.lent[:0]
	var runs []*place
	for p := range s.waits {
		if p.open {
			runs = append(runs, p)
		}
	}
	for len(runs) > 0 {
		p := runs[len(runs)-1]
		runs = runs[:len(runs)-1]
		for _, c := range p.queue.waitsFor() {
			task, seq := c.queue.place(c)
			other := s.places[task]
			if other == nil || other.queue != c.queue || other.until >= seq {
				continue
			}
			if other.until == 0 {
				s.lent = append(s.lent, other)
				s.change = append(s.change, other)
			}
			other.until = seq
			if s.waits[other] {
				runs = append(runs, other)
			}
		}
	}
}

// waitsFor lists what the next command waits for.
func (q *XQueue) waitsFor() []*Command {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.machine.Blocked() {
		return nil
	}
	return q.commands.find(q.machine.Launched() + 1).after
}

// place is where a command stands, 0 if it is over.
func (q *XQueue) place(c *Command) (task compute.TaskID, seq uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.over {
		return 0, 0
	}
	return q.task, c.seq
}

// setGate carries out the scheduler's word. What else has happened in the queue
// is left for whoever did it to pass on: the caller holds the scheduler's lock.
func (q *XQueue) setGate(g gate) {
	q.mu.Lock()
	q.step(queue.Gated{Open: g.open, Until: g.until})
	q.mu.Unlock()
}
