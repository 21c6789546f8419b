package xserver

import (
	"time"

	"xmsched/compute"
	"xmsched/xserver/internal/peer"
)

// cpuPriorityEvery is how often is looked at the processes' priorities at the
// processor: nobody tells of a change.
const cpuPriorityEvery = 250 * time.Millisecond

// keepCPUPriorities tells the data plane the processes' priorities as long as the
// policy goes by them. /proc is read here, far from any decision.
func (s *Server) keepCPUPriorities() {
	ticker := time.NewTicker(cpuPriorityEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.ending.Done():
			return
		}
		if s.byCPU(nil) {
			s.tellCPUPriorities()
		}
	}
}

// byCPU says whether a policy, nil for the present one, goes by the processor's
// priorities.
func (s *Server) byCPU(p compute.Policy) bool {
	if p == nil {
		s.mu.Lock()
		p = s.policy
		s.mu.Unlock()
	}
	return p.Traits().ByCPU
}

// tellCPUPriorities looks at all processes once. A task has the highest of its
// processes' priorities.
func (s *Server) tellCPUPriorities() {
	pids := map[int]compute.TaskID{}
	s.registry.mu.Lock()
	for _, p := range s.registry.processes {
		if p.peer.PID > 0 {
			pids[p.peer.PID] = p.task.id
		}
	}
	s.registry.mu.Unlock()
	of := map[compute.TaskID]int{}
	for pid, id := range pids {
		priority, err := peer.CPUPriority(pid)
		if err != nil {
			continue // it is gone
		}
		if have, ok := of[id]; !ok || priority > have {
			of[id] = priority
		}
	}
	_ = s.loop.SetCPUPriorities(of) // on its way down: nothing to tell
}
