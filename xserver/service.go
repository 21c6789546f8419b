package xserver

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xmsched/compute"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

// service answers the control plane's requests.
type service struct {
	xserverv1.UnimplementedXServerServiceServer
	server *Server
}

// GetPolicy tells the policy and those that there are.
func (v *service) GetPolicy(context.Context, *xserverv1.GetPolicyRequest) (*xserverv1.GetPolicyResponse, error) {
	r := &xserverv1.GetPolicyResponse{Policy: v.server.policyName(), Allowed: compute.PolicyNames()}
	for _, p := range compute.Policies() {
		traits := p.Traits()
		r.Policies = append(r.Policies, &xserverv1.PolicyInfo{Name: p.Name(), Summary: traits.Summary, Hints: traits.Hints})
	}
	return r, nil
}

// SetPolicy changes the policy of all devices.
func (v *service) SetPolicy(ctx context.Context, req *xserverv1.SetPolicyRequest) (*xserverv1.SetPolicyResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if !maySee(who, uint32(os.Geteuid())) {
		return nil, status.Errorf(codes.PermissionDenied, "the policy holds for everyone: only uid %d and root change it", os.Geteuid())
	}
	p, err := compute.PolicyByName(req.Policy)
	if err != nil {
		return nil, client.Reject(codes.InvalidArgument, "policy", req.Policy, compute.PolicyNames(),
			fmt.Sprintf("unknown policy %q; %s", clean(req.Policy, maxName), client.Allowed(compute.PolicyNames())))
	}
	if err := v.server.setPolicy(p); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &xserverv1.SetPolicyResponse{Policy: p.Name()}, nil
}

// ListTasks lists what the caller may see.
func (v *service) ListTasks(ctx context.Context, _ *xserverv1.ListTasksRequest) (*xserverv1.ListTasksResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := v.server.tasks(who)
	return &xserverv1.ListTasksResponse{Tasks: tasks}, err
}

// Watch lists again and again.
func (v *service) Watch(req *xserverv1.WatchRequest, stream grpc.ServerStreamingServer[xserverv1.WatchResponse]) error {
	who, err := callerOf(stream.Context())
	if err != nil {
		return err
	}
	interval := time.Second
	if req.IntervalMs > 0 {
		interval = max(time.Duration(req.IntervalMs)*time.Millisecond, 100*time.Millisecond)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		tasks, err := v.server.tasks(who)
		if err != nil {
			return err
		}
		if err := stream.Send(&xserverv1.WatchResponse{Tasks: tasks}); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-v.server.ending.Done():
			return status.Error(codes.Unavailable, "the daemon is going down")
		}
	}
}

// GetStatus tells how the daemon is.
func (v *service) GetStatus(ctx context.Context, _ *xserverv1.GetStatusRequest) (*xserverv1.GetStatusResponse, error) {
	s := v.server
	state, turns, err := s.describe()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	seen := map[compute.TaskID]bool{}
	for _, p := range state.Processes {
		seen[p.Task] = true
	}
	return &xserverv1.GetStatusResponse{
		Version: s.cfg.Version, Pid: int32(os.Getpid()), Uid: uint32(os.Geteuid()), Directory: s.dir.Path(),
		Policy: s.policyName(), UptimeNs: uint64(time.Since(s.start)),
		Tasks: uint32(len(seen)), Processes: uint32(len(state.Processes)), Devices: uint32(state.Devices),
		Edges: state.Stats.Edges, Grants: state.Stats.Grants, Wishes: state.Stats.Wishes, Offers: s.offers.list(state),
		DecisionP50Ns: uint64(turns.P50), DecisionP99Ns: uint64(turns.P99), DecisionMaxNs: uint64(turns.Max),
		IdleAfterNs: uint64(s.cfg.IdleAfter), MemoryManaged: s.cfg.Memory != nil && s.managed.sizes(),
	}, nil
}

// tasks puts together what the planes know, for one caller.
func (s *Server) tasks(who peer.Peer) ([]*xserverv1.Task, error) {
	state, _, err := s.describe()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	var list []*xserverv1.Task
	byID := map[compute.TaskID]*xserverv1.Task{}
	for _, p := range state.Processes {
		reg := s.registry.processes[p.ID]
		if reg == nil || !maySee(who, reg.peer.UID) {
			continue
		}
		t := byID[p.Task]
		if t == nil {
			t = &xserverv1.Task{
				Id: uint64(p.Task), Name: reg.task.name, Uid: reg.peer.UID,
				Hints: wireHints(reg.task.hints), BeganUnixNs: unixNS(reg.task.began),
			}
			byID[p.Task] = t
			list = append(list, t)
		}
		t.Processes = append(t.Processes, wireProcess(reg, p))
	}
	for _, seat := range state.Seats {
		if t := byID[seat.Task]; t != nil {
			t.Devices = append(t.Devices, wireDevice(seat))
		}
	}
	slices.SortFunc(list, func(a, b *xserverv1.Task) int { return cmp.Compare(a.Id, b.Id) })
	for _, t := range list {
		slices.SortFunc(t.Processes, func(a, b *xserverv1.Process) int { return cmp.Compare(a.Pid, b.Pid) })
	}
	return list, nil
}

func wireProcess(reg *process, p plane.ProcessState) *xserverv1.Process {
	w := &xserverv1.Process{
		Pid: int32(reg.peer.PID), Name: reg.name, StartTime: reg.peer.StartTime, Stopped: p.Stopped,
		Uncovered: slices.Clone(reg.uncovered), UncoveredCount: max(p.Uncovered, uint32(len(reg.uncovered))),
		QueuesOver: p.QueuesOver, OpenedByLease: p.OpenedByLease, Throttled: p.Throttled,
		Settings: settingsInForce(reg.settings, p.Levels),
	}
	for _, l := range p.Levels {
		w.Devices = append(w.Devices, wireLevel(l))
	}
	return w
}
