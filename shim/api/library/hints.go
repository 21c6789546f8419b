package library

import (
	"strings"
	"time"

	"xmsched/compute"
	"xmsched/preempt"
)

// Kinds of schedulers; the numbers are XSched's.
const (
	appManaged = 1
	local      = 2
	global     = 3
)

// policyNames are the policies by XSched's numbers, and ours from 101 on.
var policyNames = map[int]string{
	1: "HPF", 2: "HHPF", 3: "CHPF", 4: "UP", 5: "PUP", 6: "SPUP", 7: "KEDF", 8: "LAX", 9: "AWF", 10: "CFS", 11: "MLFQ",
	101: "RR", 102: "WRR", 103: "FCFS",
}

// SetScheduler says who schedules the queues of this process.
func (l *Library) SetScheduler(kind, policy int) error {
	switch kind {
	case appManaged:
		l.unschedule()
		return nil
	case local:
		name, ok := policyNames[policy]
		if !ok {
			return refuse(InvalidValue, "policy %d is not known", policy)
		}
		return l.SetPolicy(name)
	case global:
		return refuse(NotSupported, "the scheduler of the whole machine is the daemon's: run the program under xrun")
	}
	return refuse(InvalidValue, "scheduler %d is out of range: 1 to 3", kind)
}

// SetPolicy has a policy of this process schedule all queues, present and
// future.
func (l *Library) SetPolicy(name string) error {
	policy, err := compute.PolicyByName(name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scheduler != nil {
		l.scheduler.SetPolicy(policy)
		return nil
	}
	l.scheduler = preempt.NewScheduler(policy)
	for _, q := range l.queues.all() {
		if err := l.scheduler.Add(q.XQueue); err != nil && Code(err) != NotAllowed { // it is being destroyed
			return err
		}
	}
	return nil
}

func (l *Library) unschedule() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scheduler != nil {
		l.scheduler.Close()
		l.scheduler = nil
	}
}

// PolicyNames lists the policies, separated by spaces.
func PolicyNames() string { return strings.Join(compute.PolicyNames(), " ") }

// Hint changes the hints of one queue.
func (l *Library) Hint(queue uint64, change func(*compute.Hints)) error {
	q, err := l.queues.get(queue)
	if err != nil {
		return err
	}
	return q.UpdateHints(change)
}

// HintAll changes the hints of all queues, present and future.
func (l *Library) HintAll(change func(*compute.Hints)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	common := l.common
	change(&common)
	if err := common.Validate(); err != nil {
		return err
	}
	l.common = common
	for _, q := range l.queues.all() {
		if err := q.UpdateHints(change); err != nil {
			return err
		}
	}
	return nil
}

// HintText reads hints as "priority=5 quantum=10ms", by the names and values that
// xrun's flags have. A hint that is named twice has its last value. The change makes
// all of them; errors are InvalidValue, and *compute.TextError for a value.
func HintText(text string) (change func(*compute.Hints), err error) {
	var sets []func(*compute.Hints)
	for _, word := range strings.Fields(text) {
		name, value, given := strings.Cut(word, "=")
		hint, known := compute.HintByName(name)
		if !given || !known {
			return nil, refuse(InvalidValue, "hint %q: write NAME=VALUE, with the names %s", word, strings.Join(hintNames(), ", "))
		}
		if err := hint.Parse(value, new(compute.Hints)); err != nil {
			return nil, err
		}
		sets = append(sets, func(h *compute.Hints) { _ = hint.Parse(value, h) }) // its value was read before
	}
	return func(h *compute.Hints) {
		for _, set := range sets {
			set(h)
		}
	}, nil
}

// SpellHints writes the hints that were given as HintText reads them.
func SpellHints(h compute.Hints) string {
	var words []string
	for _, hint := range compute.HintList() {
		if value := hint.Format(h); value != "" && value != hint.Format(compute.Hints{}) {
			words = append(words, hint.Name+"="+value)
		}
	}
	return strings.Join(words, " ")
}

func hintNames() (names []string) {
	for _, hint := range compute.HintList() {
		names = append(names, hint.Name)
	}
	return names
}

// NoExecute is XSched's priority of a queue that does not run.
const NoExecute = -256

// Priority is the hint of that name.
func Priority(p int) func(*compute.Hints) {
	return func(h *compute.Hints) {
		h.NoExecute = p == NoExecute
		if !h.NoExecute {
			h.Priority = p
		}
	}
}

// Micros is a time of the C interface, where XSched's -1 is none. Others have
// to be above 0; the hint's own range is checked later.
func Micros(name string, us int64) (time.Duration, error) {
	switch {
	case us == -1:
		return 0, nil
	case us <= 0:
		return 0, refuse(InvalidValue, "%s of %d us is out of range: 1 and more, or -1 for none", name, us)
	}
	return Timespan(us), nil
}

// Timespan is a number of microseconds, at least 0.
func Timespan(us int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(max(0, min(us, most))) * time.Microsecond
}
