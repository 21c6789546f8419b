package plane

import (
	"cmp"
	"time"

	"xmsched/compute"
	"xmsched/memory"
	"xmsched/preempt/board"
)

// movement is the books of what a process moved.
type movement struct {
	hidden  memory.Bytes  // came in while it was not its turn
	seen    memory.Bytes  // came in while it was
	in, out memory.Bytes  // of what was timed
	inTime  time.Duration // that it took
	outTime time.Duration
	at      time.Duration // last look at which something had moved
}

// movingGap is the longest time between two looks in which something is taken to have
// moved all the time. A batch of 128 MiB takes 3 ms, and on a busy machine its bell
// comes late.
const movingGap = 20 * time.Millisecond

// take books what moved between two looks. The figures are the client's: one that
// counts backwards counts as nothing.
func (b *movement) take(before, after board.MemoryView, now time.Duration, turn bool) {
	in, out := moved(before.In, after.In), moved(before.Out, after.Out)
	if in == 0 && out == 0 {
		return
	}
	if turn {
		b.seen += in
	} else {
		b.hidden += in
	}
	if took := now - b.at; took > 0 && took <= movingGap {
		if in > 0 {
			b.in, b.inTime = b.in+in, b.inTime+took
		}
		if out > 0 {
			b.out, b.outTime = b.out+out, b.outTime+took
		}
	}
	b.at = now
}

func moved(before, after uint64) memory.Bytes {
	if after < before {
		return 0
	}
	return memory.Clamp(after-before, memory.TiB)
}

// rate is bytes a second; 0: nothing was timed.
func rate(b memory.Bytes, in time.Duration) memory.Rate {
	if in <= 0 {
		return 0
	}
	return memory.Rate(float64(b) / in.Seconds())
}

// MemoryState is the memory of all devices, for listings.
type MemoryState struct {
	Mode    memory.Mode
	Awaits  bool // processes of before a restart may still come back
	Devices []DeviceMemoryState
	Host    HostState
}

// DeviceMemoryState is that of a device.
type DeviceMemoryState struct {
	Device    compute.Device
	Name      string
	Managed   bool         // false: the card is not known, and a budget is not given
	Budget    memory.Bytes // that all tasks together may have
	Link      memory.Rate  // that times are worked out from
	Card      memory.Bytes // 0: not known
	DriverOwn memory.Bytes // of all processes, counted for an automatic budget
	Committed memory.Bytes // sum of what the tasks may have and have
	Over      memory.Bytes // by which what is pinned exceeds the budget
	Short     bool         // they want more than there is
	Gone      memory.Bytes // of processes that left and live on
	HostShort bool         // evictions stand still, as the host has no room
	Processes []ProcessMemoryState
}

// ProcessMemoryState is a process on a device.
type ProcessMemoryState struct {
	Process ProcessID
	Task    compute.TaskID
	View    board.MemoryView // the client's word
	Limit   memory.Bytes     // 0: none
	Aim     memory.Bytes     // managed memory that it may have on the device
	Target  memory.Target    // the planner's word, pinned memory included
	Working memory.Bytes     // what its next turn touches

	HostPart memory.Bytes  // that its slots may take of the host; 0: no bound
	Held     bool          // stopped for its memory
	Waits    bool          // another of those that do not fit together has its shift
	Quantum  time.Duration // length of its turns; 0: the policy's own

	In, Out memory.Rate // while it moved; 0: nothing was timed
	Hidden  float64     // part of what came in that came while it was not its turn, 0 to 1
}

// HostState is the host's.
type HostState struct {
	Known bool // false: nothing bounds it
	Limit memory.Bytes
	By    memory.HostLimit
	Used  memory.Bytes // holds what is nowhere else
	Pool  memory.Bytes // that and what is kept: free slots, and clean copies
	Kept  memory.Bytes // clean copies of what is on a device
	Gone  memory.Bytes // of processes that left and live on
}

// DescribeMemory copies the state of memory; false: it is not managed.
func (p *Plane) DescribeMemory() (out MemoryState, managed bool) {
	k := p.mem
	if k == nil {
		return out, false
	}
	out.Mode, out.Awaits = k.cfg.Mode, k.awaits
	k.host.look(p, nil)
	out.Host = HostState{
		Known: k.host.known, Limit: k.host.limit, By: k.host.by,
		Used: k.host.firm, Pool: k.host.slots, Kept: k.host.kept, Gone: k.host.gone,
	}
	for _, d := range p.list {
		m := d.mem
		s := DeviceMemoryState{Device: d.id, Name: d.name, Card: k.cards[d.id].Bytes, Link: m.link.rate()}
		if m.planner != nil {
			s.Managed, s.Budget = true, m.planner.Config().Budget
			s.Committed, s.Over, s.Short = m.decided.Committed, m.decided.Over, m.short
			s.HostShort = m.evicting
		}
		for _, st := range d.seats {
			for _, sec := range st.sections {
				s.DriverOwn += m.own
				s.Processes = append(s.Processes, sec.describeMemory())
			}
		}
		for _, list := range k.ghosts {
			for _, g := range list {
				if g.device == d.id {
					s.Gone += g.resident
				}
			}
		}
		out.Devices = append(out.Devices, s)
	}
	return out, true
}

func (s *section) describeMemory() ProcessMemoryState {
	m, b := s.mem, &s.mem.books
	out := ProcessMemoryState{
		Process: s.process.ID, Task: s.seat.id, View: m.view, Limit: m.limit, Aim: m.aim, Target: m.target,
		HostPart: m.host.part,
		Working:  memory.Bytes(cmp.Or(m.view.Working, m.view.Allocated)), Held: s.seat.memoryKeeps(), Waits: s.seat.mem.waits,
		Quantum: s.seat.mem.quantum, In: rate(b.in, b.inTime), Out: rate(b.out, b.outTime),
	}
	if all := b.hidden + b.seen; all > 0 {
		out.Hidden = float64(b.hidden) / float64(all)
	}
	return out
}
