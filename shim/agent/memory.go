package agent

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"xmsched/memory"
	"xmsched/nvx/mover"
	"xmsched/preempt/board"
	"xmsched/xserver/client"

	"golang.org/x/sys/unix"
)

// A device's section appears when the program first uses the device. It is looked
// for after firstLook, then twice that, up to lastLook: what has to move before that
// waits.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = time.Second
)

// journal writes a line for each move, with the process that it is of. What cannot be
// written is lost.
func journal(to io.Writer) func(mover.Entry) {
	if to == nil {
		return nil
	}
	var mu sync.Mutex // guards the encoder: devices move at once
	lines := json.NewEncoder(to)
	pid := os.Getpid()
	return func(e mover.Entry) {
		mu.Lock()
		defer mu.Unlock()
		_ = lines.Encode(struct {
			PID int `json:"pid"`
			mover.Entry
		}{pid, e})
	}
}

// moveMemory moves the process's memory as the daemon behind the board asks, until
// ctx ends.
func (a *Agent) moveMemory(ctx context.Context, view *board.Board, at *client.Attachment) {
	var served [board.Devices]bool
	pool := poolOf(ctx, at)
	defer pool.close()
	var sections sync.WaitGroup
	defer sections.Wait()
	for pause := firstLook; ctx.Err() == nil; pause = min(2*pause, lastLook) {
		for i := range served {
			if served[i] || !view.Present(i) {
				continue
			}
			served[i] = true
			sections.Add(1)
			a.goQuietly(func() {
				defer sections.Done()
				lines := memoryLines{view, view.Device(i), i, int(at.Bell.Fd())}
				a.engine.Serve(ctx, i, lines, slotsOf{pool, view.Identity(i).UUID.String()})
			})
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// memoryLines are a device's lines for memory, and what of its others the mover
// looks at.
type memoryLines struct {
	board  *board.Board
	device board.Device
	index  int
	bell   int
}

func (l memoryLines) Orders() (uint32, mover.Orders) {
	want, m := l.device.Memory()
	return want, mover.Orders{
		Managed: m.Flags&board.MemoryManaged != 0,
		Drained: m.Flags&board.MemoryDrained != 0,
		Prepare: m.Flags&board.MemoryPrepare != 0,
		Gentle:  m.Flags&board.MemoryGentle != 0,
		Turn:    m.Turn,
		Target:  memory.Clamp(m.Target, memory.MaxBytes),
		Host:    memory.Clamp(m.Host, memory.MaxBytes),
	}
}

func (l memoryLines) WaitOrders(old uint32, limit time.Duration) { _ = l.device.WaitMemory(old, limit) }
func (l memoryLines) Holds() uint32                              { return l.device.DidWish() }
func (l memoryLines) WaitHolds(old uint32, limit time.Duration)  { _ = l.device.WaitDidWish(old, limit) }

func (l memoryLines) Wake() {
	l.device.WakeMemory()
	l.device.WakeDidWish()
}

func (l memoryLines) Figures() mover.Figures {
	v := l.board.MemoryView(l.index)
	return mover.Figures{Resident: memory.Bytes(v.Resident), Host: memory.Bytes(v.Host)}
}

func (l memoryLines) Open() bool                  { return l.device.Gate().Open() }
func (l memoryLines) Done(want uint32)            { l.device.SetMemoryDid(want) }
func (l memoryLines) Stalled(total time.Duration) { l.device.SetMemoryStall(total) }

func (l memoryLines) Foreseen(working, exchange memory.Bytes) {
	l.device.SetMemoryForeseen(uint64(working), uint64(exchange))
}

func (l memoryLines) Clean(hashed, spared, wrong memory.Bytes) {
	l.device.SetMemoryClean(board.CleanBytes{Hashed: uint64(hashed), Spared: uint64(spared), Wrong: uint64(wrong)})
}

func (l memoryLines) Ring() {
	one := [8]byte{0: 1}
	_, _ = unix.Write(l.bell, one[:])
}
