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
	mem "xmsched/memory"
	"xmsched/preempt/board"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/journal"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
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
	a.memory, a.recalled = s.recallMemory(a.key())
	p, replaced, err := s.registry.register(a, time.Now())
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	if m, steered := s.registry.memoryOf(p); steered {
		s.note(map[journal.Key]memory{p.key(): m}) // it may be the first to come back
	}
	s.takeWindow(p)
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
	settings, err := settingsOf(req)
	if err != nil {
		return application{}, err
	}
	hints := startHints(req)
	if err := hints.Validate(); err != nil {
		return application{}, rejectHint(err)
	}
	a := application{
		peer: who, nonce: req.Nonce, name: clean(req.Name, maxName), token: req.TaskToken,
		hints: hints, settings: settings, limit: mem.Bytes(req.MemoryLimit),
		previousTask: compute.TaskID(req.PreviousTask),
	}
	if err := checkBytes("memory limit", &req.MemoryLimit); err != nil {
		return application{}, err
	}
	if a.name == "" {
		a.name = clean(peer.Name(who.PID), maxName)
	}
	if len(a.token) > 64 {
		return application{}, client.Reject(codes.InvalidArgument, "task token", "", nil, "a task token has at most 64 bytes")
	}
	return a, nil
}

// settingsOf reads and checks what a process wants to be governed by.
func settingsOf(req *xserverv1.RegisterRequest) (plane.Settings, error) {
	text := req.Level
	if text == "" {
		text = "auto"
	}
	level, err := parseLevel(text)
	if err != nil {
		return plane.Settings{}, err
	}
	var c change
	if req.Threshold != 0 {
		c.threshold = &req.Threshold
	}
	if req.Batch != 0 {
		c.batch = &req.Batch
	}
	s := c.apply(plane.Settings{Level: level})
	return s, c.check(s)
}

// duration is one of the wire, too long ones as the longest.
func duration(ns uint64) time.Duration { return client.Duration(ns) }

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
		h, settings := v.server.registry.wanted(p)
		if err := stream.Send(&xserverv1.SessionResponse{Hints: wireHints(h), Settings: wireSettings(settings)}); err != nil {
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
