package compute

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hint describes one hint to those who take hints as text: flags, variables of
// the environment, forms. Names are those of [RangeError].
type Hint struct {
	Name    string
	Value   string // what stands for a value in a usage line: "N", "D"
	Help    string // what it does, a line
	Allowed string // "a number from -255 to 255"
	// XSched is the variable that means the same to XSched's users; empty if
	// there is none. Its lengths of time are numbers of microseconds.
	XSched string
	// Policies have a use for it; empty: all.
	Policies string

	parse  func(string, *Hints) bool
	format func(Hints) string
}

// TextError reports text that is not a hint's value.
type TextError struct{ Hint, Text, Allowed string }

func (e *TextError) Error() string {
	return fmt.Sprintf("%s %q: not %s", e.Hint, e.Text, e.Allowed)
}

// Parse reads a hint's text into h; nothing else of h changes. Empty text is
// the hint's default. The error is a *TextError.
func (d Hint) Parse(text string, h *Hints) error {
	changed := *h
	if !d.parse(strings.TrimSpace(text), &changed) || changed.Validate() != nil {
		return &TextError{d.Name, text, d.Allowed}
	}
	*h = changed
	return nil
}

// Format writes a hint as Parse reads it; empty where it was not given.
func (d Hint) Format(h Hints) string { return d.format(h) }

// HintByName finds a hint.
func HintByName(name string) (Hint, bool) {
	for _, d := range HintList() {
		if d.Name == name {
			return d, true
		}
	}
	return Hint{}, false
}

// HintList describes every hint that people give, in the order in which they
// should be listed.
func HintList() []Hint {
	const xs = "XSCHED_AUTO_XQUEUE_"
	length := func(low, high time.Duration) string {
		return fmt.Sprintf("a length of time such as 10ms, from %v to %v", low, high)
	}
	number := func(low, high int) string { return fmt.Sprintf("a number from %d to %d", low, high) }
	return []Hint{
		{"priority", "N", "larger wins; off: do not run at all",
			number(MinPriority, MaxPriority) + ", or off", xs + "PRIORITY", "HPF, HHPF, CFS", parsePriority, formatPriority},
		{"quantum", "D", "length of a turn, such as 10ms",
			length(MinQuantum, MaxQuantum), xs + "TIMESLICE", "RR, WRR, UP, PUP, SPUP",
			durationHint(func(h *Hints) *time.Duration { return &h.Quantum }), formatDuration(func(h Hints) time.Duration { return h.Quantum })},
		{"idle-after", "D", "keep lower ones out for so long after the last work",
			length(MinIdleAfter, MaxIdleAfter), "", "",
			durationHint(func(h *Hints) *time.Duration { return &h.IdleAfter }), formatDuration(func(h Hints) time.Duration { return h.IdleAfter })},
		{"utilization", "N", "share of the device in percent; 0: what the others leave",
			number(MinUtilization, MaxUtilization) + ", or 0", xs + "UTILIZATION", "UP, PUP, SPUP",
			numberHint(func(h *Hints) *int { return &h.Utilization }), formatNumber(func(h Hints) int { return h.Utilization })},
		{"weight", "N", "multiplies the share or the turn",
			number(MinWeight, MaxWeight) + ", or 0", "", "CFS, WRR",
			numberHint(func(h *Hints) *int { return &h.Weight }), formatNumber(func(h Hints) int { return h.Weight })},
		{"deadline", "D", "be done so long after turning ready",
			length(MinDeadline, MaxDeadline), xs + "DEADLINE", "KEDF",
			durationHint(func(h *Hints) *time.Duration { return &h.Deadline }), formatDuration(func(h Hints) time.Duration { return h.Deadline })},
		{"k-deadline", "K", "run the tasks of the K earliest deadlines together",
			number(MinK, MaxK) + ", or 0", xs + "KDEADLINE", "KEDF",
			numberHint(func(h *Hints) *int { return &h.K }), formatNumber(func(h Hints) int { return h.K })},
		{"laxity", "D", "raise the priority so long after turning ready, from LOW to HIGH: D or D:LOW:HIGH",
			fmt.Sprintf("D or D:LOW:HIGH, D %s, LOW and HIGH from %d to %d", length(MinDeadline, MaxDeadline), MinPriority, MaxPriority),
			xs + "LAXITY", "LAX", parseLaxity, formatLaxity},
		{"window", "DISPLAY", "a window of the task is in front on this display",
			nameAllowed, "", "AWF",
			func(s string, h *Hints) bool { h.Window = s; return true }, func(h Hints) string { return h.Window }},
		{"gang", "NAME", "run and stop together with all tasks of this gang, on all devices",
			nameAllowed, "", "",
			func(s string, h *Hints) bool { h.Gang = s; return true }, func(h Hints) string { return h.Gang }},
		{"min-share", "S", "never get less than this part of the device, such as 0.05 or 5%",
			fmt.Sprintf("a part from 0 to %v", MaxMinShare), "", "strict ones",
			parseShare, formatShare},
		{"slo", "D", "count the requests that take no longer, ready to idle",
			length(MinDeadline, MaxDeadline), "", "reports",
			durationHint(func(h *Hints) *time.Duration { return &h.SLO }), formatDuration(func(h Hints) time.Duration { return h.SLO })},
	}
}

func parsePriority(text string, h *Hints) bool {
	h.NoExecute = false
	if text == "" {
		h.Priority = 0
		return true
	}
	if strings.EqualFold(text, "off") {
		h.Priority, h.NoExecute = 0, true
		return true
	}
	n, err := strconv.Atoi(text)
	if n == PriorityNoExecute {
		h.Priority, h.NoExecute = 0, true
		return err == nil
	}
	h.Priority = n
	return err == nil
}

// PriorityNoExecute is what XSched's users write as a priority for "do not
// run". As a value of [Hints] it is NoExecute.
const PriorityNoExecute = MinPriority - 1

func formatPriority(h Hints) string {
	if h.NoExecute {
		return "off"
	}
	return strconv.Itoa(h.Priority)
}

func durationHint(of func(*Hints) *time.Duration) func(string, *Hints) bool {
	return func(text string, h *Hints) bool {
		if text == "" {
			text = "0"
		}
		d, err := time.ParseDuration(text)
		*of(h) = d
		return err == nil
	}
}

func formatDuration(of func(Hints) time.Duration) func(Hints) string {
	return func(h Hints) string {
		if of(h) == 0 {
			return ""
		}
		return of(h).String()
	}
}

func numberHint(of func(*Hints) *int) func(string, *Hints) bool {
	return func(text string, h *Hints) bool {
		if text == "" {
			text = "0"
		}
		n, err := strconv.Atoi(text)
		*of(h) = n
		return err == nil
	}
}

func formatNumber(of func(Hints) int) func(Hints) string {
	return func(h Hints) string {
		if of(h) == 0 {
			return ""
		}
		return strconv.Itoa(of(h))
	}
}

func parseLaxity(text string, h *Hints) bool {
	if text == "" {
		text = "0"
	}
	after, priorities, given := strings.Cut(text, ":")
	d, err := time.ParseDuration(after)
	h.Laxity = Laxity{After: d}
	if !given || err != nil {
		return err == nil
	}
	low, high, both := strings.Cut(priorities, ":")
	var lowErr, highErr error
	h.Laxity.Low, lowErr = strconv.Atoi(low)
	h.Laxity.High, highErr = strconv.Atoi(high)
	return both && lowErr == nil && highErr == nil
}

func formatLaxity(h Hints) string {
	l := h.Laxity
	switch {
	case l == Laxity{}:
		return ""
	case l.Low == 0 && l.High == 0:
		return l.After.String()
	}
	return fmt.Sprintf("%v:%d:%d", l.After, l.Low, l.High)
}

func parseShare(text string, h *Hints) bool {
	if text == "" {
		text = "0"
	}
	part, percent := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(part, 64)
	if percent {
		f /= 100
	}
	h.MinShare = f
	return err == nil
}

func formatShare(h Hints) string {
	if h.MinShare == 0 {
		return ""
	}
	return strconv.FormatFloat(h.MinShare, 'g', -1, 64)
}
