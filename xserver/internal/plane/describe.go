package plane

import (
	"time"

	"xmsched/compute"
	"xmsched/nvx/choose"
	"xmsched/preempt/board"
)

// SeatState is a task on a device, for listings.
type SeatState struct {
	Task       compute.TaskID
	Device     compute.Device
	DeviceName string
	Ready      bool
	Open       bool
	Mode       compute.Mode
	Newcomer   bool
	RunTime    time.Duration
	Launches   uint64
	Waiting    int // threads

	Order  choose.Order  // what is done with it
	Regime choose.Regime // of the device
	Cost   Cost          // of preemption

	Memory []ProcessMemoryState // of its processes; nil: memory is not managed
}

// ProcessState is a process, for listings.
type ProcessState struct {
	ID            ProcessID
	Task          compute.TaskID
	Stopped       bool
	Throttled     bool
	Uncovered     uint32
	QueuesOver    uint32
	OpenedByLease uint32
	Levels        []LevelState // by section
}

// State is a copy of everything that listings show.
type State struct {
	Policy    string
	Seats     []SeatState
	Processes []ProcessState
	Devices   int
	Stats     Stats
}

// Describe copies the state.
func (p *Plane) Describe() State {
	out := State{Policy: p.sched.Policy().Name(), Devices: len(p.devices), Stats: p.stats}
	finished := map[ProcessID][board.Devices]uint64{}
	for id, pr := range p.processes {
		finished[id] = finishedCommands(pr.Board)
	}
	for _, ts := range p.sched.State() {
		st := p.seat(compute.Grant{Task: ts.Task, Device: ts.Device})
		if st == nil {
			continue
		}
		s := SeatState{
			Task: ts.Task, Device: ts.Device, DeviceName: st.device.name,
			Ready: st.ready > 0, Open: st.runs() && st.hold == 0, Mode: st.mode,
			Newcomer: st.hold != 0, RunTime: ts.RunTime,
			Order: st.order(), Regime: st.device.chooser.Regime(), Cost: p.costs(st),
		}
		for _, sec := range st.sections {
			v := sec.process.Board.Snapshot(sec.index)
			s.Launches += max(v.Launches, finished[sec.process.ID][sec.index])
			s.Waiting += v.Waiting
			if sec.mem != nil {
				s.Memory = append(s.Memory, sec.describeMemory())
			}
		}
		out.Seats = append(out.Seats, s)
	}
	for id, pr := range p.processes {
		h := pr.Board.Health()
		ps := ProcessState{
			ID: id, Task: pr.Task, Stopped: pr.stopped, Throttled: pr.flood.throttled,
			Uncovered: h.Uncovered, QueuesOver: h.QueuesOver,
		}
		for _, sec := range pr.sections {
			if sec == nil {
				continue
			}
			v := pr.Board.Snapshot(sec.index)
			ps.OpenedByLease += v.OpenedByLease
			ps.Levels = append(ps.Levels, LevelState{
				Device: sec.seat.device.id, Level: sec.grant.Level, Max: sec.levelMax(), Why: v.LevelWhy,
				Offer: sec.offerWhy(), Did: sec.did,
			})
		}
		out.Processes = append(out.Processes, ps)
	}
	return out
}

// finishedCommands counts by section what the queues of a process say is complete.
// A client tells its launches when it passes through a slow path, which one that
// launches little may not do for long; what it waited for stands in the slots.
func finishedCommands(b *board.Board) (n [board.Devices]uint64) {
	eachSlot(b, func(v board.SlotView) { n[v.Device] += max(v.Synced, v.Completed) })
	return n
}
