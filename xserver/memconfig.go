package xserver

import (
	"sync"
	"time"

	"xmsched/compute"
	mem "xmsched/memory"
	"xmsched/xserver/internal/journal"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

// ManagedMemory says how the memory of the devices is managed.
type ManagedMemory struct {
	// Budget is what all tasks together may have on each device, the granularity to
	// memory.MaxBytes. 0: what the card has room for, by its spec sheet; until there is
	// one nothing is managed there.
	Budget mem.Bytes
	// Host is what moved memory may take of the host; 0: as much as is sound, which
	// bounds a larger one as well.
	Host mem.Bytes
	// Mode is how memory is planned.
	Mode mem.Mode
}

// words are the settings as the journal has them.
func (m ManagedMemory) words() journal.MemorySettings {
	return journal.MemorySettings{Budget: uint64(m.Budget), Host: uint64(m.Host), Policy: m.Mode.String()}
}

// managedFrom reads what a daemon wrote; false: none did.
func managedFrom(w journal.MemorySettings) (m ManagedMemory, ok bool) {
	mode, err := mem.ModeByName(w.Policy)
	m = ManagedMemory{Budget: mem.Clamp(w.Budget, mem.MaxBytes), Host: mem.Clamp(w.Host, mem.MaxBytes), Mode: mode}
	return m, err == nil && m.words() == w
}

func (m ManagedMemory) plane() plane.Memory { return plane.Memory{Budget: m.Budget, Mode: m.Mode} }

// returnLimit is how long those that were attached before a restart are waited for: an
// agent tries once a second, and says that it lives once its library has told the board
// what the process has.
const returnLimit = 5 * time.Second

// managed is the control plane's part of memory. A server whose configuration has none
// has an empty one, and nobody asks it.
type managed struct {
	mu      sync.Mutex
	now     ManagedMemory        // protected by mu
	awaited map[journal.Key]bool // protected by mu: attached before the restart, and not back
	sized   bool                 // protected by mu: some card is known
	probe   probeState           // protected by mu
	awaits  bool                 // the data plane was told to wait; the keeper's
	cards   map[string]bool      // devices whose card is known; the keeper's
	// What links carry, by their sheets and as the data plane knows it; the keeper's.
	sheetLinks, links map[compute.Device]mem.Rate
	host              hostFiles
	homes             homes // of the clients; the keeper's
}

// probeState is whether a card may yet become known by a probe.
type probeState uint8

const (
	noProbe   probeState = iota
	probing              // one is to come, or under way
	probeOver            // what it found was not looked at yet
)

// sizes says whether programs that start now are to ask for their memory's management:
// under an automatic budget nobody has it before a card was probed, but who starts
// meanwhile may well allocate when that is over.
func (m *managed) sizes() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Budget > 0 || m.sized || m.probe != noProbe
}

// setProbe notes how it stands with a probe: one state comes after another, and another
// probe may begin at any time.
func (m *managed) setProbe(now probeState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now == probing || now == (m.probe+1)%(probeOver+1) {
		m.probe = now
	}
}

func (m *managed) probeState() probeState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.probe
}

// aliveKey says whether the process of a key lives.
func aliveKey(key journal.Key) bool {
	return key.PID > 0 && key.Start != 0 && peer.Peer{PID: key.PID, StartTime: key.Start}.Alive()
}

// recallMemorySettings takes in what the journal has of memory. What was changed while
// a daemon ran holds if this one was started with the same flags.
func (s *Server) recallMemorySettings(r journal.Record) {
	if s.cfg.Memory == nil {
		return
	}
	s.managed.now, s.managed.host = *s.cfg.Memory, hostFiles{root: "/"}
	if r.Memory != nil && r.Memory.Started == s.cfg.Memory.words() {
		if m, ok := managedFrom(r.Memory.Now); ok {
			s.managed.now = m
		}
	}
	s.managed.awaited = map[journal.Key]bool{}
	for _, key := range r.Attached {
		if aliveKey(key) {
			s.managed.awaited[key] = true
		}
	}
	s.managed.awaits = len(s.managed.awaited) > 0
}

// planeMemory is what the data plane starts with; nil: memory is not managed.
func (s *Server) planeMemory() *plane.Memory {
	if s.cfg.Memory == nil {
		return nil
	}
	m := s.managed.now.plane()
	return &m
}

// newPlane makes the data plane.
func (s *Server) newPlane() *plane.Plane {
	p := plane.New(plane.Config{IdleAfter: s.cfg.IdleAfter, Spin: s.cfg.Spin, Memory: s.planeMemory()}, s.policy)
	p.SetAwaited(s.managed.awaits)
	return p
}

// noteMemory adds to a record what is to be remembered of memory.
func (s *Server) noteMemory(r *journal.Record) {
	if s.cfg.Memory == nil {
		return
	}
	s.managed.mu.Lock()
	now := s.managed.now
	s.managed.mu.Unlock()
	if now != *s.cfg.Memory {
		r.Memory = &journal.Memory{Started: s.cfg.Memory.words(), Now: now.words()}
	}
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for _, p := range s.registry.processes {
		if p.ticket == "" && p.peer.PID != 0 {
			r.Attached = append(r.Attached, p.key())
		}
	}
}

// attachedOne takes in that a process has its board, or that it is gone: who is there
// is remembered, as their memory counts before they have told of it after a restart.
func (s *Server) attachedOne(key journal.Key) {
	if s.cfg.Memory == nil {
		return
	}
	s.managed.mu.Lock()
	delete(s.managed.awaited, key)
	s.managed.mu.Unlock()
	s.rememberAttached()
}

// rememberAttached has it remembered who is attached, where that matters.
func (s *Server) rememberAttached() {
	if s.cfg.Memory != nil {
		s.remember()
	}
}
