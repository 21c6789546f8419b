package plane

import (
	"math"
	"time"

	"xmsched/compute"
	"xmsched/preempt/board"
)

// A command that has begun when its gate closes runs on, and shares the device
// with whoever has the turn then. Policies that divide the device's time have to
// know (compute.Overran), or two tasks of long commands get equal parts whatever
// was asked for. No client tells; but the queues' slots show the command's end if
// every command is marked, which is asked of tasks whose commands are long under
// such policies: a mark costs a few microseconds. Of short ones half a command is
// taken to be left when a gate closes.

const (
	longCommand = time.Millisecond       // from here on every command is marked
	overrunLook = 500 * time.Microsecond // how often is looked for the end of one
	measured    = 8                      // commands from which a length is learnt
	fewLengths  = 4                      // of which too little is known to say when one must have ended
)

// What runs on can share the device with the next turn only by the device's own time
// slices, of 2 ms: these decide then whether a command of a short turn begins at all,
// and every change between them costs. So where it will not take long, the next turn's
// gates open when it has ended. That turn lasts so much longer (compute.Overran), and
// what passes until the end is seen is charged to nobody.
const (
	drainMost = 20 * time.Millisecond  // longer is not waited for
	drainLook = 100 * time.Microsecond // how often is looked for the end
	drainVain = 2                      // waits in a row that may be in vain
	drainRest = 16                     // stops without a wait after so many
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
	length  time.Duration
	lengths int // that it was learnt from, to fewLengths
	ran     time.Duration
	count   uint64
	stops   int           // since that look
	said    time.Duration // length that the scheduler knows; 0: none

	drains bool // others' gates wait until nothing runs on
	vain   int  // waits in vain in a row
	rest   int  // stops that nobody waits after
}

// divides says whether the policy has to know of overruns.
func (p *Plane) divides() bool {
	if policy := p.sched.Policy(); policy != p.ruled.policy {
		p.ruled.policy, p.ruled.divides = policy, !policy.Traits().Strict
	}
	return p.ruled.divides
}

// ruled is what was last asked of a policy: gates go by it at every edge.
type ruled struct {
	policy  compute.Policy
	divides bool
}

// passed takes in that a seat's gate is closed, or opened. It comes after the
// others' have been looked at by tellOverruns.
func (p *Plane) passed(st *seat, open bool) {
	o := &st.overrun
	began := !st.device.drains(st) // else its gate was never open
	if o.runs = false; open || st.ready == 0 || !began {
		st.drained(false)
		return
	}
	finished, busy, outstanding := st.commands()
	o.stops++
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
	if o.lengths < fewLengths {
		o.most = max(o.most, drainMost)
	}
	if !o.marking && !st.gateless() && begun > 0 {
		o.runs, o.finished, o.most = true, math.MaxUint64, o.length/2
		return
	}
	switch {
	case !o.runs || o.most > drainMost:
	case o.rest > 0:
		o.rest--
	default:
		o.drains, st.device.late = true, true
		o.most -= o.most / 4 // in vain it must not last long; most lengths are known well
		if d := st.device; d.poll.at != 0 {
			d.poll.at = min(d.poll.at, p.now+drainLook)
		}
	}
}

// drained ends the others' wait for a seat, if there is one; vain says that nothing
// ended. A queue that waits for something else than its gate looks as if it ran.
func (st *seat) drained(vain bool) {
	o := &st.overrun
	if !o.drains {
		return
	}
	o.drains = false
	if !vain {
		o.vain = 0
	} else if o.vain++; o.vain >= drainVain {
		o.vain, o.rest = 0, drainRest
	}
}

// drains says whether the gates of a seat wait for what another's stop left. Who has no
// work any more is not waited for.
func (d *device) drains(st *seat) bool {
	for _, other := range d.working {
		if other != st && other.overrun.drains {
			return true
		}
	}
	return false
}

// release opens the gates that waited, once nothing is in their way, for whatever
// reason.
func (p *Plane) release(d *device) {
	if !d.late || d.drains(nil) {
		return
	}
	d.late = false
	for _, st := range d.working {
		p.carry(st)
	}
}

// measure learns how long a seat's commands are, a few at a time, as how far the
// present one has got is not known.
func (p *Plane) measure(st *seat, finished uint64) {
	o := &st.overrun
	first := o.count == 0 || finished < o.count // queues that have ended count no more
	if !first && finished-o.count < measured {
		return
	}
	ran := p.sched.RunTime(p.now, st.id, st.device.id)
	if !first {
		n := time.Duration(finished - o.count)
		sample := (ran - o.ran) / n
		sample -= min(sample/2, switchCost(st.device)*time.Duration(o.stops)/n)
		if o.length == 0 {
			o.length = sample
		}
		o.length += (sample - o.length) / 4
		o.lengths = min(o.lengths+1, fewLengths)
		p.tellLength(st)
	}
	o.ran, o.count, o.stops = ran, finished, 0
}

// measureAlone learns how long the commands are of a seat that nobody stops, as nobody
// else has work: else all of them would be marked for good, and a program of short ones
// be slower alone than in its turns. Where there are turns a look in the middle of one
// would know less than those at their ends.
func (p *Plane) measureAlone(st *seat) {
	if len(st.device.working) != 1 || !st.runs() || !st.marked() || !p.divides() {
		return
	}
	finished, _, _ := st.commands()
	p.measure(st, finished)
	p.carry(st)
}

// tellLength tells how long a seat's commands are, where it is worth ending a turn in
// the middle of one: half a percent is the half of one in a turn of a hundred.
func (p *Plane) tellLength(st *seat) {
	o := &st.overrun
	length := o.length
	if length < longCommand || o.lengths < fewLengths || st.gateless() {
		length = 0
	}
	if off := length - o.said; max(off, -off) > length/200 {
		o.said = length
		p.events = append(p.events, compute.CommandLength{Task: st.id, Device: st.device.id, Length: length})
	}
}

// tellOverruns tells what the stopped seats of a device have taken since it was
// told last, and which have ended. Those that are at work share the device evenly.
func (p *Plane) tellOverruns(d *device) {
	active := 0
	for _, st := range d.seats {
		if st.overrun.runs || st.ready > 0 && st.runs() && !d.drains(st) {
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
		finished, _, _ := st.commands()
		ended, unused := finished >= o.finished, time.Duration(0)
		if ended { // some time since the last look
			unused = by / 2
		}
		if by > 0 {
			p.events = append(p.events, compute.Overran{Task: st.id, Device: d.id, By: by, Unused: unused, Late: o.drains})
		}
		o.told = p.now
		if o.runs = !ended && o.most > 0 && st.ready > 0 && !st.choice.Order().Hold; !o.runs {
			st.drained(!ended && o.most <= 0)
		}
	}
}

// overrunPoll is how soon to look again whether what runs past its gate has ended; 0:
// nothing does.
func (d *device) overrunPoll() (soon time.Duration) {
	for _, st := range d.seats {
		switch o := &st.overrun; {
		case o.runs && o.drains:
			return drainLook
		case o.runs:
			soon = overrunLook
		}
	}
	return soon
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

// batch is how many commands lie between two marks. As long as it is not known how long
// they are every one is marked: of a small share whose commands are of 5 ms a batch of
// 64 takes three seconds.
func (p *Plane) batch(st *seat, threshold, batch uint32) uint32 {
	if length := st.overrun.length; p.divides() && (length == 0 || length >= longCommand) {
		return 1
	}
	return min(batch, threshold)
}
