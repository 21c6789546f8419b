package compute

import "time"

// TaskID names a task: all processes of one xrun. The caller hands them out
// and does not use one again while its task lives.
type TaskID uint64

// Device names a device by the text of its UUID.
type Device string

// Event is something that happened to a task or was asked for. Events are
// values, and one that names a task or a device that is not there any more is
// ignored: it crossed the task's end on its way.
type Event interface{ event() }

// TaskAdded registers a task on a device. From here on it is a competitor of
// the others there. For a task that is there already only the hints are taken.
type TaskAdded struct {
	Task   TaskID
	Device Device
	Hints  Hints
}

// TaskRemoved takes a task off every device and forgets it.
type TaskRemoved struct{ Task TaskID }

// DeviceLeft takes a task off one device. A task that has left its last device
// is forgotten.
type DeviceLeft struct {
	Task   TaskID
	Device Device
}

// Ready says that a task has work for a device.
type Ready struct {
	Task   TaskID
	Device Device
}

// Idle says that a task has no work outstanding on a device.
type Idle struct {
	Task   TaskID
	Device Device
}

// HintsChanged replaces a task's hints, on all its devices.
type HintsChanged struct {
	Task  TaskID
	Hints Hints
}

// CPUPriorityChanged tells a task's priority at the processor, the largest of its
// processes: 0 is an ordinary one's, the larger one goes first. Who makes these
// events says how the system's numbers map.
type CPUPriorityChanged struct {
	Task     TaskID
	Priority int
}

// Overran says that what a task had begun on a device before its gate closed
// last has taken By of the device's time since then, or since this was told last,
// from those that ran there until now, or until its gate opened again. The task
// is charged for it, and they are charged for less, by how long each ran: it is
// exact if it is told whenever the turn passes. Of By, nobody had the device for
// Unused: the task is not charged for that. Late says that the others waited for it,
// so that a turn of theirs began so much later and ends so much later.
type Overran struct {
	Task       TaskID
	Device     Device
	By, Unused time.Duration
	Late       bool
}

// SwitchCost says what a device loses when the turn passes from one task to another:
// time that nobody uses. It holds for the device's name, whoever is there, until
// told otherwise; without it, it is taken to be nothing. Policies of turns make each
// turn so much longer, and do not count it as used.
type SwitchCost struct {
	Device Device
	Cost   time.Duration
}

// Prolonged moves the end of a task's present turn on a device by so much, to earlier
// where By is negative: nobody else could use the device by then. Time that it runs is
// charged as always. Without a turn, or under a policy that has none, By does nothing.
//
// Still is for how long the task could not run though it was let, since the last word of
// that: it is not charged for it.
type Prolonged struct {
	Task      TaskID
	Device    Device
	By, Still time.Duration
}

// Stands says that a task cannot use a device for a while though it has work and may run
// there, or no more: its memory is on the way. Policies of turns give its turn to who can,
// and what was left of it back to the task, before anybody else's, once it can use it.
type Stands struct {
	Task   TaskID
	Device Device
	On     bool
}

// CommandLength says how long the commands of a task are on a device, where they are
// long and that is known well; 0: not. UP and PUP then end a turn in the middle of a command.
type CommandLength struct {
	Task   TaskID
	Device Device
	Length time.Duration
}

// PolicyChanged replaces the policy of all devices. It takes effect in the
// same Apply; tasks, readiness and hints stay as they are.
type PolicyChanged struct{ Policy Policy }

// Tick is nothing but the time: the caller's timer ran out.
type Tick struct{}

func (TaskAdded) event()          {}
func (TaskRemoved) event()        {}
func (DeviceLeft) event()         {}
func (Ready) event()              {}
func (Idle) event()               {}
func (HintsChanged) event()       {}
func (CPUPriorityChanged) event() {}
func (Overran) event()            {}
func (SwitchCost) event()         {}
func (Prolonged) event()          {}
func (Stands) event()             {}
func (CommandLength) event()      {}
func (PolicyChanged) event()      {}
func (Tick) event()               {}

// Mode says how tightly a task's launches are bounded while its gate is open.
type Mode uint8

const (
	// Free: no other task is registered on the device.
	Free Mode = iota
	// Bounded: a competitor exists, and what is queued has to stay short, so
	// that closing the gate stops the device soon.
	Bounded
	// Top: a competitor exists, but none that could make this task stop.
	Top
)

func (m Mode) String() string {
	switch m {
	case Free:
		return "free"
	case Bounded:
		return "bounded"
	case Top:
		return "top"
	}
	return "invalid"
}

// Grant is what a task may do on a device from now on.
type Grant struct {
	Task   TaskID
	Device Device
	Open   bool
	Mode   Mode
}

// Outcome is what the caller has to do after an Apply. Its slices belong to
// the scheduler and hold until the next Apply.
type Outcome struct {
	// Grants are the gates and modes that differ from the last Apply, by
	// device; on a device those that close come first, so that room is made
	// before it is given away.
	Grants []Grant
	// Next is the time at which to call Apply again though nothing happened;
	// 0 if there is none.
	Next time.Duration
	// Replanned are the devices whose timeline may have changed.
	Replanned []Device
}

// TaskState is a task as it stands on one device.
type TaskState struct {
	// Task is the task's id; to a decider it may be one of several that run as
	// one, whose id means nothing outside.
	Task   TaskID
	Device Device
	Hints  Hints
	// CPUPriority is what CPUPriorityChanged told last.
	CPUPriority int

	Ready bool
	// ReadySince is when the task last turned ready; it keeps its value while
	// the task is idle.
	ReadySince time.Duration

	Open bool
	Mode Mode
	// RunTime is how long the task has been ready with an open gate, corrected by
	// Overran. Tasks that run together are each charged the whole time.
	RunTime time.Duration
	// Late is by how much its turns began later than it was given them, and were
	// prolonged, in all.
	Late time.Duration
	// Command is what CommandLength told last of a task that runs by itself.
	Command time.Duration
	// Stands is what Stands told last of a task that runs by itself.
	Stands bool

	// Seniority is set for a gang, and Summoned where it is let run on another
	// device if it may run here as well: a policy of turns gives it a turn at
	// once, ahead of all but gangs of more seniority. Deciders alone see these.
	Seniority Seniority
	Summoned  bool
}
