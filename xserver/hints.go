package xserver

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xmsched/compute"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/journal"
)

// SetHint changes the hints of one task: of all its processes, and for later
// ones.
func (v *service) SetHint(ctx context.Context, req *xserverv1.SetHintRequest) (*xserverv1.SetHintResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	s := v.server
	s.steering.Lock()
	defer s.steering.Unlock()
	s.registry.mu.Lock()
	t, _, err := s.registry.target(who, req.Pid, req.Task)
	if err != nil {
		s.registry.mu.Unlock()
		return nil, err
	}
	h := changed(t.hints, req)
	if err := h.Validate(); err != nil {
		s.registry.mu.Unlock()
		return nil, rejectHint(err)
	}
	steered := append(s.registry.loseWindow(t, h.Window), t)
	s.registry.setHints(t, h)
	hints := map[compute.TaskID]compute.Hints{}
	notes := map[journal.Key]memory{}
	for _, t := range steered {
		hints[t.id] = t.hints
		for _, p := range t.processes {
			notes[p.key()] = p.memory()
		}
	}
	id := t.id
	s.registry.mu.Unlock()
	for id, h := range hints {
		if err := s.loop.SetHints(id, h); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	s.note(notes)
	s.log.Info("hint changed", "task", id, "hints", spellHints(h), "by", who.String())
	return &xserverv1.SetHintResponse{Task: uint64(id), Hints: wireHints(h)}, nil
}

// takeWindow has a process that starts with its window in front take the display
// from others.
func (s *Server) takeWindow(p *process) {
	s.steering.Lock()
	defer s.steering.Unlock()
	s.registry.mu.Lock()
	lost := s.registry.loseWindow(p.task, p.task.hints.Window)
	hints := map[compute.TaskID]compute.Hints{}
	for _, t := range lost {
		hints[t.id] = t.hints
	}
	s.registry.mu.Unlock()
	for id, h := range hints {
		_ = s.loop.SetHints(id, h) // on its way down: nothing to tell
	}
}

// loseWindow takes a display from the other tasks of t's user, as one window is
// in front on it, and returns those that had it. Precondition: mu is held.
func (r *registry) loseWindow(t *task, display string) (lost []*task) {
	if display == "" {
		return nil
	}
	for _, other := range r.tasks {
		if other != t && other.key.uid == t.key.uid && other.hints.Window == display {
			h := other.hints
			h.Window = ""
			r.setHints(other, h)
			lost = append(lost, other)
		}
	}
	return lost
}

// changed is h with what a request names.
func changed(h compute.Hints, req *xserverv1.SetHintRequest) compute.Hints {
	if req.Priority != nil {
		h.Priority = int(*req.Priority)
		h.NoExecute = h.Priority == compute.PriorityNoExecute
		if h.NoExecute {
			h.Priority = 0
		}
	}
	set(&h.NoExecute, req.NoExecute)
	setDuration(&h.Quantum, req.QuantumNs)
	setDuration(&h.IdleAfter, req.IdleAfterNs)
	setNumber(&h.Utilization, req.Utilization)
	setNumber(&h.Weight, req.Weight)
	setDuration(&h.Deadline, req.DeadlineNs)
	setNumber(&h.K, req.KDeadline)
	setDuration(&h.Laxity.After, req.LaxityNs)
	setNumber(&h.Laxity.Low, req.LaxityLow)
	setNumber(&h.Laxity.High, req.LaxityHigh)
	set(&h.Window, req.Window)
	set(&h.Gang, req.Gang)
	set(&h.MinShare, req.MinShare)
	setDuration(&h.SLO, req.SloNs)
	return h
}

func set[T any](into *T, from *T) {
	if from != nil {
		*into = *from
	}
}

func setNumber[T int32 | uint32](into *int, from *T) {
	if from != nil {
		*into = int(*from)
	}
}

func setDuration[T ~int64](into *T, from *uint64) {
	if from != nil {
		*into = T(duration(*from))
	}
}

// rejectHint words what Validate found for the caller.
func rejectHint(err error) error {
	var r *compute.RangeError
	if !errors.As(err, &r) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return client.Reject(codes.InvalidArgument, r.Hint, r.Value, []string{r.Allowed()}, r.Error())
}

func wireHints(h compute.Hints) *xserverv1.Hints { return client.WireHints(h) }

// startHints are the hints of a request to register.
func startHints(req *xserverv1.RegisterRequest) compute.Hints {
	if req.Hints != nil {
		return client.HintsOf(req.Hints)
	}
	return client.HintsOf(&xserverv1.Hints{Priority: req.Priority, QuantumNs: req.QuantumNs, IdleAfterNs: req.IdleAfterNs})
}

// spellHints writes the hints that were given, for the log.
func spellHints(h compute.Hints) map[string]string {
	words := map[string]string{}
	for _, d := range compute.HintList() {
		if text := d.Format(h); text != "" {
			words[d.Name] = text
		}
	}
	return words
}
