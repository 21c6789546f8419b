package compute

import (
	"iter"
	"time"
)

// fifo is the order in which tasks began to wait. It is RR's, WRR's and FCFS's,
// which differ in the length of a turn.
type fifo struct {
	plainOrder
	queue  queue[turner]
	length func(turnHints) time.Duration
}

func newFIFO(length func(turnHints) time.Duration) func() Decider {
	return func() Decider { return newTurns(&fifo{length: length}) }
}

func (f *fifo) wait(t *turner, _ time.Duration, _ bool)       { f.queue.push(&t.link) }
func (f *fifo) leave(t *turner)                               { t.link.unlink() }
func (f *fifo) next(time.Duration) *turner                    { return f.queue.first() }
func (f *fifo) empty() bool                                   { return f.queue.empty() }
func (f *fifo) turn(t *turner, _ time.Duration) time.Duration { return f.length(t.hints) }

func (f *fifo) follow(*turner, time.Duration, time.Duration) iter.Seq[*turner] {
	return f.queue.all()
}
