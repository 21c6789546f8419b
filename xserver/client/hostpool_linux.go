package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxPoolSlots is how many descriptors go beside one line of a pool connection.
	MaxPoolSlots = 16
	// maxPoolLine is the most bytes of such a line, its end included.
	maxPoolLine = 1024
	// poolLimit is how long the daemon may take for an answer. Whoever asks waits for
	// host memory, of which 32 MiB take 7 ms to make (H200).
	poolLimit = 200 * time.Millisecond
)

// PoolRequest is a line of a client on a pool connection. Both sides wait for each
// other: the next one comes after the reply to the last.
type PoolRequest struct {
	Op     string `json:"op"` // PoolGive or PoolTake
	Device string `json:"device"`
	Bytes  uint64 `json:"bytes"` // of each slot
	// Slots is how many are given, whose descriptors come beside the line; or how many
	// are wanted at most.
	Slots int `json:"slots"`
}

// What can be asked of the pool.
const (
	PoolGive = "give"
	PoolTake = "take"
)

// PoolReply is the daemon's line to that. An error is its last word on the connection.
type PoolReply struct {
	// Slots is how many were kept; or how many come, as descriptors beside the line.
	Slots int    `json:"slots"`
	Error string `json:"error,omitempty"`
}

// HostPool is a connection by which host memory passes between the processes of a
// user: a slot that one has no use for is mapped by another, and not unpinned and
// pinned anew. The daemon keeps and passes descriptors, and looks into none.
//
// It may be used from any goroutine. Whatever goes wrong on the connection ends it:
// that call and all later ones return an error, and the caller makes host memory
// himself.
type HostPool struct {
	conn *net.UnixConn

	mu   sync.Mutex
	lost error // protected by mu: why there is no connection any more
}

// HostPool opens the connection of this registration; the daemon ends it with the
// registration. There may be one at a time: it is refused until the daemon has seen
// the end of the last. Without a deadline in ctx the daemon has 5 s to answer.
func (a *Attachment) HostPool(ctx context.Context) (*HostPool, error) {
	conn, err := dialUnix(ctx, filepath.Join(a.client.dir, BoardSocket))
	if err != nil {
		return nil, fmt.Errorf("host pool: %w", err)
	}
	if _, err := greet(ctx, conn, BoardRequest{Version: BoardProtocol, Pool: true, Session: a.session}, 0); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("host pool: %w", err)
	}
	return &HostPool{conn: conn}, nil
}

// Give offers slots of so many bytes each, a multiple of 2 MiB up to 1 GiB, that were
// made for a device. It returns how many the pool kept, the first ones of fds: another
// process may have them now. The descriptors stay the caller's, who closes them whatever
// comes. After an error the pool may have kept more than are returned.
func (h *HostPool) Give(device string, bytes uint64, fds []int) (taken int, err error) {
	for some := range slices.Chunk(fds, MaxPoolSlots) {
		n, _, err := h.ask(PoolRequest{Op: PoolGive, Device: device, Bytes: bytes, Slots: len(some)}, some)
		taken += n
		if err != nil || n < len(some) {
			return taken, err
		}
	}
	return taken, nil
}

// Take returns descriptors, close-on-exec, of up to most slots of exactly so many
// bytes each, the newest first; they are the caller's. There may be none. What was in a
// slot is still there, and whoever gave it, a process of the same user and namespaces,
// may have it mapped still. After an error nothing was taken.
func (h *HostPool) Take(device string, bytes uint64, most int) (fds []int, err error) {
	for len(fds) < most {
		want := min(most-len(fds), MaxPoolSlots)
		_, some, err := h.ask(PoolRequest{Op: PoolTake, Device: device, Bytes: bytes, Slots: want}, nil)
		if err != nil && len(fds) == 0 {
			return nil, err
		}
		fds = append(fds, some...)
		if err != nil || len(some) < want {
			break // an error comes again at the next call
		}
	}
	return fds, nil
}

// Close ends the connection, and a request that is under way.
func (h *HostPool) Close() error {
	err := hangUp(h.conn)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil {
		return nil
	}
	h.lost = fmt.Errorf("host pool: %w", net.ErrClosed)
	return err
}

// ask makes one request. An error ends the connection.
func (h *HostPool) ask(req PoolRequest, fds []int) (slots int, got []int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != nil {
		return 0, nil, h.lost
	}
	slots, got, err = h.exchange(req, fds)
	if err != nil {
		_ = hangUp(h.conn)
		h.lost = fmt.Errorf("host pool: %w", err)
		return 0, nil, h.lost
	}
	return slots, got, nil
}

// exchange says a line and hears the reply. Precondition: mu is held.
func (h *HostPool) exchange(req PoolRequest, fds []int) (int, []int, error) {
	if err := h.conn.SetDeadline(time.Now().Add(poolLimit)); err != nil {
		return 0, nil, err
	}
	line, err := json.Marshal(req)
	if err != nil {
		return 0, nil, err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := h.conn.WriteMsgUnix(append(line, '\n'), oob, nil); err != nil {
		return 0, nil, err
	}
	var reply PoolReply
	got, err := ReceivePoolLine(h.conn, &reply, 0)
	if err != nil {
		return 0, nil, err
	}
	beside := 0 // descriptors that are to come
	if req.Op == PoolTake {
		beside = reply.Slots
	}
	switch {
	case reply.Error != "":
		err = errors.New(reply.Error)
	case reply.Slots < 0 || reply.Slots > req.Slots || len(got) != beside:
		err = fmt.Errorf("asked to %s %d slots, the daemon says %d and sends %d", req.Op, req.Slots, reply.Slots, len(got))
	}
	if err != nil {
		closeDescriptors(got)
		return 0, nil, err
	}
	return reply.Slots, got, nil
}

// ReceivePoolLine reads one line of a pool connection, for either side, and the
// descriptors beside it, close-on-exec, which are the caller's. It waits for as long as
// the connection's deadline says, but once there is a part of the line no longer than
// patience for the rest; 0: that is the same. Errors, besides those of the connection:
// the line is too long, is followed by more, is no JSON, or has more than MaxPoolSlots
// beside it. After an error all that came is closed.
func ReceivePoolLine(conn *net.UnixConn, into any, patience time.Duration) (fds []int, err error) {
	defer func() {
		if err != nil {
			closeDescriptors(fds)
			fds = nil
		}
	}()
	buf, oob := make([]byte, maxPoolLine), make([]byte, unix.CmsgSpace(4*MaxPoolSlots))
	for n := 0; ; {
		m, oobn, flags, _, err := conn.ReadMsgUnix(buf[n:], oob)
		if err != nil {
			return fds, err
		}
		some, err := rights(oob[:oobn])
		fds = append(fds, some...)
		if err != nil {
			return fds, err
		}
		if flags&unix.MSG_CTRUNC != 0 || len(fds) > MaxPoolSlots {
			return fds, fmt.Errorf("more than %d descriptors beside a line, or more than this process may have", MaxPoolSlots)
		}
		if m == 0 {
			return fds, io.ErrUnexpectedEOF
		}
		first := n == 0
		n += m
		switch end := bytes.IndexByte(buf[:n], '\n'); {
		case end == n-1:
			return fds, json.Unmarshal(buf[:end], into)
		case end >= 0:
			return fds, errors.New("more than a line before the reply to it")
		case n == len(buf):
			return fds, fmt.Errorf("a line of more than %d bytes", maxPoolLine)
		}
		if first && patience > 0 {
			if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
				return fds, err
			}
		}
	}
}

func closeDescriptors(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// hangUp ends a connection also where a child of this process has a copy of its descriptor.
func hangUp(c *net.UnixConn) error {
	_ = c.CloseRead()
	_ = c.CloseWrite()
	return c.Close()
}
