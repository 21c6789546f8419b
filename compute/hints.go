package compute

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of the hints. Where XSched has a limit it is the same, so that its
// users find theirs.
const (
	MinPriority = -255
	MaxPriority = 255

	MinQuantum = 100 * time.Microsecond
	MaxQuantum = 10 * time.Second

	MinUtilization = 1
	MaxUtilization = 100

	MinWeight = 1
	MaxWeight = 1000

	MinDeadline = 100 * time.Microsecond
	MaxDeadline = time.Hour

	MinK = 1
	MaxK = 256

	// MaxMinShare leaves the tasks above a floor something to run in: a task
	// that is to have more than nine tenths asks for a higher priority.
	MaxMinShare = 0.9

	MaxHintText = 64 // bytes of a gang's or a display's name
)

// nameAllowed says in words what plainText holds.
var nameAllowed = fmt.Sprintf("a name of at most %d bytes, without spaces and control characters", MaxHintText)

// Limits of IdleAfter: no timer is finer than the one, and beyond the other a
// task keeps the device for more than it needs it by any measure.
const (
	MinIdleAfter = time.Microsecond
	MaxIdleAfter = time.Second
)

// Hints is what a task's owner asks for. The zero value is a task that asks
// for nothing. A hint that the present policy has no use for is kept for the
// one that has.
type Hints struct {
	// Priority is MinPriority to MaxPriority; the larger one wins. Default 0.
	Priority int
	// NoExecute keeps the task off every device until it is taken back, under
	// every policy. It is XSched's priority "no execute".
	NoExecute bool
	// Quantum is the length of one turn under policies that take turns,
	// MinQuantum to MaxQuantum; 0 leaves it to the policy, which under UP, PUP and
	// SPUP makes turns longer while nobody comes and goes. Longer turns cost fewer
	// switches and make the others wait longer. The switch to a task comes on top.
	Quantum time.Duration
	// IdleAfter is how long the task has to be without work until that counts as
	// idle, MinIdleAfter to MaxIdleAfter; 0 leaves it to whoever makes the Idle
	// events. The longer it is, the less often is another let in between two
	// requests, and the more of the device stays unused. No policy reads it.
	IdleAfter time.Duration

	// Utilization is the task's share of the device in percent under UP, PUP and
	// SPUP, MinUtilization to MaxUtilization; 0: it shares what the others leave.
	// Shares that sum to more than 100 are taken in proportion.
	Utilization int
	// Weight multiplies the task's share under CFS and the length of its turn
	// under WRR, MinWeight to MaxWeight; 0 is 1.
	Weight int
	// Deadline is how long after turning ready the task should be done, under
	// KEDF, MinDeadline to MaxDeadline; 0: none, it comes after all that have one.
	Deadline time.Duration
	// K is how many tasks KEDF runs at once on a device, MinK to MaxK; 0 has no
	// opinion. The largest of a device's tasks counts, and without any 1.
	K int
	// Laxity raises the task's priority under LAX when it has waited or worked
	// for long enough.
	Laxity Laxity
	// Window is the display on which a window of the task is in front, for AWF;
	// empty: on none.
	Window string
	// Gang names what the task belongs to: all tasks of one name run and stop
	// together, on all their devices. Empty: none.
	Gang string
	// MinShare is a floor under strict policies: while the task is ready it has
	// at least this part of the device, 0 to MaxMinShare, whoever outranks it.
	// Floors that sum to 1 leave nothing for those above.
	MinShare float64
	// SLO is how long a request of the task should take at most, from turning ready
	// to turning idle, MinDeadline to MaxDeadline; 0: none. No policy reads it: the
	// share of requests within it is counted and reported.
	SLO time.Duration
	// Process joins tasks that are queues of one process: PUP shares by it, and
	// has them run together. 0: the task is a process by itself.
	Process uint64
}

// Laxity is how long a task can wait before it becomes urgent. Low and High
// both 0 mean 0 and the task's priority, or 1 if that is not above 0.
type Laxity struct {
	After     time.Duration // after turning ready, MinDeadline to MaxDeadline; 0: it is urgent at once
	Low, High int           // the priority before and from then on, Low <= High
}

// RangeError reports a hint outside its limits.
type RangeError struct {
	Hint            string // "priority", "quantum", "idle-after" and so on
	Value, Min, Max string // with their units; Min "": Max says in words what is allowed
}

func (e *RangeError) Error() string {
	if e.Min == "" {
		return fmt.Sprintf("%s %s: not %s", e.Hint, e.Value, e.Max)
	}
	return fmt.Sprintf("%s %s is out of range: %s", e.Hint, e.Value, e.Allowed())
}

// Allowed is the range in words.
func (e *RangeError) Allowed() string {
	if e.Min == "" {
		return e.Max
	}
	return e.Min + " to " + e.Max
}

// Validate returns a *RangeError for the first hint that is out of range.
// It is for the edge, where a user can be told; [Scheduler.Apply] itself
// clamps, as it has nobody to tell.
func (h Hints) Validate() error {
	if h.Priority < MinPriority || h.Priority > MaxPriority {
		return outside("priority", h.Priority, MinPriority, MaxPriority)
	}
	for _, n := range []struct {
		hint           string
		value, low, up int
	}{
		{"utilization", h.Utilization, MinUtilization, MaxUtilization},
		{"weight", h.Weight, MinWeight, MaxWeight},
		{"k-deadline", h.K, MinK, MaxK},
	} {
		if n.value != 0 && (n.value < n.low || n.value > n.up) {
			return outside(n.hint, n.value, n.low, n.up)
		}
	}
	for _, d := range []struct {
		hint           string
		value, low, up time.Duration
	}{
		{"quantum", h.Quantum, MinQuantum, MaxQuantum},
		{"idle-after", h.IdleAfter, MinIdleAfter, MaxIdleAfter},
		{"deadline", h.Deadline, MinDeadline, MaxDeadline},
		{"laxity", h.Laxity.After, MinDeadline, MaxDeadline},
		{"slo", h.SLO, MinDeadline, MaxDeadline},
	} {
		if d.value != 0 && (d.value < d.low || d.value > d.up) {
			return outside(d.hint, d.value, d.low, d.up)
		}
	}
	if l := h.Laxity; l.Low < MinPriority || l.Low > MaxPriority {
		return outside("laxity's low priority", l.Low, MinPriority, MaxPriority)
	} else if l.High < l.Low || l.High > MaxPriority {
		return outside("laxity's high priority", l.High, l.Low, MaxPriority)
	}
	if !(h.MinShare >= 0 && h.MinShare <= MaxMinShare) {
		return outside("min-share", h.MinShare, 0.0, MaxMinShare)
	}
	for _, n := range []struct{ hint, text string }{{"window", h.Window}, {"gang", h.Gang}} {
		if !plainText(n.text) {
			return &RangeError{Hint: n.hint, Value: fmt.Sprintf("%q", n.text), Max: nameAllowed}
		}
	}
	return nil
}

func outside[T any](hint string, value, low, high T) error {
	return &RangeError{hint, fmt.Sprint(value), fmt.Sprint(low), fmt.Sprint(high)}
}

// plainText says whether a name can stand in any list and any variable.
func plainText(s string) bool {
	if len(s) > MaxHintText || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return false
		}
	}
	return true
}

func (h Hints) clamped() Hints {
	h.Priority = min(max(h.Priority, MinPriority), MaxPriority)
	h.Utilization = clampHint(h.Utilization, MinUtilization, MaxUtilization)
	h.Weight = clampHint(h.Weight, MinWeight, MaxWeight)
	h.K = clampHint(h.K, MinK, MaxK)
	h.Quantum = clampHint(h.Quantum, MinQuantum, MaxQuantum)
	h.IdleAfter = clampHint(h.IdleAfter, MinIdleAfter, MaxIdleAfter)
	h.Deadline = clampHint(h.Deadline, MinDeadline, MaxDeadline)
	h.SLO = clampHint(h.SLO, MinDeadline, MaxDeadline)
	h.Laxity.After = clampHint(h.Laxity.After, MinDeadline, MaxDeadline)
	h.Laxity.Low = min(max(h.Laxity.Low, MinPriority), MaxPriority)
	h.Laxity.High = min(max(h.Laxity.High, h.Laxity.Low), MaxPriority)
	if h.MinShare > MaxMinShare {
		h.MinShare = MaxMinShare
	} else if !(h.MinShare >= 0) { // also what is not a number, which equals nothing
		h.MinShare = 0
	}
	return h
}

// clampHint brings a hint into its limits; 0 is none.
func clampHint[T ~int | ~int64](v, low, high T) T {
	if v == 0 {
		return 0
	}
	return min(max(v, low), high)
}
