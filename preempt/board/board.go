// Package board is the page that the daemon and one client process share: gate
// words and bounds one way, readiness and queue counters the other way.
//
// It is a leaf: bytes, atomic loads and stores, futex calls, and nothing that
// decides. The daemon makes a board (Create), the client adopts it (Open);
// both then use the accessors of their own side.
//
// The model:
//   - a board is a sealed memfd of fixed size, so that no mapping of it can be
//     made to fault by the other side;
//   - every line is written by one side only; a reader copies once, checks and
//     clamps, because the other side may be old, stopped or hostile;
//   - the daemon never reads back what it wrote: the client can scribble over
//     the whole page, and harms itself alone.
//
// Concurrency: accessors are atomic and may be used from any goroutine; Close
// may not run beside them.
package board

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"xmsched/preempt/board/internal/layout"
)

//go:generate go run ./generate -out ../../shim/cuda/preload/gen/board.h

// Dimensions of a board, and the version of its layout.
const (
	Version = layout.Version
	Size    = layout.Size    // bytes
	Devices = layout.Devices // device sections
	Slots   = layout.Slots   // queue slots; slot 0 is shared by the queues beyond the last
)

// ErrNotBoard says that a file is not a board this version can use: a wrong
// seal, size, magic or version.
var ErrNotBoard = errors.New("not a board")

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Board is one mapped board.
type Board struct {
	file *os.File
	mem  []byte
	page *layout.Board
}

// Create makes a board for one session: nonce names the session, epoch the
// daemon's start. The caller hands File to the client and may close it then.
func Create(nonce, epoch uint64) (*Board, error) {
	fd, err := unix.MemfdCreate("xmsched-board", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create board: %w", err)
	}
	file := os.NewFile(uintptr(fd), "xmsched-board")
	b, err := build(file, nonce, epoch)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("create board: %w", err)
	}
	return b, nil
}

func build(file *os.File, nonce, epoch uint64) (*Board, error) {
	if err := file.Truncate(Size); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	b, err := mapped(file)
	if err != nil {
		return nil, err
	}
	h := &b.page.Daemon
	h.Version, h.Size, h.Slots, h.Devices = layout.Version, Size, Slots, Devices
	h.Epoch, h.Nonce = epoch, nonce
	atomic.StoreUint32(&h.Magic, layout.Magic)
	b.touch()
	return b, nil
}

// Open adopts the board behind fd, which it owns from now on, also when it
// fails. A file that is not a board of this version gives ErrNotBoard.
func Open(fd int) (*Board, error) {
	file := os.NewFile(uintptr(fd), "xmsched-board")
	if file == nil {
		return nil, fmt.Errorf("open board: %w", os.ErrInvalid)
	}
	b, err := adopt(file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("open board: %w", err)
	}
	return b, nil
}

func adopt(file *os.File) (*Board, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != Size {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrNotBoard, info.Size(), Size)
	}
	have, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || have&seals != seals {
		return nil, fmt.Errorf("%w: its size is not sealed", ErrNotBoard)
	}
	b, err := mapped(file)
	if err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		_ = unix.Munmap(b.mem)
		return nil, err
	}
	return b, nil
}

// check compares the header with what this version expects.
func (b *Board) check() error {
	h := &b.page.Daemon
	if m := atomic.LoadUint32(&h.Magic); m != layout.Magic {
		return fmt.Errorf("%w: magic %#x", ErrNotBoard, m)
	}
	if h.Version != layout.Version {
		return fmt.Errorf("%w: version %d, want %d", ErrNotBoard, h.Version, layout.Version)
	}
	if h.Size != Size || h.Slots != Slots || h.Devices != Devices {
		return fmt.Errorf("%w: %d bytes, %d slots, %d devices", ErrNotBoard, h.Size, h.Slots, h.Devices)
	}
	return nil
}

// File is the board's memfd, to be passed to the other side.
func (b *Board) File() *os.File { return b.file }

// CloseFile gives the descriptor back and keeps the mapping.
func (b *Board) CloseFile() error { return b.file.Close() }

// Close unmaps the board and closes its file. No accessor may run any more.
func (b *Board) Close() error {
	err := unix.Munmap(b.mem)
	b.mem, b.page = nil, nil
	if cerr := b.file.Close(); cerr != nil && !errors.Is(cerr, os.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}

// Epoch is the random number of the daemon's start.
func (b *Board) Epoch() uint64 { return b.page.Daemon.Epoch }

// Nonce is the session that the board was made for.
func (b *Board) Nonce() uint64 { return b.page.Daemon.Nonce }

// BeatDaemon moves the daemon's heartbeat on; every 200 ms.
func (b *Board) BeatDaemon() { atomic.AddUint64(&b.page.Daemon.Heartbeat, 1) }

// DaemonBeat is the daemon's heartbeat as the client sees it.
func (b *Board) DaemonBeat() uint64 { return atomic.LoadUint64(&b.page.Daemon.Heartbeat) }

// BeatClient moves the client's heartbeat on; each second.
func (b *Board) BeatClient() { atomic.AddUint64(&b.page.Client.Heartbeat, 1) }

// SetLeaving tells the daemon that the process is going away.
func (b *Board) SetLeaving() { atomic.StoreUint32(&b.page.Client.State, 1) }

// SetUncovered tells how many distinct calls are not covered.
func (b *Board) SetUncovered(n uint32) { atomic.StoreUint32(&b.page.Client.Uncovered, n) }

// SetQueuesOver tells how many queues share slot 0.
func (b *Board) SetQueuesOver(n uint32) { atomic.StoreUint32(&b.page.Client.QueuesOver, n) }
