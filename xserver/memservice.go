package xserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mem "xmsched/memory"
	"xmsched/preempt/board"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/journal"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

// noBudget is why a daemon manages no memory.
const noBudget = "this daemon does not manage memory: start it without --hbm-budget none"

// noCard is why a device's memory is not managed under an automatic budget.
const noCard = "the card's size is not known yet, as the device was not probed; or give a size with --hbm-budget"

// MemoryStats tells where the memory is.
func (v *service) MemoryStats(ctx context.Context, _ *xserverv1.MemoryStatsRequest) (*xserverv1.MemoryStatsResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	s := v.server
	state, on, err := s.loop.DescribeMemory()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	r := &xserverv1.MemoryStatsResponse{Managed: on}
	if !on {
		return r, nil
	}
	r.Policy, r.Awaiting = state.Mode.String(), state.Awaits
	h := state.Host
	r.Host = &xserverv1.HostMemory{Used: uint64(h.Used), Pool: uint64(h.Pool), Kept: uint64(h.Kept), LeftBehind: uint64(h.Gone)}
	if state.Host.Known {
		r.Host.Limit, r.Host.LimitedBy = uint64(state.Host.Limit), string(state.Host.By)
	}
	r.Host.Passing, r.Host.Passed = uint64(s.pool.kept()), uint64(s.pool.passed())
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for _, d := range state.Devices {
		r.Devices = append(r.Devices, s.registry.wireMemory(who, d))
	}
	slices.SortFunc(r.Devices, func(a, b *xserverv1.DeviceMemory) int { return cmp.Compare(a.Uuid, b.Uuid) })
	return r, nil
}

// wireMemory is a device's memory, with the processes that the caller may see.
// Precondition: mu is held.
func (r *registry) wireMemory(who peer.Peer, d plane.DeviceMemoryState) *xserverv1.DeviceMemory {
	w := &xserverv1.DeviceMemory{
		Uuid: string(d.Device), Name: clean(d.Name, maxName), Budget: uint64(d.Budget), Card: uint64(d.Card),
		DriverOwned: uint64(d.DriverOwn), Committed: uint64(d.Committed), Over: uint64(d.Over),
		Oversubscribed: d.Short, LeftBehind: uint64(d.Gone), HostShort: d.HostShort,
		Link: uint64(d.Link),
	}
	if !d.Managed {
		w.Why = noCard
	}
	w.Free = uint64(max(0, d.Budget-d.Committed))
	for _, p := range d.Processes {
		w.Allocated += p.View.Allocated
		w.Resident += p.View.Resident
		w.Host += p.View.Host
		w.Pinned += p.View.Pinned
		w.Slots += max(p.View.Slots, p.View.Host)
		w.Kept += p.View.Kept
		reg := r.processes[p.Process]
		if reg == nil || !maySee(who, reg.peer.UID) {
			continue
		}
		w.Processes = append(w.Processes, &xserverv1.ProcessMemory{
			Task: uint64(p.Task), Name: reg.task.name, Pid: int32(reg.peer.PID), Uid: reg.peer.UID, Memory: wireProcessMemory(p),
		})
	}
	slices.SortFunc(w.Processes, func(a, b *xserverv1.ProcessMemory) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Pid, b.Pid))
	})
	return w
}

func wireProcessMemory(p plane.ProcessMemoryState) *xserverv1.Memory {
	v := p.View
	return &xserverv1.Memory{
		Limit: uint64(p.Limit), Allocated: v.Allocated, Resident: v.Resident, Host: v.Host, Pinned: v.Pinned,
		Asked: v.Asked, Waste: v.Waste, Target: uint64(p.Target.Bytes), Desired: uint64(p.Target.Desired),
		WorkingSet: uint64(p.Working), MovedIn: v.In, MovedOut: v.Out,
		InPerS: float64(p.In), OutPerS: float64(p.Out), StallNs: uint64(v.Stall), Hidden: p.Hidden,
		Held: p.Held, Waits: p.Waits, Move: p.Target.Move.String(),
		QuantumNs: uint64(p.Quantum), LoadNs: uint64(p.Target.Load), Why: memoryWhy(p), PinnedBy: pinnedBy(v),
		Slots: max(v.Slots, v.Host), Kept: v.Kept, SlotsBound: uint64(p.HostPart), Exchange: v.Exchange,
		Hashed: v.Clean.Hashed, Spared: v.Clean.Spared, Wrong: v.Clean.Wrong, Foretold: v.Working > 0,
	}
}

// pinnedBy names what is pinned.
func pinnedBy(v board.MemoryView) (kinds []*xserverv1.MemoryKind) {
	for i, n := range v.PinnedBy {
		if n > 0 {
			kinds = append(kinds, &xserverv1.MemoryKind{Name: board.MemoryPinNames[i], Bytes: n})
		}
	}
	return kinds
}

// wireTaskMemory adds up a task's processes on a device; nil: memory is not managed.
func wireTaskMemory(list []plane.ProcessMemoryState) (sum *xserverv1.Memory) {
	for _, p := range list {
		one := wireProcessMemory(p)
		if sum == nil {
			sum = one
			continue
		}
		for into, n := range map[*uint64]uint64{
			&sum.Limit: one.Limit, &sum.Allocated: one.Allocated, &sum.Resident: one.Resident, &sum.Host: one.Host,
			&sum.Pinned: one.Pinned, &sum.Asked: one.Asked, &sum.Waste: one.Waste, &sum.Target: one.Target,
			&sum.Desired: one.Desired, &sum.WorkingSet: one.WorkingSet, &sum.MovedIn: one.MovedIn, &sum.MovedOut: one.MovedOut,
			&sum.LoadNs: one.LoadNs, &sum.Slots: one.Slots, &sum.Kept: one.Kept, &sum.SlotsBound: one.SlotsBound,
			&sum.Exchange: one.Exchange, &sum.Hashed: one.Hashed, &sum.Spared: one.Spared, &sum.Wrong: one.Wrong,
		} {
			*into += n
		}
		sum.PinnedBy = addKinds(sum.PinnedBy, one.PinnedBy)
		sum.Foretold = sum.Foretold || one.Foretold
		sum.StallNs = max(sum.StallNs, one.StallNs)
		sum.Held, sum.Waits = sum.Held || one.Held, sum.Waits || one.Waits
		sum.Why = cmp.Or(sum.Why, one.Why)
	}
	return sum
}

// addKinds adds up memory by its kinds.
func addKinds(sum, more []*xserverv1.MemoryKind) []*xserverv1.MemoryKind {
	for _, k := range more {
		if i := slices.IndexFunc(sum, func(s *xserverv1.MemoryKind) bool { return s.Name == k.Name }); i >= 0 {
			sum[i].Bytes += k.Bytes
		} else {
			sum = append(sum, k)
		}
	}
	return sum
}

// memoryWhy says why a process's memory stays where it is, or part of it.
func memoryWhy(p plane.ProcessMemoryState) string {
	switch s := p.View.State; {
	case s&board.MemoryLate != 0:
		return "it had allocated before the daemon answered"
	case s&board.MemoryUnable != 0:
		return "the driver has no virtual memory management"
	case s&board.MemoryActive == 0 && p.View.Pinned > 0:
		return "its library does not manage memory"
	case p.View.Pinned > 0 && p.View.PinnedBy == [len(board.MemoryPinNames)]uint64{}:
		return "pinned: it was not allocated as device memory of a kind that can be moved"
	}
	return ""
}

// memoryReason says why a task is stopped by what is decided on memory.
func memoryReason(m *xserverv1.Memory) string {
	if m.Held {
		return "stopped while its memory moves"
	}
	return "waits for those beside which its memory does not fit"
}

// SetMemory changes how memory is managed, or what a task may allocate. All is checked
// before anything is changed.
func (v *service) SetMemory(ctx context.Context, req *xserverv1.SetMemoryRequest) (*xserverv1.SetMemoryResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	s := v.server
	if s.cfg.Memory == nil {
		return nil, status.Error(codes.FailedPrecondition, noBudget)
	}
	r := &xserverv1.SetMemoryResponse{}
	if req.Budget != nil || req.HostBudget != nil || req.Policy != nil {
		if !maySee(who, uint32(os.Geteuid())) {
			return nil, status.Errorf(codes.PermissionDenied, "how memory is managed holds for everyone: only uid %d and root change it", os.Geteuid())
		}
		if err := checkBytes("memory limit", req.Limit); err != nil {
			return nil, err
		}
		if err := s.changeMemory(req); err != nil {
			return nil, err
		}
	}
	if req.Limit != nil {
		if r.Task, err = s.setLimit(who, req); err != nil {
			return nil, err
		}
	} else if req.Pid != 0 || req.Task != 0 {
		return nil, client.Reject(codes.InvalidArgument, "memory limit", "", nil, "nothing to change for a task: name a limit")
	}
	s.managed.mu.Lock()
	now := s.managed.now
	s.managed.mu.Unlock()
	r.Budget, r.HostBudget, r.Policy = uint64(now.Budget), uint64(now.Host), now.Mode.String()
	return r, nil
}

// changeMemory changes how memory is managed.
func (s *Server) changeMemory(req *xserverv1.SetMemoryRequest) error {
	s.managed.mu.Lock()
	defer s.managed.mu.Unlock()
	m := s.managed.now
	for what, given := range map[string]*uint64{"memory budget": req.Budget, "host budget": req.HostBudget} {
		if err := checkBytes(what, given); err != nil {
			return err
		}
	}
	if req.Budget != nil {
		m.Budget = mem.Bytes(*req.Budget)
	}
	if req.HostBudget != nil {
		m.Host = mem.Bytes(*req.HostBudget)
	}
	if req.Policy != nil {
		mode, err := mem.ModeByName(*req.Policy)
		if err != nil {
			return client.Reject(codes.InvalidArgument, "memory policy", clean(*req.Policy, maxName), mem.Modes(), err.Error())
		}
		m.Mode = mode
	}
	err := s.loop.SetMemory(m.plane())
	var small *mem.BudgetError
	if errors.As(err, &small) {
		return client.Reject(codes.FailedPrecondition, "memory budget", small.Budget.String(), []string{small.Pinned.String() + " and more"}, small.Error())
	}
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	s.managed.now = m
	s.log.Info("memory changed", "budget", m.Budget, "host", m.Host, "policy", m.Mode)
	s.remember()
	return nil
}

// checkBytes refuses an amount that no machine has, and a budget in which nothing fits.
// 0 is another thing than an amount and is allowed.
func checkBytes(what string, given *uint64) error {
	if given == nil || *given == 0 || *given >= uint64(mem.Granularity) && *given <= uint64(mem.MaxBytes) {
		return nil
	}
	allowed := fmt.Sprintf("%s to %s", mem.Granularity, mem.MaxBytes)
	return client.Reject(codes.InvalidArgument, what, fmt.Sprint(*given), []string{allowed},
		fmt.Sprintf("%s of %d bytes is out of range: %s", what, *given, allowed))
}

// setLimit changes what a process may allocate, or all of a task and those to come. One
// below what it has allocated is refused.
func (s *Server) setLimit(who peer.Peer, req *xserverv1.SetMemoryRequest) (task uint64, err error) {
	if err := checkBytes("memory limit", req.Limit); err != nil {
		return 0, err
	}
	limit := mem.Bytes(*req.Limit)
	state, _, err := s.loop.DescribeMemory()
	if err != nil {
		return 0, status.Error(codes.Unavailable, err.Error())
	}
	has := map[plane.ProcessID]mem.Bytes{}
	for _, d := range state.Devices {
		for _, p := range d.Processes {
			has[p.Process] = max(has[p.Process], mem.Bytes(p.View.Allocated)+mem.Bytes(p.View.Pinned))
		}
	}
	s.steering.Lock()
	defer s.steering.Unlock()
	s.registry.mu.Lock()
	t, p, err := s.registry.target(who, req.Pid, req.Task)
	if err != nil {
		s.registry.mu.Unlock()
		return 0, err
	}
	meant := []*process{p}
	if p == nil {
		meant = t.processes
	}
	limits, notes := map[plane.ProcessID]mem.Bytes{}, map[journal.Key]memory{}
	for _, p := range meant {
		if b := has[p.id]; limit != 0 && limit < b {
			s.registry.mu.Unlock()
			return 0, client.Reject(codes.FailedPrecondition, "memory limit", limit.String(), []string{b.String() + " and more"},
				fmt.Sprintf("a limit of %s does not hold the %s that pid %d has allocated", limit, b, p.peer.PID))
		}
	}
	if p == nil {
		t.limit = &limit
	}
	for _, p := range meant {
		p.limit, p.limited = limit, true
		limits[p.id] = limit
		notes[p.key()] = p.memory()
	}
	id := t.id
	s.registry.mu.Unlock()
	if err := s.loop.SetLimits(limits); err != nil {
		return 0, status.Error(codes.Unavailable, err.Error())
	}
	s.note(notes)
	s.log.Info("memory limit changed", "task", id, "limit", limit, "by", who.String())
	return uint64(id), nil
}
