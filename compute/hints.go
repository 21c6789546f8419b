package compute

import (
	"fmt"
	"time"
)

// Limits of the hints. They are XSched's, so that its users find theirs.
const (
	MinPriority = -255
	MaxPriority = 255

	MinQuantum = 100 * time.Microsecond
	MaxQuantum = 10 * time.Second
)

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
	// Quantum is the length of one turn under policies that take turns,
	// MinQuantum to MaxQuantum; 0 leaves it to the policy. Longer turns cost
	// fewer switches and make the others wait longer.
	Quantum time.Duration
	// IdleAfter is how long the task has to be without work until that counts as
	// idle, MinIdleAfter to MaxIdleAfter; 0 leaves it to whoever makes the Idle
	// events. The longer it is, the less often is another let in between two
	// requests, and the more of the device stays unused. No policy reads it.
	IdleAfter time.Duration
}

// RangeError reports a hint outside its limits.
type RangeError struct {
	Hint            string // "priority", "quantum", "idle-after"
	Value, Min, Max string // with their units
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%s %s is out of range: %s to %s", e.Hint, e.Value, e.Min, e.Max)
}

// Validate returns a *RangeError for the first hint that is out of range.
// It is for the edge, where a user can be told; [Scheduler.Apply] itself
// clamps, as it has nobody to tell.
func (h Hints) Validate() error {
	if h.Priority < MinPriority || h.Priority > MaxPriority {
		return &RangeError{"priority", fmt.Sprint(h.Priority), fmt.Sprint(MinPriority), fmt.Sprint(MaxPriority)}
	}
	if h.Quantum != 0 && (h.Quantum < MinQuantum || h.Quantum > MaxQuantum) {
		return &RangeError{"quantum", h.Quantum.String(), MinQuantum.String(), MaxQuantum.String()}
	}
	if h.IdleAfter != 0 && (h.IdleAfter < MinIdleAfter || h.IdleAfter > MaxIdleAfter) {
		return &RangeError{"idle-after", h.IdleAfter.String(), MinIdleAfter.String(), MaxIdleAfter.String()}
	}
	return nil
}

func (h Hints) clamped() Hints {
	h.Priority = min(max(h.Priority, MinPriority), MaxPriority)
	if h.Quantum != 0 {
		h.Quantum = min(max(h.Quantum, MinQuantum), MaxQuantum)
	}
	if h.IdleAfter != 0 {
		h.IdleAfter = min(max(h.IdleAfter, MinIdleAfter), MaxIdleAfter)
	}
	return h
}
