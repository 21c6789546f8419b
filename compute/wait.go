package compute

// Waiting says that what runs of a task cannot go on before something that
// another task has submitted is done: one queue of a program waits for an event
// of another. As long as the first is ready and may run the second may as well,
// whatever the policy says: two that wait for each other's turn would do so for
// ever. It holds until WaitOver or the end of either task.
type Waiting struct{ Task, For TaskID }

// WaitOver ends a Waiting.
type WaitOver struct{ Task, For TaskID }

func (Waiting) event()  {}
func (WaitOver) event() {}

// waits are who waits for whom. Few do at any time.
type waits struct {
	list []Waiting
	lent []*seat // open because of it
	next []*seat // reused
}

func (w *waits) add(e Waiting) {
	if e.Task == e.For {
		return
	}
	for _, have := range w.list {
		if have == e {
			return
		}
	}
	w.list = append(w.list, e)
}

func (w *waits) drop(gone func(Waiting) bool) {
	kept := w.list[:0]
	for _, e := range w.list {
		if !gone(e) {
			kept = append(kept, e)
		}
	}
	w.list = kept
}

// lend opens who is waited for by somebody that runs, and so on, and takes back
// what is needed no more. A task that is not to run stays closed.
func (s *Scheduler) lend() {
	w := &s.waits
	if len(w.list) == 0 && len(w.lent) == 0 {
		return
	}
	runs := map[TaskID]bool{}
	for more := true; more; {
		more = false
		for _, e := range w.list {
			if !runs[e.For] && (runs[e.Task] || s.runsAnywhere(e.Task)) {
				runs[e.For], more = true, true
			}
		}
	}
	w.next = w.next[:0]
	for id := range runs {
		for _, d := range s.devices {
			if seat, ok := d.seats[id]; ok && seat.party != nil && !seat.party.open {
				w.next = append(w.next, seat)
			}
		}
	}
	for _, seat := range w.lent {
		seat.lent = false
	}
	for _, seat := range w.next {
		seat.lent = true
	}
	w.lent, w.next = w.next, w.lent
	for _, list := range [][]*seat{w.lent, w.next} {
		for _, seat := range list {
			seat.device.touch(seat)
			if seat.party != nil {
				seat.party.settle(s.now, seat.party.open)
			}
		}
	}
}

// runsAnywhere says whether a task has work and an open gate on some device by
// the policy's word.
func (s *Scheduler) runsAnywhere(id TaskID) bool {
	for _, d := range s.devices {
		if seat, ok := d.seats[id]; ok && seat.ready && seat.party != nil && seat.party.open {
			return true
		}
	}
	return false
}
