package compute

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Policy is a way to share a device.
type Policy interface {
	// Name is what users call it.
	Name() string
	// Fresh returns a decider that has seen nothing yet.
	Fresh() Decider
	// Traits say what else the scheduler and its users have to know of it.
	Traits() Traits
}

// Traits of a policy. The zero value is right for one of its own kind.
type Traits struct {
	// Summary says in a line what the policy does.
	Summary string
	// Hints are the names of the hints that it heeds, as in [Hint].
	Hints []string
	// Strict policies may keep a task waiting for ever, so that a floor
	// ([Hints.MinShare]) has to be held up against them.
	Strict bool
	// Machine policies decide all devices as one: tasks elsewhere count as well.
	Machine bool
	// ByCPU policies go by what [CPUPriorityChanged] tells, so that somebody has to
	// tell it.
	ByCPU bool
	// ByProcess policies have the tasks of one process on a device run as one.
	ByProcess bool
}

// Decider applies a policy to the tasks of one device. It holds no reference
// into the scheduler, reads no clock, and answers the same to the same history.
type Decider interface {
	// Decide takes what changed and says what follows from it. The result's
	// slice may be reused by the next call.
	Decide(Snapshot) Decision
	// Plan yields who runs when from now on if nothing more happens, in order
	// of start. A plan that repeats itself ends after one round.
	Plan(now time.Duration) iter.Seq[Slot]
}

// Snapshot is what a decider has not seen yet: every task that is new or
// changed since its last decision, as it stands now, in the order in which the
// events first changed them. The first snapshot has all tasks, and those that
// have been ready longest come first.
type Snapshot struct {
	Now     time.Duration
	Changed []TaskState
	Gone    []TaskID
	// Switch is what [SwitchCost] told, of several devices the largest.
	Switch time.Duration
}

// Decision is what changes on the device. Verdicts that repeat what holds
// already do no harm; a task without one keeps what it has.
type Decision struct {
	Verdicts []Verdict
	// Next is when to decide again without an event, after the snapshot's Now;
	// 0 for never.
	Next time.Duration
}

// firster is a Decider that can say what concerns tasks with work before the rest.
// DecideFirst is Decide, but verdicts on tasks without work may be left for the next
// call of either; more says that some are.
type firster interface {
	DecideFirst(s Snapshot) (d Decision, more bool)
}

// Verdict is a policy's word on one task.
type Verdict struct {
	Task TaskID
	Open bool
	// Mode is Top or Bounded. A task that is alone on its device is Free
	// whatever this says.
	Mode Mode
	// Keep tells whose memory is worth keeping when no start is known for it:
	// the larger, the sooner it would have to run once it is ready.
	Keep int
}

// Slot is one entry of a timeline. Length 0 is open-ended: until some event.
type Slot struct {
	Task          TaskID
	Start, Length time.Duration
}

// policy is one of this package.
type policy struct {
	name   string
	traits Traits
	fresh  func() Decider
}

func (p *policy) Name() string   { return p.name }
func (p *policy) Traits() Traits { return p.traits }
func (p *policy) Fresh() Decider { return p.fresh() }

// policies are those of this package, in the order in which they are listed:
// the strict ones, then those of turns and shares.
var policies = []Policy{
	HPF(), HHPF(), CHPF(), LAX(), AWF(), KEDF(),
	RR(), WRR(), FCFS(), UP(), PUP(), SPUP(), CFS(), MLFQ(),
}

// Policies lists the policies that there are.
func Policies() []Policy { return slices.Clone(policies) }

// PolicyNames returns the names that PolicyByName knows.
func PolicyNames() []string {
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.Name()
	}
	return names
}

// PolicyByName finds a policy; case does not matter. The error is an
// *UnknownPolicyError.
func PolicyByName(name string) (Policy, error) {
	for _, p := range policies {
		if strings.EqualFold(p.Name(), name) {
			return p, nil
		}
	}
	return nil, &UnknownPolicyError{Name: name, Allowed: PolicyNames()}
}

// UnknownPolicyError reports a policy's name that does not exist.
type UnknownPolicyError struct {
	Name    string
	Allowed []string
}

func (e *UnknownPolicyError) Error() string {
	return fmt.Sprintf("unknown policy %q: %s", e.Name, strings.Join(e.Allowed, ", "))
}
