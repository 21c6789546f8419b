package choose

import (
	"time"

	"xmsched/compute"
)

// Task is one task on the chooser's device.
type Task struct {
	// Tag is the caller's; the chooser does not look at it.
	Tag any

	id   compute.TaskID
	rank int // by the policy's priority, among backgrounds beside a foreground

	// What the task can do.
	holds bool // it can be suspended, and its time slice set
	arms  bool // a short slice does no harm: it has one compute group
	stuck bool // a suspension was not answered
	share bool // it uses the device at the same time as others of its kind
	away  bool // nobody of it can be reached: its process is stopped
	kept  bool // it could not run in a turn: its memory is not there

	// The policy's word.
	open bool
	mode compute.Mode

	// leads says that the task is foreground. Of mode Top it always is; one that may
	// be stopped now and then (by another's floor, say) is if it was seen to come first.
	leads  bool
	strict bool // seen so

	ready     bool
	fresh     bool // has turned ready since the last decision
	readyAt   time.Duration
	lastReady time.Duration // when it last had work, once it has none
	worked    time.Duration // for how long it had work, until lastReady

	// What was acknowledged of the last order.
	held  bool
	slice time.Duration

	involves bool // counted among those for which more than the gate is decided
	order    Order
	closedAt time.Duration // when the gate closed
	heldAt   time.Duration // when the suspension was ordered
	quiet    bool          // the gate is closed and was when it last had no work
	sliced   bool          // the slice was ever changed
	slicedAt time.Duration

	turn uint64 // number of its last turn

	requests window        // lengths, as foreground
	grain    time.Duration // mean length of its commands, as background; 0: not known
	bound    bound
}

// ID is the task's.
func (t *Task) ID() compute.TaskID { return t.id }

// Order is what is to be done with the task.
func (t *Task) Order() Order { return t.order }

// Leads says whether the task is foreground, as of the last decision.
func (t *Task) Leads() bool { return t.leads }

// workedUntil is for how long the task had work, all in all.
func (t *Task) workedUntil(at time.Duration) time.Duration {
	if t.ready {
		return t.worked + max(0, at-t.readyAt)
	}
	return t.worked
}

// Request is the usual length of the task's requests; false: not known yet.
func (t *Task) Request() (time.Duration, bool) { return t.requests.median, t.requests.known() }

func isShort(slice time.Duration) bool { return slice > 0 && slice < shortest }

// armed says whether the task has a short slice, or is about to.
func (t *Task) armed() bool { return isShort(t.order.Slice) || isShort(t.slice) }

// sureArmed says whether the short slice is in force.
func (t *Task) sureArmed() bool { return isShort(t.order.Slice) && isShort(t.slice) }

// member says whether the task is among those of which one runs at a time: a
// background that is prepared for a foreground, or was and is still armed.
func (t *Task) member() bool {
	return (t.behind() || t.armed()) && t.holds && t.arms && !t.stuck && !t.lost()
}

// behind says whether the task is background.
func (t *Task) behind() bool { return t.mode == compute.Bounded && !t.leads }

// background says whether the task is one that is prepared for a foreground.
func (t *Task) background() bool { return t.behind() && t.member() }

// lost says whether the task may be on the device and nothing can be done about it.
func (t *Task) lost() bool { return t.away && !t.held }

// runnable says whether something of the task may be on the device. A suspension
// counts from its acknowledgement on.
func (t *Task) runnable() bool { return !t.held && (t.order.Open || !t.quiet) }

// stays says whether something of the task may stay on the device though its gate is
// closed.
func (t *Task) stays() bool {
	if t.order.Open {
		return t.ready // it is about to be closed
	}
	return !t.held && !t.quiet
}

// longRequests says whether the task's requests are known to be long.
func (t *Task) longRequests(c Costs) bool { return t.requests.known() && t.requests.median > c.long() }

// coexists says whether the task may go on beside a foreground that shares the device
// with it: only if no command of it keeps others out for long.
func (t *Task) coexists(c Costs) bool { return t.share && t.behind() && t.short(c) }

// short says whether the task's commands are known to be short.
func (t *Task) short(c Costs) bool { return t.grain != 0 && t.grain <= c.Suspend }
