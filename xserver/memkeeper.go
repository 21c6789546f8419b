package xserver

import (
	"time"

	"xmsched/compute"
	mem "xmsched/memory"
	"xmsched/nvx/sheet"
	"xmsched/xserver/internal/plane"
)

const (
	// memoryTick is how often the keeper looks whether those that were there before a
	// restart are back.
	memoryTick = 100 * time.Millisecond
	// hostEvery is how often the host's memory is looked at. Between two looks clients
	// keep within what they were given at the last.
	hostEvery = time.Second
)

// keepMemory tells the data plane what it cannot find out itself: how much of the host
// moved memory may take, what cards have, and when all are back. It runs until the
// daemon ends.
func (s *Server) keepMemory() {
	if s.cfg.Memory == nil {
		return
	}
	tick := time.NewTicker(memoryTick)
	defer tick.Stop()
	for n := 0; s.ending.Err() == nil; n++ {
		over := s.managed.probeState() == probeOver
		if over || n%int(hostEvery/memoryTick) == 0 {
			s.tellHost()
			sheets := s.sheets()
			s.tellCards(sheets)
			s.tellLinks(sheets)
		}
		if over {
			s.managed.setProbe(noProbe)
		}
		s.awaitReturn()
		s.pool.expire(time.Now())
		select {
		case <-tick.C:
		case <-s.ending.Done():
		}
	}
}

// awaitReturn ends the waiting for those that were there before a restart, when all are
// back and have told what they have, or are dead, or have had their time.
func (s *Server) awaitReturn() {
	m := &s.managed
	if !m.awaits {
		return
	}
	m.mu.Lock()
	for key := range m.awaited {
		if !aliveKey(key) {
			delete(m.awaited, key)
		}
	}
	missing := len(m.awaited)
	m.mu.Unlock()
	over := time.Since(s.start) > returnLimit
	if missing == 0 && !over {
		told, err := s.loop.AllHaveTold()
		over = err == nil && told
	}
	if !over {
		return
	}
	m.awaits = false
	_ = s.loop.SetAwaited(false) // it ends when we do
	if missing > 0 {
		s.log.Warn("processes that had memory before the restart have not come back; what they have is not counted", "processes", missing)
	}
}

// tellHost reads how much of the host moved memory may take: in all, and for processes
// whose cgroup has less left.
func (s *Server) tellHost() {
	state, _, err := s.loop.DescribeMemory()
	if err != nil {
		return
	}
	available, known := s.managed.host.available()
	s.managed.mu.Lock()
	wanted := s.managed.now.Host
	s.managed.mu.Unlock()
	if !known {
		if wanted == 0 {
			return
		}
		available = mem.MaxBytes
	}
	limit, by := mem.HostBudget(mem.HostFigures{Wanted: wanted, Ours: state.Host.Pool + state.Host.Gone + s.pool.kept(), Available: available})
	_ = s.loop.SetHost(limit, by, s.cgroupParts(state)) // it ends when we do
	s.pool.setLimit(limit / poolShare)
}

// cgroupParts is what each process may have of the host by its cgroup, which its
// processes share evenly.
func (s *Server) cgroupParts(state plane.MemoryState) map[plane.ProcessID]mem.Bytes {
	s.registry.mu.Lock()
	pids := map[plane.ProcessID]int{}
	for id, p := range s.registry.processes {
		pids[id] = p.peer.PID
	}
	s.registry.mu.Unlock()
	have := map[plane.ProcessID]int{}
	for _, d := range state.Devices {
		for _, p := range d.Processes {
			if pid := pids[p.Process]; pid != 0 {
				have[p.Process] = pid
			}
		}
	}
	return evenly(s.managed.homes.of(have, s.managed.host.cgroup), s.managed.host.left)
}

// homes are the cgroups of processes, by what was read of them last. A process hardly
// ever moves to another: each is asked about at one look in homeLooks.
type homes struct {
	folders map[plane.ProcessID]string
	look    uint64
}

const homeLooks = 10

func (h *homes) of(pids map[plane.ProcessID]int, cgroup func(pid int) string) map[plane.ProcessID]string {
	folders := make(map[plane.ProcessID]string, len(pids))
	for id, pid := range pids {
		folder, known := h.folders[id]
		if !known || uint64(id)%homeLooks == h.look%homeLooks {
			folder = cgroup(pid)
		}
		folders[id] = folder
	}
	h.folders = folders
	h.look++
	return folders
}

// evenly divides what is left in cgroups among their processes. It asks once for each
// cgroup: that reads half a dozen files, and most processes are in one of few.
func evenly(folders map[plane.ProcessID]string, left func(folder string) (mem.Bytes, bool)) map[plane.ProcessID]mem.Bytes {
	members := map[string][]plane.ProcessID{}
	for id, folder := range folders {
		if folder != "" {
			members[folder] = append(members[folder], id)
		}
	}
	parts := map[plane.ProcessID]mem.Bytes{}
	for folder, ids := range members {
		n, bounded := left(folder)
		if !bounded {
			continue
		}
		for _, id := range ids {
			parts[id] = n / mem.Bytes(len(ids))
		}
	}
	return parts
}

// sheets are the spec sheets that can be read.
func (s *Server) sheets() []*sheet.Sheet {
	if s.cfg.Sheets.Dir == "" {
		return nil
	}
	list, _ := sheet.List(s.cfg.Sheets.Dir)
	return list
}

// tellCards tells what cards have by their spec sheets, where the budget is to follow
// from that.
func (s *Server) tellCards(sheets []*sheet.Sheet) {
	s.managed.mu.Lock()
	auto := s.managed.now.Budget == 0
	s.managed.mu.Unlock()
	if !auto {
		return
	}
	cards := map[compute.Device]plane.Card{}
	for _, sh := range sheets {
		if s.managed.cards[sh.Device.UUID] || sh.Device.MemoryBytes == 0 {
			continue
		}
		c := plane.Card{Bytes: mem.Clamp(sh.Device.MemoryBytes, mem.MaxBytes), Own: contextBytes}
		if sh.Measured != nil && sh.Measured.Second != nil {
			c.Own = 2 * mem.Clamp(sh.Measured.Second.MemoryBytes, 8*mem.GiB)
		}
		// A small card's driver takes less than an H200's; and what was measured has in
		// it what another program allocated meanwhile.
		c.Own = min(c.Own, c.Bytes/8)
		cards[compute.Device(sh.Device.UUID)] = c
	}
	if len(cards) == 0 || s.loop.SetCards(cards) != nil {
		return
	}
	if s.managed.cards == nil {
		s.managed.cards = map[string]bool{}
	}
	s.managed.mu.Lock()
	s.managed.sized = true
	s.managed.mu.Unlock()
	for id, c := range cards {
		s.managed.cards[string(id)] = true
		s.log.Info("memory", "device", id, "card", c.Bytes, "budget", mem.DeviceBudget(c.Bytes, 0), "of it to each process", c.Own)
	}
}

// contextBytes is what the driver takes for a process that has a context of its own
// and one by which its memory is moved, where that was not measured (H200: 526 MiB
// each).
const contextBytes = 2 * 526 * mem.MiB
