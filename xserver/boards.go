package xserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/preempt/board"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

// A client of the board socket has handshakeLimit to say its line, and only
// maxHandshakes of them may be at it. When the daemon ends they have partingLimit to
// be gone.
const (
	handshakeLimit = 2 * time.Second
	maxHandshakes  = 128
	partingLimit   = 5 * time.Second
)

// serveBoards hands out boards, and passes host memory on, until the socket is closed.
func (s *Server) serveBoards() error {
	var open sync.WaitGroup
	serving, stop := context.WithCancel(s.ending)
	defer s.pool.close()
	defer func() {
		stop()
		if !endsWithin(&open, partingLimit) {
			s.log.Warn("a client's descriptor does not let itself be closed")
		}
	}()
	slots := make(chan struct{}, maxHandshakes)
	for {
		conn, err := s.boards.AcceptUnix()
		if err != nil {
			if s.ending.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ECONNABORTED) {
				time.Sleep(10 * time.Millisecond) // some will be closed
				continue
			}
			return err
		}
		slots <- struct{}{}
		open.Go(func() {
			defer conn.Close()
			pooling, err := s.handOver(conn)
			if err != nil {
				s.log.Debug("refused on the board socket", "why", err)
				refuse(conn, err)
			}
			<-slots
			if pooling != nil {
				pooling.serve(serving, conn)
			}
		})
	}
}

// endsWithin waits for goroutines that have been told to end, but not for ever: a file
// system of a client's own may hold up whoever closes a descriptor of its.
func endsWithin(open *sync.WaitGroup, limit time.Duration) bool {
	gone := make(chan struct{})
	go func() { open.Wait(); close(gone) }()
	select {
	case <-gone:
		return true
	case <-time.After(limit):
		return false
	}
}

// handOver trades a ticket for a board. The connection is kept by the loop in a
// duplicate; its end is the client's. Of one to the host pool it gives what serves it.
func (s *Server) handOver(conn *net.UnixConn) (*poolClient, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return nil, err
	}
	who, err := peer.Of(conn)
	if err != nil {
		return nil, err
	}
	if !serves(who.UID) {
		return nil, fmt.Errorf("this daemon does not serve uid %d", who.UID)
	}
	req, err := readRequest(conn)
	if err != nil {
		return nil, err
	}
	if req.Pool {
		return s.enterPool(conn, who, req.Session)
	}
	p, err := s.registry.redeem(req.Ticket, who, time.Now())
	if err != nil {
		return nil, err
	}
	if err := s.attach(conn, p); err != nil {
		s.registry.remove(p.id)
		return nil, err
	}
	return nil, nil
}

func readRequest(conn *net.UnixConn) (req client.BoardRequest, err error) {
	line, err := bufio.NewReaderSize(conn, 1024).ReadSlice('\n')
	if err != nil {
		return req, fmt.Errorf("read the first line: %w", err)
	}
	if err := json.Unmarshal(line, &req); err != nil {
		return req, fmt.Errorf("read the first line: %w", err)
	}
	if req.Version != client.BoardProtocol {
		return req, fmt.Errorf("version %d of the board socket's lines: this daemon speaks %d", req.Version, client.BoardProtocol)
	}
	return req, nil
}

// attach makes a board, hands it to the client and to the loop.
func (s *Server) attach(conn *net.UnixConn, p *process) (err error) {
	a := plane.Attachment{PID: p.peer.PID, Bell: -1, Death: -1, Socket: -1}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if a.Board, err = board.Create(p.nonce, s.epoch); err != nil {
		return err
	}
	if a.Bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if a.Death, err = peer.Pidfd(conn, p.peer); err != nil {
		return err
	}
	if a.Socket, err = duplicate(conn); err != nil {
		return err
	}
	// The loop first: the client finds a daemon that knows it.
	shared := int(a.Board.File().Fd())
	bell, err := unix.FcntlInt(uintptr(a.Bell), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	defer unix.Close(bell)
	memory, err := unix.FcntlInt(uintptr(shared), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	defer unix.Close(memory)
	if err := a.Board.CloseFile(); err != nil {
		return err
	}
	if err := s.addToLoop(p, &a); err != nil {
		return err
	}
	s.forgetState()
	s.attachedOne(p.key())
	a = plane.Attachment{Bell: -1, Death: -1, Socket: -1} // the loop's now
	if err := send(conn, client.BoardReply{Version: client.BoardProtocol}, memory, bell); err != nil {
		_ = s.loop.Remove(p.id)
		return err
	}
	return nil
}

// addToLoop hands a process to the loop with what is wanted of it now.
func (s *Server) addToLoop(p *process, a *plane.Attachment) error {
	s.steering.Lock()
	defer s.steering.Unlock()
	a.Process = s.registry.wire(p, a.Board)
	return s.loop.Add(*a)
}

// wire is what the loop is told of a process.
func (r *registry) wire(p *process, b *board.Board) plane.Process {
	hints, settings := r.wanted(p)
	w := plane.Process{ID: p.id, Task: p.task.id, Hints: hints, Board: b, Settings: settings, Limit: r.limitOf(p)}
	if owner, err := ownerOf(p.peer); err == nil {
		w.HostOf = fmt.Sprint(owner)
	}
	return w
}

func duplicate(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	dup := -1
	var derr error
	if err := raw.Control(func(fd uintptr) { dup, derr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return -1, err
	}
	return dup, os.NewSyscallError("fcntl", derr)
}

// send says a line, a reply of either kind, with descriptors beside it.
func send(conn *net.UnixConn, reply any, fds ...int) error {
	line, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err = conn.WriteMsgUnix(append(line, '\n'), oob, nil)
	return err
}

// refuse tells a client why it gets no board, if it still listens.
func refuse(conn *net.UnixConn, why error) {
	_ = send(conn, client.BoardReply{Version: client.BoardProtocol, Error: why.Error()})
}
