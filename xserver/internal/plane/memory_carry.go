package plane

import (
	"cmp"
	"slices"
	"time"

	"xmsched/compute"
	"xmsched/memory"
	"xmsched/preempt/board"
)

// carryMemory brings the boards to what was decided on memory. Holds and gates come
// from the seats' state; see wish and grantOf.
func (p *Plane) carryMemory() {
	// A gate may open once what was stored for it is answered, which is so at once
	// where nothing had been taken away: that takes another round.
	for range 2 {
		list := p.mem.changed
		p.mem.changed = p.mem.spare[:0]
		for _, st := range list {
			if len(st.sections) == 0 {
				continue // it left
			}
			if !st.fresh {
				p.carry(st)
				p.book(st)
			}
			for _, s := range st.sections {
				p.answer(s)
			}
		}
		clear(list)
		p.mem.spare = list
	}
}

// answer stores what a section's client may have, if that is not what is stored.
func (p *Plane) answer(s *section) {
	m := s.mem
	if s.seat.device.mem.planner == nil {
		return
	}
	next := board.Memory{
		Flags: board.MemoryManaged, Target: uint64(m.aim), Limit: uint64(m.limit), Total: uint64(m.limit),
		Host: uint64(m.host.part), Turn: s.expectedTurn(),
	}
	if s.drains() {
		next.Flags |= board.MemoryDrained
	}
	if s.seat.device.mem.near {
		next.Flags |= board.MemoryPrepare
		if p.mem.cfg.Mode == memory.Predict {
			next.Flags |= board.MemoryPredict
		}
	}
	if s.seat.device.led() {
		next.Flags |= board.MemoryGentle
	}
	if next == m.stored && m.word != 0 {
		return
	}
	d := s.process.Board.Device(s.index)
	if next.Target < m.stored.Target {
		if p.now-m.peakAt >= lateAllocations {
			m.peak = 0
		}
		m.peak, m.peakAt = max(m.peak, memory.Bytes(m.stored.Target)), p.now
	}
	undrained := m.stored.Flags&^next.Flags&board.MemoryDrained != 0
	m.stored = next
	m.word = d.SetMemory(m.word, next)
	p.mem.told = append(p.mem.told, d)
	if p.mem.look == 0 {
		p.mem.look = p.now + memoryLook
	}
	if undrained {
		// Whether it took anything away meanwhile is read after the flag was cleared.
		m.clearing = s.process.Board.MemoryView(s.index).State&board.MemoryGone != 0
		if m.clearing {
			s.seat.device.mem.unsettled = true
			p.regime++
		} else {
			p.mem.changed = append(p.mem.changed, s.seat)
		}
	}
}

// expectedTurn is how long the section's next turn is expected to be. A client is not
// woken by a small change of it.
func (s *section) expectedTurn() time.Duration {
	turn := cmp.Or(s.seat.task.turn, s.seat.task.hints.Quantum, s.unboundedTurn())
	if before := s.mem.stored.Turn; turn-before <= before/4 && before-turn <= before/4 {
		return before
	}
	return turn
}

// unboundedTurn is what counts as the turn of one to whom none is given, as it runs until it
// has no work: long enough to touch all that could come in meanwhile. With a short one the
// memory of a request that lasts longer would be taken for unused, leave the device between
// two requests, and be read from the host.
func (s *section) unboundedTurn() time.Duration {
	d := s.seat.device
	if len(d.seats) < 2 {
		return compute.DefaultQuantum
	}
	c := d.mem.planner.Config()
	return max(compute.DefaultQuantum, c.Link.Time(min(memory.Bytes(s.mem.view.Allocated), c.Budget)).Truncate(quantumGrain))
}

// led says whether somebody on the device comes before others, who are there.
func (d *device) led() bool {
	return len(d.seats) > 1 && slices.ContainsFunc(d.seats, func(st *seat) bool { return st.choice.Leads() })
}

// drains says whether a section's memory may be moved though its channels are not
// disabled: its gate is closed, which stays so until the client says that nothing of
// its memory is gone.
func (s *section) drains() bool {
	return s.seat.memoryKeeps() && s.level() < 3 && s.gate != 0 && !s.grant.Open
}

// mustDrain says whether a section's queues are to be short, so that they are empty
// soon after its gate is closed: what waits behind a gate has not ended, and nothing of
// its memory can be moved that it may touch.
func (s *section) mustDrain(level uint32) bool {
	return s.mem != nil && level < 3 && s.seat.device.mem.short && len(s.seat.device.seats) > 1
}

// mayOpen says whether a section's memory is no reason to keep its gate closed.
func (s *section) mayOpen() bool {
	return s.mem == nil || !s.mem.clearing && s.mem.stored.Flags&board.MemoryDrained == 0
}

// holdsAll says whether everything of a section has to stand still. Once it does it
// stays so until the task is let go as a whole: with copies let go alone it would
// have to have all its memory mapped again.
func (s *section) holdsAll() bool {
	if s.mem == nil || s.level() < 3 {
		return false
	}
	return s.seat.memoryKeeps() || s.asked.Hold == board.HoldAll && s.seat.order().Hold
}

// memoryStopped says whether a section's memory may be moved now.
func (s *section) memoryStopped() bool {
	if s.asked.Hold == board.HoldAll {
		return s.did.Held == board.HoldAll && s.did.Did == s.want
	}
	if s.mem.stored.Flags&board.MemoryDrained == 0 {
		return false
	}
	if !s.counted || s.mem.view.State&board.MemoryGone != 0 {
		return true
	}
	var sc scan
	sc.take(s.process.Board, 0)
	return !sc.shared && !sc.sections[s.index].outstanding
}

// wakeMemory wakes those who sleep on answers.
func (p *Plane) wakeMemory() {
	for _, d := range p.mem.told {
		d.WakeMemory()
	}
	p.mem.told = p.mem.told[:0]
}

// releaseMemory ends what the daemon keeps a client from, as it goes. One of whose
// memory something is away opens its gate itself when its lease runs out, after it
// has mapped that.
func (s *section) releaseMemory() (open bool) {
	m := s.mem
	if m.stored.Flags&board.MemoryDrained == 0 && !m.clearing {
		return true
	}
	d := s.process.Board.Device(s.index)
	m.stored.Flags &^= board.MemoryDrained
	m.word = d.SetMemory(m.word, m.stored)
	d.WakeMemory()
	return s.process.Board.MemoryView(s.index).State&board.MemoryGone == 0
}
