package client

import (
	"context"
	"math"
	"strings"
	"time"

	"xmsched/compute"
	xserverv1 "xmsched/xserver/api/v1"
)

// Hints are changes of a task's hints; what is nil stays as it is. Each means
// what the field of the same name in compute.Hints means.
type Hints struct {
	Priority    *int // compute.PriorityNoExecute: do not run
	NoExecute   *bool
	Quantum     *time.Duration // 0: the policy's
	IdleAfter   *time.Duration // 0: the daemon's
	Utilization *int
	Weight      *int
	Deadline    *time.Duration
	K           *int
	Laxity      *compute.Laxity
	Window      *string
	Gang        *string
	MinShare    *float64
	SLO         *time.Duration
}

// HintVariable is the variable of the environment by which xrun tells a
// program's agent a hint.
func HintVariable(d compute.Hint) string {
	return "XMSCHED_" + strings.ReplaceAll(strings.ToUpper(d.Name), "-", "_")
}

// Change names hints by compute.Hint's names and takes their values from h.
func Change(h compute.Hints, names ...string) Hints {
	var c Hints
	for _, name := range names {
		switch name {
		case "priority":
			c.Priority, c.NoExecute = &h.Priority, &h.NoExecute
		case "quantum":
			c.Quantum = &h.Quantum
		case "idle-after":
			c.IdleAfter = &h.IdleAfter
		case "utilization":
			c.Utilization = &h.Utilization
		case "weight":
			c.Weight = &h.Weight
		case "deadline":
			c.Deadline = &h.Deadline
		case "k-deadline":
			c.K = &h.K
		case "laxity":
			c.Laxity = &h.Laxity
		case "window":
			c.Window = &h.Window
		case "gang":
			c.Gang = &h.Gang
		case "min-share":
			c.MinShare = &h.MinShare
		case "slo":
			c.SLO = &h.SLO
		}
	}
	return c
}

// SetHints changes a task's hints. It returns the task's id and all its hints.
func (c *Client) SetHints(ctx context.Context, target Target, h Hints) (uint64, *xserverv1.Hints, error) {
	req := &xserverv1.SetHintRequest{
		Pid: int32(target.PID), Task: target.Task,
		Priority: signed(h.Priority), NoExecute: h.NoExecute,
		QuantumNs: nanoseconds(h.Quantum), IdleAfterNs: nanoseconds(h.IdleAfter),
		Utilization: unsigned(h.Utilization), Weight: unsigned(h.Weight),
		DeadlineNs: nanoseconds(h.Deadline), KDeadline: unsigned(h.K),
		Window: h.Window, Gang: h.Gang, MinShare: h.MinShare, SloNs: nanoseconds(h.SLO),
	}
	if l := h.Laxity; l != nil {
		req.LaxityNs, req.LaxityLow, req.LaxityHigh = nanoseconds(&l.After), signed(&l.Low), signed(&l.High)
	}
	r, err := c.api.SetHint(ctx, req)
	return r.GetTask(), r.GetHints(), fromStatus(c.dir, err)
}

// WireHints are hints for the wire. What is out of range stays so.
func WireHints(h compute.Hints) *xserverv1.Hints {
	return &xserverv1.Hints{
		Priority: *signed(&h.Priority), NoExecute: h.NoExecute,
		QuantumNs: *nanoseconds(&h.Quantum), IdleAfterNs: *nanoseconds(&h.IdleAfter),
		Utilization: *unsigned(&h.Utilization), Weight: *unsigned(&h.Weight),
		DeadlineNs: *nanoseconds(&h.Deadline), KDeadline: *unsigned(&h.K),
		LaxityNs: *nanoseconds(&h.Laxity.After), LaxityLow: *signed(&h.Laxity.Low), LaxityHigh: *signed(&h.Laxity.High),
		Window: h.Window, Gang: h.Gang, MinShare: h.MinShare, SloNs: *nanoseconds(&h.SLO),
	}
}

// HintsOf reads hints of the wire, which may be out of range. A priority of
// compute.PriorityNoExecute is taken as what it means.
func HintsOf(w *xserverv1.Hints) compute.Hints {
	h := compute.Hints{
		Priority: int(w.GetPriority()), NoExecute: w.GetNoExecute(),
		Quantum: Duration(w.GetQuantumNs()), IdleAfter: Duration(w.GetIdleAfterNs()),
		Utilization: int(w.GetUtilization()), Weight: int(w.GetWeight()),
		Deadline: Duration(w.GetDeadlineNs()), K: int(w.GetKDeadline()),
		Laxity: compute.Laxity{After: Duration(w.GetLaxityNs()), Low: int(w.GetLaxityLow()), High: int(w.GetLaxityHigh())},
		Window: w.GetWindow(), Gang: w.GetGang(), MinShare: w.GetMinShare(),
		SLO: Duration(w.GetSloNs()),
	}
	if h.Priority == compute.PriorityNoExecute {
		h.Priority, h.NoExecute = 0, true
	}
	return h
}

// Duration is one of the wire, too long ones as the longest.
func Duration(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }

// signed is a number for the wire, what does not fit as the nearest that does.
func signed(n *int) *int32 {
	if n == nil {
		return nil
	}
	v := int32(min(max(*n, math.MinInt32), math.MaxInt32))
	return &v
}

// unsigned is a number for the wire; a negative one becomes one that nobody
// accepts.
func unsigned(n *int) *uint32 {
	if n == nil {
		return nil
	}
	v := uint32(math.MaxUint32)
	if *n >= 0 {
		v = uint32(min(*n, math.MaxUint32))
	}
	return &v
}

// nanoseconds is a duration for the wire; a negative one becomes one that nobody
// accepts.
func nanoseconds(d *time.Duration) *uint64 {
	if d == nil {
		return nil
	}
	ns := uint64(math.MaxInt64)
	if *d >= 0 {
		ns = uint64(*d)
	}
	return &ns
}
