package client

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/compute"
	"xmsched/preempt/board"
	xserverv1 "xmsched/xserver/api/v1"
)

// Registration is what a process says of itself. The zero value of a field
// leaves it to the daemon.
type Registration struct {
	// Nonce tells this program from others that had or will have its pid. Whoever
	// attaches again, after the daemon was restarted, gives the same one, by which
	// the daemon finds what was changed before. 0: drawn here, see Attachment.
	Nonce        uint64
	Name         string        // for listings
	TaskToken    string        // XMSCHED_TASK
	Priority     int           // -255 to 255, larger wins
	Quantum      time.Duration // length of a turn; 0: the policy's
	IdleAfter    time.Duration // without work for so long is idle; 0: the daemon's
	Hints        compute.Hints // all hints; the three above count where they are not 0
	Level        string        // "", "auto", "1" or "2"
	Threshold    int           // commands outstanding a queue while bounded
	Batch        int           // commands between completion writes while bounded
	PreviousTask uint64        // the task's id before the daemon was restarted
	MemoryLimit  uint64        // bytes that the process may allocate on a device; 0: what the card has
}

// hints are all that the process asks for.
func (r Registration) hints() compute.Hints {
	h := r.Hints
	h.Priority = cmp.Or(r.Priority, h.Priority)
	h.Quantum = cmp.Or(r.Quantum, h.Quantum)
	h.IdleAfter = cmp.Or(r.IdleAfter, h.IdleAfter)
	return h
}

// Attachment is a registered process with its board. It lasts until Close, the
// end of the process or that of the daemon.
type Attachment struct {
	Task  uint64
	Nonce uint64
	Board *os.File // the board's memfd
	Bell  *os.File // eventfd: 8 bytes written to it ring the daemon

	session uint64
	client  *Client
	conn    *net.UnixConn
}

// BoardRequest is the first line that a client sends on the board socket: for a
// board with its ticket, for the host pool with its session.
type BoardRequest struct {
	Version int    `json:"version"`
	Ticket  string `json:"ticket"`
	Pool    bool   `json:"pool,omitempty"`
	Session uint64 `json:"session,omitempty"`
}

// BoardReply is the daemon's line to that; without an error two descriptors come
// along with a board: it and the eventfd.
type BoardReply struct {
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
}

// BoardProtocol is the version of the board socket's lines.
const BoardProtocol = 1

// NewNonce draws a nonce.
func NewNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails on Linux
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// Attach registers the calling process and fetches its board.
func (c *Client) Attach(ctx context.Context, r Registration) (*Attachment, error) {
	if r.Nonce == 0 {
		r.Nonce = NewNonce()
	}
	reg, err := c.api.Register(ctx, &xserverv1.RegisterRequest{
		Nonce: r.Nonce, Name: r.Name, TaskToken: r.TaskToken,
		Hints: WireHints(r.hints()), Level: r.Level,
		Threshold: uint32(max(r.Threshold, 0)), Batch: uint32(max(r.Batch, 0)),
		BoardVersion: board.Version, PreviousTask: r.PreviousTask, MemoryLimit: r.MemoryLimit,
	})
	if err != nil {
		return nil, fromStatus(c.dir, err)
	}
	a := &Attachment{Task: reg.Task, Nonce: r.Nonce, session: reg.Session, client: c}
	if err := a.fetch(ctx, filepath.Join(c.dir, BoardSocket), reg.Ticket); err != nil {
		return nil, fmt.Errorf("fetch board: %w", err)
	}
	return a, nil
}

// fetch trades the ticket for the two descriptors.
func (a *Attachment) fetch(ctx context.Context, path, ticket string) error {
	conn, err := dialUnix(ctx, path)
	if err != nil {
		return err
	}
	files, err := greet(ctx, conn, BoardRequest{Version: BoardProtocol, Ticket: ticket}, 2)
	if err != nil {
		_ = conn.Close()
		return err
	}
	a.Board, a.Bell, a.conn = files[0], files[1], conn
	return nil
}

// greet says the first line, and gives the descriptors that come with the answer.
func greet(ctx context.Context, conn *net.UnixConn, req BoardRequest, want int) ([]*os.File, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(5 * time.Second)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	line, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	reply, files, err := readReply(conn)
	if err != nil {
		return nil, err
	}
	switch {
	case reply.Error != "":
		err = errors.New(reply.Error)
	case len(files) != want:
		err = fmt.Errorf("the daemon sent %d descriptors, not %d", len(files), want)
	default:
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

// readReply reads one line and the descriptors that came with its first byte.
func readReply(conn *net.UnixConn) (BoardReply, []*os.File, error) {
	var reply BoardReply
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return reply, nil, err
	}
	files, err := descriptors(oob[:oobn])
	if err != nil {
		return reply, nil, err
	}
	line := buf[:n]
	if n > 0 && line[n-1] != '\n' {
		rest, err := bufio.NewReaderSize(conn, 4096).ReadSlice('\n')
		if err != nil {
			closeAll(files)
			return reply, nil, err
		}
		line = append(line, rest...)
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		closeAll(files)
		return reply, nil, err
	}
	return reply, files, nil
}

// descriptors takes descriptors out of control data. The net package receives
// them close-on-exec.
func descriptors(oob []byte) ([]*os.File, error) {
	fds, err := rights(oob)
	var files []*os.File
	for _, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), "xmsched"))
	}
	return files, err
}

// rights are the numbers of those descriptors.
func rights(oob []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		if some, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, some...)
		}
	}
	return fds, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Map opens a Go view of the board, which the caller closes. It is for programs
// that play a client themselves; the preload library maps its own.
func (a *Attachment) Map() (*board.Board, error) {
	fd, err := unix.FcntlInt(a.Board.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return board.Open(fd)
}

// Ring rings the daemon after an edge on the board.
func (a *Attachment) Ring() error {
	one := [8]byte{0: 1}
	_, err := unix.Write(int(a.Bell.Fd()), one[:])
	return os.NewSyscallError("write eventfd", err)
}

// Gone blocks until the daemon closes the connection, or Close.
func (a *Attachment) Gone() {
	var b [1]byte
	for {
		if _, err := a.conn.Read(b[:]); err != nil {
			return
		}
	}
}

// Close ends the registration and closes the descriptors that are still here.
func (a *Attachment) Close() error {
	err := a.conn.Close()
	for _, f := range []*os.File{a.Board, a.Bell} {
		if cerr := f.Close(); cerr != nil && !errors.Is(cerr, os.ErrClosed) {
			err = errors.Join(err, cerr)
		}
	}
	return err
}

// Session is the stream beside a registration: news to the daemon,
// configuration to the process. It ends with its context.
type Session struct {
	stream xserverv1.XServerService_SessionClient
	id     uint64
	dir    string
}

// OpenSession opens the stream of the registration.
func (a *Attachment) OpenSession(ctx context.Context) (*Session, error) {
	stream, err := a.client.api.Session(ctx)
	if err != nil {
		return nil, fromStatus(a.client.dir, err)
	}
	s := &Session{stream: stream, id: a.session, dir: a.client.dir}
	return s, s.Report(nil)
}

// Report tells the daemon names of calls that are used and not covered.
func (s *Session) Report(uncovered []string) error {
	return fromStatus(s.dir, s.stream.Send(&xserverv1.SessionRequest{Session: s.id, Uncovered: uncovered}))
}

// Receive waits for configuration.
func (s *Session) Receive() (*xserverv1.SessionResponse, error) {
	r, err := s.stream.Recv()
	return r, fromStatus(s.dir, err)
}
