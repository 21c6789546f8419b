package workloads

import (
	"errors"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/preempt/board"
)

// MemoryWatch is the program that sees memory move from outside: it reads the boards
// of other processes and notes every change of where their memory is. Nobody waits
// for it.
type MemoryWatch struct {
	Pids []int
	UUID string // of the device
}

// Move is what was seen of one process at one time, in bytes.
type Move struct {
	Who      int    `json:"who"` // index of the process
	AtNS     int64  `json:"at_ns"`
	Target   uint64 `json:"target"` // that may be on the device
	Resident uint64 `json:"resident"`
	In       uint64 `json:"in"` // moved so far
	Out      uint64 `json:"out"`
	Open     bool   `json:"open"` // its gate is
}

// Bounds of the watching.
const (
	mostWatched = 16
	mostMoves   = 200_000
	watchEvery  = 50 * time.Microsecond // by so much a change may be noted late
)

// Validate says what is wrong with the settings.
func (w MemoryWatch) Validate() error {
	if _, err := parseUUID(w.UUID); err != nil {
		return err
	}
	if err := limit.Check("processes", len(w.Pids), 1, mostWatched); err != nil {
		return err
	}
	for _, pid := range w.Pids {
		if err := limit.Check("pid", pid, 2, 1<<30); err != nil {
			return err
		}
	}
	return nil
}

// watched is one process.
type watched struct {
	board   *board.Board
	device  board.Device
	section int
	last    Move
}

// RunMemoryWatch watches until it is told to end.
func RunMemoryWatch(st Steering, say *Speaker, w MemoryWatch) error {
	if err := w.Validate(); err != nil {
		return err
	}
	var all []*watched
	defer func() {
		for _, p := range all {
			_ = p.board.Close()
		}
	}()
	for _, pid := range w.Pids {
		b, err := boardOf(pid)
		if err != nil {
			return err
		}
		p := &watched{board: b}
		all = append(all, p)
		if p.device, p.section, err = sectionOf(b, w.UUID); err != nil {
			return err
		}
	}
	if err := say.Say(Event{Kind: KindReady}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	var moves []Move
	for st.Context.Err() == nil {
		for i, p := range all {
			if now, changed := p.look(i); changed {
				moves = append(moves, now)
			}
		}
		if len(moves) > mostMoves {
			return errors.New("memory changed its place more often than can be noted")
		}
		time.Sleep(watchEvery)
	}
	return say.Say(Event{Kind: KindResult, Moves: moves})
}

// look reads a board and says whether something of it is new.
func (p *watched) look(who int) (Move, bool) {
	_, word := p.device.Memory()
	v := p.board.MemoryView(p.section)
	now := Move{Who: who, Target: word.Target, Resident: v.Resident - v.Loading, In: v.In, Out: v.Out, Open: p.device.Gate().Open()}
	if now == p.last {
		return now, false
	}
	p.last = now
	now.AtNS = MonotonicNS()
	return now, true
}
