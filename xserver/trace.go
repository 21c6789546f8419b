package xserver

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xmsched/compute"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

const (
	// maxTracers bounds how many trace at a time: each costs the loop a few
	// microseconds every tracePause.
	maxTracers = 8
	tracePause = 50 * time.Millisecond
)

// Trace sends what is decided until the caller ends it. What is of other users' tasks
// is left out.
func (v *service) Trace(_ *xserverv1.TraceRequest, stream grpc.ServerStreamingServer[xserverv1.TraceResponse]) error {
	who, err := callerOf(stream.Context())
	if err != nil {
		return err
	}
	s := v.server
	select {
	case s.tracers <- struct{}{}:
		defer func() { <-s.tracers }()
	default:
		return status.Errorf(codes.ResourceExhausted, "%d trace already, which is the limit", maxTracers)
	}
	ticker := time.NewTicker(tracePause)
	defer ticker.Stop()
	wait := func() bool {
		select {
		case <-ticker.C:
			return true
		case <-stream.Context().Done():
		case <-s.ending.Done():
		}
		return false
	}
	seen := map[compute.TaskID]bool{}
	err = s.loop.Trace(wait, func(events []plane.TraceEvent, lost uint64) error {
		r := &xserverv1.TraceResponse{Lost: lost}
		for _, e := range events {
			if e.Task == 0 || s.mayTrace(who, e.Task, seen) {
				r.Events = append(r.Events, wireTrace(e))
			}
		}
		return stream.Send(r)
	})
	if err != nil {
		return err
	}
	if s.ending.Err() != nil {
		return status.Error(codes.Unavailable, "the daemon is going down")
	}
	return stream.Context().Err()
}

// mayTrace says whether a caller may see a task, and remembers it: numbers of tasks
// do not change hands.
func (s *Server) mayTrace(who peer.Peer, id compute.TaskID, seen map[compute.TaskID]bool) bool {
	if may, ok := seen[id]; ok {
		return may
	}
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	may := false
	if t := s.registry.tasks[id]; t != nil {
		may = maySee(who, t.key.uid)
	} else if p, ok := s.registry.buried(id); ok {
		may = maySee(who, p.uid)
	}
	seen[id] = may
	return may
}

func wireTrace(e plane.TraceEvent) *xserverv1.TraceEvent {
	w := &xserverv1.TraceEvent{AtNs: uint64(e.At), Task: uint64(e.Task), Device: string(e.Device), Policy: e.Policy}
	if e.Task != 0 {
		w.Ready, w.State, w.Reason = e.Ready, e.State.String(), e.Reason.String()
	}
	return w
}
