package plane

import (
	"xmsched/compute"
	"xmsched/memory"
)

// ghost is what a process may have on a device of which nothing is seen any more: it
// left, or its agent ended, and it lives. Its memory is free when it is dead.
type ghost struct {
	device   compute.Device
	key      compute.TaskID
	resident memory.Bytes
	pinned   memory.Bytes
	number   uint32
	host     memory.Bytes // slots
}

// claim has the ghost keep what it has. It never takes note of anything.
func (g ghost) claim() memory.Claim {
	return memory.Claim{
		Task: g.key, Footprint: g.resident, Resident: g.resident, Pinned: g.pinned, Seen: g.number - 1,
	}
}

// Haunt removes a process that lives on and keeps its memory; see Bury. It says
// whether there is any.
func (p *Plane) Haunt(id ProcessID) bool {
	pr, ok := p.processes[id]
	if !ok || p.mem == nil {
		p.Remove(id)
		return false
	}
	var list []ghost
	for _, s := range pr.sections {
		if s == nil || s.seat.device.mem.planner == nil {
			continue
		}
		v, own := s.process.Board.MemoryView(s.index), s.seat.device.mem.own
		g := ghost{
			device: s.seat.device.id, key: s.mem.key, number: s.mem.number,
			pinned: memory.Bytes(v.Pinned) + own,
		}
		g.host = p.mem.host.believed(s)
		// What it may make by itself it may have made by now.
		g.resident = max(memory.Bytes(v.Resident), memory.Bytes(s.mem.stored.Target)) + g.pinned
		list = append(list, g)
	}
	p.Remove(id)
	if list != nil {
		p.mem.ghosts[id] = list
	}
	return list != nil
}

// Bury says that a process that was haunting is dead, or back.
func (p *Plane) Bury(id ProcessID) {
	if p.mem == nil {
		return
	}
	p.mem.host.touched = true
	for _, g := range p.mem.ghosts[id] {
		if d, ok := p.devices[g.device]; ok {
			p.consider(d)
		}
	}
	delete(p.mem.ghosts, id)
}
