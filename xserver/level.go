package xserver

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xmsched/preempt/board"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

// offersLevel refuses Level 3 for a target that cannot have it on a device that it
// uses, by the names of both, with the reason and the next lower level that works.
// Where nothing is known yet nothing is refused: what is governed at a lower level
// later says so.
func (s *Server) offersLevel(level uint32, who peer.Peer, pid int32, id uint64) error {
	if level < 3 {
		return nil
	}
	state, _, err := s.describe()
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	s.registry.mu.Lock()
	t, p, err := s.registry.target(who, pid, id)
	meant := map[plane.ProcessID]bool{}
	if p != nil {
		meant[p.id] = true
	} else if t != nil {
		for _, p := range t.processes {
			meant[p.id] = true
		}
	}
	s.registry.mu.Unlock()
	if err != nil {
		return err
	}
	for _, p := range state.Processes {
		for _, l := range p.Levels {
			if meant[p.ID] && l.Max != 0 && l.Max < level {
				return s.lacks(level, l, state)
			}
		}
	}
	return nil
}

func (s *Server) lacks(level uint32, l plane.LevelState, state plane.State) error {
	name := string(l.Device)
	for _, seat := range state.Seats {
		if seat.Device == l.Device && seat.DeviceName != "" {
			name = clean(seat.DeviceName, maxName)
		}
	}
	return client.Reject(codes.FailedPrecondition, "level", levelText(level), client.Levels()[:l.Max+1],
		client.LevelAbsent(level, name, levelWhy(l), l.Max))
}

// levelWhy says why a process can have no higher level on a device; empty: it has
// the highest, or nobody knows.
func levelWhy(l plane.LevelState) string {
	switch {
	case l.Why != board.NothingInTheWay:
		return l.Why.String()
	default:
		return l.Offer
	}
}

// wireLevel is a process on one device, for the wire.
func wireLevel(l plane.LevelState) *xserverv1.ProcessDevice {
	return &xserverv1.ProcessDevice{
		Uuid: string(l.Device), Level: l.Level, LevelMax: l.Max, LevelWhy: levelWhy(l),
		Holds: l.Did.Holds, HoldNs: uint64(l.Did.HoldTime), ReleaseNs: uint64(l.Did.ReleaseTime),
	}
}

// wireDevice is a task on one device, for the wire.
func wireDevice(seat plane.SeatState) *xserverv1.Device {
	d := &xserverv1.Device{
		Uuid: string(seat.Device), Name: seat.DeviceName, Ready: seat.Ready, Open: seat.Open,
		Mode: seat.Mode.String(), Newcomer: seat.Newcomer, RunTimeNs: uint64(seat.RunTime),
		Launches: seat.Launches, WaitingThreads: uint32(seat.Waiting),
		StoppedNs: uint64(seat.Cost.Stopped), LostNs: uint64(seat.Cost.Lost),
		Held: seat.Order.Hold, SliceNs: uint64(seat.Order.Slice),
		Reason: seat.Order.Reason.String(), Regime: seat.Regime.String(),
	}
	if d.Memory = wireTaskMemory(seat.Memory); d.Memory.GetHeld() || d.Memory.GetWaits() {
		d.Held, d.Reason = d.Held || d.Memory.Held, memoryReason(d.Memory)
	}
	for level, c := range seat.Cost.Levels {
		if c != (plane.LevelCost{}) {
			d.Preemption = append(d.Preemption, &xserverv1.LevelCost{Level: uint32(level), Taken: c.Taken, Given: c.Given})
		}
	}
	return d
}
