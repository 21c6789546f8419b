package plane

import "time"

const (
	// stopLimit is how long a client may take to be Stopped: a suspension takes 2 ms, a
	// drained one as long as its command.
	stopLimit = 100 * time.Millisecond
	// moveLimit is how long one that is Stopped may move nothing: a batch takes 3 ms, and
	// what moves it a tenth of a second to be made.
	moveLimit = 500 * time.Millisecond
	// One that is over a limit counts as one whose memory cannot be moved, for
	// unmovableFor and twice as long each time again.
	unmovableFor = 250 * time.Millisecond
	unmovableMax = 8 * time.Second
)

// stopping watches over what a section is asked to do for its memory, so that a client
// that cannot, or does not, is let go.
type stopping struct {
	asked   time.Duration // since when it is to be Stopped and is not; 0: it is, or need not
	stopped time.Duration // since when it is; 0: it is not
	moved   time.Duration // when its figures last changed
	until   time.Duration // it counts as one that cannot be moved
	again   time.Duration // how long the next time
}

// judge takes in whether a section is to be Stopped so that its memory moves, is so, and
// has something to move. It says when to look again; 0: there is no need.
func (h *stopping) judge(asked, stopped, moves bool, now time.Duration) (look time.Duration) {
	since := func(at *time.Duration, on bool) {
		switch {
		case !on:
			*at = 0
		case *at == 0:
			*at = max(now, 1)
		}
	}
	since(&h.asked, asked && !stopped)
	since(&h.stopped, asked && stopped && moves)
	switch {
	case h.asked != 0:
		look = h.asked + stopLimit
	case h.stopped != 0:
		look = max(h.stopped, h.moved) + moveLimit
	default:
		return 0
	}
	if look > now {
		return look
	}
	h.again = min(max(2*h.again, unmovableFor), unmovableMax)
	h.asked, h.stopped, h.until = 0, 0, now+h.again
	return h.until
}

// progress takes in that something moved.
func (h *stopping) progress(now time.Duration) { h.moved, h.again = now, 0 }
