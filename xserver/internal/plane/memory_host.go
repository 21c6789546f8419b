package plane

import "xmsched/memory"

// hostRoom is how much of the host moved memory may take.
type hostRoom struct {
	limit memory.Bytes
	by    memory.HostLimit // what bounds it
	known bool             // false: nothing bounds it
	used  memory.Bytes     // at the last look
	users int              // sections then
}

// hostGrain keeps clients from being woken by every small change of the host.
const hostGrain = 256 * memory.MiB

// SetHost tells how much of the host moved memory may take in all, and what bounds
// it; and how much single processes may take, of whose cgroup less is left.
func (p *Plane) SetHost(limit memory.Bytes, by memory.HostLimit, of map[ProcessID]memory.Bytes) {
	if p.mem == nil {
		return
	}
	h := &p.mem.host
	h.limit, h.by, h.known = limit, by, true
	for _, pr := range p.processes {
		most, bounded := of[pr.ID]
		pr.host = hostPart{most, bounded}
	}
	p.considerAll()
}

// hostPart is what one process may take of the host.
type hostPart struct {
	most    memory.Bytes
	bounded bool
}

// look counts what is used, and returns what may still be taken, less what was asked
// of those on other devices than d and is not done yet.
func (h *hostRoom) look(processes map[ProcessID]*process, d *device) (room memory.Bytes) {
	h.used, h.users = 0, 0
	going := memory.Bytes(0)
	for _, pr := range processes {
		for _, s := range pr.sections {
			if s == nil {
				continue
			}
			h.users++
			h.used += h.has(s)
			if s.seat.device != d && s.mem.view.Resident > s.mem.stored.Target {
				going += memory.Bytes(s.mem.view.Resident - s.mem.stored.Target)
			}
		}
	}
	if !h.known {
		return memory.MaxBytes
	}
	return h.limit - h.used - going
}

// has is what a section has of the host, by its client's word, as far as it was allowed
// that: one that claims more keeps others from nothing.
func (h *hostRoom) has(s *section) memory.Bytes {
	most := memory.Bytes(s.mem.stored.Host)
	if most == 0 {
		most = memory.MaxBytes
		if h.known {
			most = h.limit
		}
	}
	return min(memory.Bytes(s.mem.view.Host), most)
}

// takes is how much a section may still take of the host, of a room that is left.
func (s *section) takes(room memory.Bytes) memory.Bytes {
	if part := s.process.host; part.bounded {
		used := memory.Bytes(0)
		for _, other := range s.process.sections {
			if other != nil {
				used += min(memory.Bytes(other.mem.view.Host), part.most)
			}
		}
		room = min(room, part.most-used)
	}
	return max(0, room)
}

// share is what a section's client may have on the host: what it has and what is left
// for it. 0: no bound.
func (h *hostRoom) share(s *section) uint64 {
	if !h.known && !s.process.host.bounded {
		return 0
	}
	room := memory.MaxBytes
	if h.known {
		// All but what the others may take before they are answered again, so that one
		// finds what there is; an even part where that is more.
		left, others := h.limit-h.used, memory.Bytes(max(1, h.users)-1)
		room = max(left-others*hostGrain, left/(others+1))
	}
	has := h.has(s)
	part := max(s.takes(room), s.mem.going)
	before := memory.Bytes(s.mem.stored.Host)
	if before > has && before-has <= part && part-(before-has) < hostGrain {
		return uint64(before)
	}
	return uint64(max(1, has+part.Down()))
}
