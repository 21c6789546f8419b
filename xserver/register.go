package xserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xmsched/compute"
	"xmsched/preempt/board"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

// What a process gets that asks for nothing, and how far it may go.
const (
	defaultThreshold = 16
	defaultBatch     = 8
	maxThreshold     = 4096
)

// Levels of preemption, as users write them.
var (
	allowedLevels = []string{"auto", "1"}
	missingLevels = map[string]string{"2": "deactivate", "3": "interrupt"}
)

// Register takes a process in.
func (v *service) Register(ctx context.Context, req *xserverv1.RegisterRequest) (*xserverv1.RegisterResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	a, err := apply(who, req)
	if err != nil {
		return nil, err
	}
	s := v.server
	p := &process{peer: who, nonce: a.nonce}
	if h, ok := s.recallHints(p.key()); ok {
		a.hints = h
	}
	p, replaced, err := s.registry.register(a, time.Now())
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	for _, id := range replaced {
		_ = s.loop.Remove(id) // on its way down: nothing to remove
	}
	return &xserverv1.RegisterResponse{Ticket: p.ticket, Task: uint64(p.task.id), Session: uint64(p.id)}, nil
}

// apply checks a request.
func apply(who peer.Peer, req *xserverv1.RegisterRequest) (application, error) {
	if req.BoardVersion != board.Version {
		return application{}, client.Reject(codes.FailedPrecondition, "board version", strconv.Itoa(int(req.BoardVersion)), []string{strconv.Itoa(board.Version)},
			fmt.Sprintf("the client's library uses version %d of the board, this daemon version %d: install the same build of both", req.BoardVersion, board.Version))
	}
	level, err := level(req.Level)
	if err != nil {
		return application{}, err
	}
	hints := compute.Hints{Priority: int(req.Priority)}
	if err := hints.Validate(); err != nil {
		return application{}, rejectHint(err)
	}
	a := application{
		peer: who, nonce: req.Nonce, name: clean(req.Name, maxName), token: req.TaskToken,
		hints: hints, level: level, threshold: req.Threshold, batch: req.Batch,
		previousTask: compute.TaskID(req.PreviousTask),
	}
	if a.name == "" {
		a.name = clean(peer.Name(who.PID), maxName)
	}
	if len(a.token) > 64 {
		return application{}, client.Reject(codes.InvalidArgument, "task token", "", nil, "a task token has at most 64 bytes")
	}
	return a, bounds(&a)
}

// bounds fills in and checks threshold and batch. A batch longer than the
// threshold would wait for a completion that nobody writes.
func bounds(a *application) error {
	if a.threshold == 0 {
		a.threshold = defaultThreshold
	}
	if a.batch == 0 {
		a.batch = min(defaultBatch, a.threshold)
	}
	if a.threshold > maxThreshold {
		allowed := fmt.Sprintf("1 to %d", maxThreshold)
		return client.Reject(codes.InvalidArgument, "threshold", strconv.Itoa(int(a.threshold)), []string{allowed},
			fmt.Sprintf("threshold %d is out of range: %s", a.threshold, allowed))
	}
	if a.batch > a.threshold {
		allowed := fmt.Sprintf("1 to %d", a.threshold)
		return client.Reject(codes.InvalidArgument, "batch", strconv.Itoa(int(a.batch)), []string{allowed},
			fmt.Sprintf("batch %d is out of range: %s, the threshold", a.batch, allowed))
	}
	return nil
}

// level reads a level. One that exists and is not built is refused by name,
// never imitated.
func level(text string) (uint32, error) {
	switch text {
	case "", "auto", "1":
		return 1, nil
	}
	if name, ok := missingLevels[text]; ok {
		return 0, client.Reject(codes.Unimplemented, "level", text, allowedLevels,
			fmt.Sprintf("level %s (%s) is not available on NVIDIA GPUs in this version; %s", text, name, client.Allowed(allowedLevels)))
	}
	return 0, client.Reject(codes.InvalidArgument, "level", text, allowedLevels,
		fmt.Sprintf("unknown level %q; %s", clean(text, maxName), client.Allowed(allowedLevels)))
}

// Session takes news of a process in and sends it its configuration.
func (v *service) Session(stream grpc.BidiStreamingServer[xserverv1.SessionRequest, xserverv1.SessionResponse]) error {
	who, err := callerOf(stream.Context())
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	p := v.server.registry.session(plane.ProcessID(first.Session), who)
	if p == nil {
		return status.Error(codes.NotFound, "no such registration of this process")
	}
	v.server.registry.addUncovered(p, first.Uncovered)
	received := make(chan error, 1)
	go func() { // ends with the stream, which ends with this handler
		received <- v.receive(stream, p)
	}()
	for {
		h := v.server.registry.hints(p)
		if err := stream.Send(&xserverv1.SessionResponse{Hints: wireHints(h)}); err != nil {
			return err
		}
		select {
		case <-p.news:
		case err := <-received:
			return err
		case <-p.gone:
			return status.Error(codes.Aborted, "the registration has ended")
		case <-v.server.ending.Done():
			return status.Error(codes.Unavailable, "the daemon is going down")
		}
	}
}

func (v *service) receive(stream grpc.BidiStreamingServer[xserverv1.SessionRequest, xserverv1.SessionResponse], p *process) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		v.server.registry.addUncovered(p, req.Uncovered)
	}
}
