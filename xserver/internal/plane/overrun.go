package plane

import (
	"time"

	"xmsched/compute"
	"xmsched/preempt/board"
)

// A command that has begun when its gate closes runs on, and shares the device
// with whoever has the turn then. Policies that divide the device's time have to
// know (compute.Overran), or two tasks of long commands get equal parts whatever
// was asked for. No client tells; but the queues' slots show the command's end if
// every command is marked, which is asked of tasks whose commands are long under
// such policies: a mark costs a few microseconds.

const (
	longCommand = time.Millisecond       // from here on every command is marked
	overrunLook = 500 * time.Microsecond // how often is looked for the end of one
	measured    = 8                      // commands from which a length is learnt
)

// overrun is a seat's last stop.
type overrun struct {
	runs     bool          // what had begun has not ended, as far as is known
	told     time.Duration // until then the scheduler knows
	finished uint64        // commands that will be finished then
	most     time.Duration // that what runs on can still take

	marking bool   // every command is marked, from the exact-th on
	exact   uint64 // all before it were launched earlier

	// The length of a command, from what the seat ran and finished since a look.
	length time.Duration
	ran    time.Duration
	count  uint64
}

// divides says whether the policy has to know of overruns.
func (p *Plane) divides() bool { return !p.sched.Policy().Traits().Strict }

// passed takes in that a seat's gate is closed, or opened. It comes after the
// others' have been looked at by tellOverruns.
func (p *Plane) passed(st *seat, open bool) {
	o := &st.overrun
	if open || st.ready == 0 {
		o.runs = false
		return
	}
	finished, busy, outstanding := st.commands()
	p.measure(st, finished)
	if marking := st.marked(); marking != o.marking {
		o.marking, o.exact = marking, finished+outstanding
	}
	begun := busy // one of each queue had passed the gate
	if st.gateless() {
		begun = outstanding // all that was launched
	}
	o.runs, o.told = o.marking && finished >= o.exact && begun > 0, p.now
	// The end of one that ended just before is not seen. Half as much again lets a
	// length be learnt that was taken for less.
	o.finished, o.most = finished+begun, o.length*time.Duration(begun)*3/2
}

// measure learns how long a seat's commands are, a few at a time, as how far the
// present one has got is not known.
func (p *Plane) measure(st *seat, finished uint64) {
	o := &st.overrun
	first := o.count == 0 || finished < o.count // queues that have ended count no more
	if !first && finished-o.count < measured {
		return
	}
	ran := p.sched.RunTime(st.id, st.device.id)
	if !first {
		sample := (ran - o.ran) / time.Duration(finished-o.count)
		if o.length == 0 {
			o.length = sample
		}
		o.length += (sample - o.length) / 4
	}
	o.ran, o.count = ran, finished
}

// tellOverruns tells what the stopped seats of a device have taken since it was
// told last, and which have ended. Those that are at work share the device evenly.
func (p *Plane) tellOverruns(d *device) {
	active := 0
	for _, st := range d.seats {
		if st.overrun.runs || st.ready > 0 && st.runs() {
			active++
		}
	}
	for _, st := range d.seats {
		o := &st.overrun
		if !o.runs {
			continue
		}
		by := min((p.now-o.told)/time.Duration(active), o.most)
		o.most -= by
		if by > 0 {
			p.events = append(p.events, compute.Overran{Task: st.id, Device: d.id, By: by})
		}
		o.told = p.now
		finished, _, _ := st.commands()
		o.runs = finished < o.finished && o.most > 0 && st.ready > 0 && !st.choice.Order().Hold
	}
}

// overruns says whether anything on the device runs past its gate.
func (d *device) overruns() bool {
	for _, st := range d.seats {
		if st.overrun.runs {
			return true
		}
	}
	return false
}

// commands counts what the queues of a seat have finished, those that have
// something outstanding, and what that is.
func (st *seat) commands() (finished, busy, outstanding uint64) {
	for _, s := range st.sections {
		eachSlot(s.process.Board, func(v board.SlotView) {
			if int(v.Device) != s.index {
				return
			}
			finished += max(v.Synced, v.Completed)
			if n := v.Outstanding(); n > 0 {
				busy++
				outstanding += n
			}
		})
	}
	return finished, busy, outstanding
}

// marked says whether every command's end is seen.
func (st *seat) marked() bool {
	for _, s := range st.sections {
		if s.grant.Batch != 1 {
			return false
		}
	}
	return true
}

// gateless says whether a seat is stopped by its clients' launches alone.
func (st *seat) gateless() bool {
	for _, s := range st.sections {
		if s.level() < 2 {
			return true
		}
	}
	return false
}

// batch is how many commands lie between two marks.
func (p *Plane) batch(st *seat, threshold, batch uint32) uint32 {
	if st.overrun.length >= longCommand && p.divides() {
		return 1
	}
	return min(batch, threshold)
}
