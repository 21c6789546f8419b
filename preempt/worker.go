package preempt

import (
	"time"

	"xmsched/preempt/internal/queue"
)

// startLauncher starts the goroutine that launches, if it does not run yet. A
// queue whose commands are all launched by their submitters does without.
// Precondition: mu is held, and the queue is not drained and closing.
func (q *XQueue) startLauncher() {
	if q.launcher == nil {
		q.launcher = make(chan struct{}, 1)
		q.tasks.Go(q.launchAll)
	}
}

func (q *XQueue) wakeLauncher() {
	select {
	case q.launcher <- struct{}{}:
	default:
	}
}

func (q *XQueue) wakeCompleter() {
	select {
	case q.tail <- struct{}{}:
	default:
	}
}

// launchAll launches what is to be launched, until the queue is closed and
// drained.
func (q *XQueue) launchAll() {
	unbind, bindErr := q.bind()
	if bindErr == nil {
		defer unbind()
	}
	q.mu.Lock()
	if bindErr != nil {
		q.breakDown("bind a thread to it", bindErr)
	}
	for {
		switch {
		case q.out.Launch != 0 && !q.commands.find(q.out.Launch).direct:
			q.launch(q.commands.find(q.out.Launch))
		case q.closing && q.machine.Drained():
			q.unlock()
			return
		default:
			q.unlock()
			<-q.launcher
			q.mu.Lock()
		}
	}
}

// launch launches one command. Precondition: mu is held.
func (q *XQueue) launch(c *Command) {
	q.step(queue.Begun{})
	launch := c.launch
	q.unlock()
	err := run(launch)
	q.mu.Lock()
	c.failed = err
	q.apply(queue.Launched{}, true)
}

// completeAll waits for markers and keeps the idle timer, until the queue is
// closed and drained.
func (q *XQueue) completeAll() {
	unbind, bindErr := q.bind()
	if bindErr == nil {
		defer unbind()
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	q.mu.Lock()
	if bindErr != nil {
		q.breakDown("bind a thread to it", bindErr)
	}
	for {
		if len(q.markers) > 0 {
			p := q.markers[0]
			q.markers = q.markers[1:]
			q.unlock()
			err := p.marker.Wait()
			q.mu.Lock()
			q.passed(p, err)
			continue
		}
		if q.closing && q.machine.Drained() {
			q.wakeLauncher() // it ends as well
			q.unlock()
			return
		}
		next := q.out.Next
		q.unlock()
		if next != 0 {
			timer.Reset(next - time.Since(q.born))
		} else {
			timer.Stop()
		}
		select {
		case <-q.tail:
			q.mu.Lock()
		case <-timer.C:
			q.mu.Lock()
			q.apply(queue.Tick{}, true)
		}
	}
}

// passed takes in what became of a marker. Precondition: mu is held.
func (q *XQueue) passed(p placed, err error) {
	if err != nil {
		q.breakDown("wait for a marker", err)
		return
	}
	q.apply(queue.Completed{Command: p.upto}, true)
}
