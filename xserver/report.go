package xserver

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xmsched/compute"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

// keepPast is how many tasks the registry remembers that have ended: a few more than
// the data plane does, as the two learn of an end one after the other.
const keepPast = 96

// pastTask is what is remembered of a task that has ended.
type pastTask struct {
	id           compute.TaskID
	uid          uint32
	name         string
	hints        compute.Hints
	began, ended time.Time
}

// bury remembers a task that has ended. Precondition: mu is held.
func (r *registry) bury(t *task) {
	if len(r.past) == keepPast {
		copy(r.past, r.past[1:])
		r.past = r.past[:keepPast-1]
	}
	r.past = append(r.past, pastTask{t.id, t.key.uid, t.name, t.hints, t.began, time.Now()})
}

// buried finds a task that has ended, of several with the same number the last.
// Precondition: mu is held.
func (r *registry) buried(id compute.TaskID) (pastTask, bool) {
	for i := len(r.past) - 1; i >= 0; i-- {
		if r.past[i].id == id {
			return r.past[i], true
		}
	}
	return pastTask{}, false
}

// Report lists what the caller may see, with what became of it.
func (v *service) Report(ctx context.Context, _ *xserverv1.ReportRequest) (*xserverv1.ReportResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := v.server.tasks(who)
	if err != nil {
		return nil, err
	}
	states, ended, err := v.server.accounts()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	of := map[uint64]plane.TaskState{}
	for _, s := range states {
		of[uint64(s.Task)] = s
	}
	for _, t := range tasks {
		if s, ok := of[t.Id]; ok {
			addAccount(t, s)
		}
	}
	return &xserverv1.ReportResponse{Tasks: tasks, Ended: v.server.ended(who, ended)}, nil
}

// ended are the tasks that ended lately, as far as the caller may see them.
func (s *Server) ended(who peer.Peer, states []plane.TaskState) (list []*xserverv1.Task) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for _, state := range states {
		p, ok := s.registry.buried(state.Task)
		if !ok || !maySee(who, p.uid) {
			continue
		}
		list = append(list, &xserverv1.Task{
			Id: uint64(p.id), Name: p.name, Uid: p.uid, Hints: wireHints(p.hints), Account: wireAccount(state),
			BeganUnixNs: unixNS(p.began), EndedUnixNs: unixNS(p.ended),
		})
	}
	return list
}

// accountsLife is how long a copy of the accounts serves reports.
const accountsLife = 100 * time.Millisecond

// accounts are what became of all tasks.
func (s *Server) accounts() (tasks, ended []plane.TaskState, err error) {
	s.accountsMu.Lock() // while the loop is asked: who comes meanwhile gets the same
	defer s.accountsMu.Unlock()
	if time.Since(s.accountsAt) < accountsLife {
		return s.accountsOf, s.accountsPast, nil
	}
	tasks, ended, err = s.loop.Accounts()
	if err == nil {
		s.accountsOf, s.accountsPast, s.accountsAt = tasks, ended, time.Now()
	}
	return tasks, ended, err
}

func addAccount(t *xserverv1.Task, s plane.TaskState) {
	t.Account = wireAccount(s)
	for _, d := range t.Devices {
		for _, share := range s.Shares {
			if string(share.Device) == d.Uuid {
				d.Shares, d.Outstanding = share.Permille, share.Outstanding
			}
		}
	}
}

func wireAccount(s plane.TaskState) *xserverv1.Account {
	return &xserverv1.Account{
		RunNs: uint64(s.Ran), WaitNs: uint64(s.Stopped), SwitchingNs: uint64(s.Lost), MemoryNs: uint64(s.Memory),
		Preempted: s.Taken, Preempting: s.Given,
		Requests: s.Requests.N, Latency: wireLatency(s.Requests), Recent: wireLatency(s.Recent),
		SloRequests: s.SLORequests, SloMet: s.SLOMet, DeadlinesMet: s.Met, DeadlinesMissed: s.Missed,
	}
}

func wireLatency(r plane.Requests) *xserverv1.Latency {
	return &xserverv1.Latency{
		Requests: r.N, P50Ns: uint64(r.P50), P90Ns: uint64(r.P90), P99Ns: uint64(r.P99),
		MaxNs: uint64(r.Max), SumNs: uint64(r.Sum), Within: r.Within[:],
	}
}

func unixNS(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}
