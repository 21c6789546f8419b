package xserver

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"xmsched/compute"
	mem "xmsched/memory"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/journal"
	"xmsched/xserver/internal/plane"
)

// memory is what was changed for a process while it ran, and its hints.
type memory struct {
	hints    compute.Hints
	settings *plane.Settings // nil: its own
	later    change          // of the settings of processes that its task gets
	limit    *mem.Bytes      // of its memory; nil: its own
}

// entry is a memory as the journal has it.
func (m memory) entry(key journal.Key) journal.Entry {
	e := journal.Entry{
		Key: key, Hints: spellHints(m.hints),
	}
	if m.limit != nil {
		limit := uint64(*m.limit)
		e.Limit = &limit
	}
	if s := m.settings; s != nil {
		e.Settings = &journal.Settings{Level: levelText(s.Level), Threshold: s.Threshold, Batch: s.Batch}
	}
	if !m.later.empty() {
		e.Later = &journal.Settings{}
		if m.later.level != nil {
			e.Later.Level = levelText(*m.later.level)
		}
		if m.later.threshold != nil {
			e.Later.Threshold = *m.later.threshold
		}
		if m.later.batch != nil {
			e.Later.Batch = *m.later.batch
		}
	}
	return e
}

// recalled reads an entry. One that holds what nobody could have asked for is
// not a daemon's, and good for nothing.
func recalled(e journal.Entry) (memory, bool) {
	var m memory
	for name, text := range e.Hints {
		hint, ok := compute.HintByName(name)
		if !ok || hint.Parse(text, &m.hints) != nil {
			return memory{}, false
		}
	}
	if e.Limit != nil {
		limit := mem.Clamp(*e.Limit, mem.MaxBytes)
		m.limit = &limit
	}
	if e.Settings != nil {
		c, ok := changeOf(*e.Settings)
		if !ok || c.level == nil {
			return memory{}, false
		}
		s := c.apply(plane.Settings{})
		m.settings = &s
	}
	if e.Later != nil {
		var ok bool
		if m.later, ok = changeOf(*e.Later); !ok {
			return memory{}, false
		}
	}
	return m, true
}

// changeOf is the change to what settings of the journal say.
func changeOf(s journal.Settings) (c change, ok bool) {
	if s.Level != "" {
		level, err := parseLevel(s.Level)
		if err != nil {
			return c, false
		}
		c.level = &level
	}
	if s.Threshold != 0 {
		c.threshold = &s.Threshold
	}
	if s.Batch != 0 {
		c.batch = &s.Batch
	}
	return c, s.Threshold <= maxThreshold && s.Batch <= maxThreshold
}

// recall reads the journal at the start.
func (s *Server) recall() {
	r, err := journal.Read(s.dir.File(client.JournalFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Warn("journal ignored", "why", err)
	}
	for _, e := range r.Hints {
		if m, ok := recalled(e); ok {
			s.remembered[e.Key] = m
		}
	}
	s.recallMemorySettings(r)
	s.forgetDead()
	if s.policy == nil && r.Policy != "" {
		if s.policy, err = compute.PolicyByName(r.Policy); err != nil {
			s.log.Warn("policy of the journal ignored", "why", err)
		}
	}
	if s.policy == nil {
		s.policy, _ = compute.PolicyByName(DefaultPolicy) // it exists
	}
}

// remember asks for the journal to be written.
func (s *Server) remember() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// sweepEvery is how often is looked after what nobody tells of: processes that
// died between two steps of theirs, or while nobody watched them.
const sweepEvery = time.Second

// keepHouse writes the journal when something changed, at most every 100 ms, and
// once more at the end; and it forgets the dead.
func (s *Server) keepHouse() {
	const pause = 100 * time.Millisecond
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-s.dirty:
			s.writeJournal()
		case <-sweep.C:
			s.registry.mu.Lock()
			s.registry.sweep(time.Now())
			s.registry.mu.Unlock()
			s.forgetDead()
			continue
		case <-s.ending.Done():
			s.writeChanged()
			return
		}
		select {
		case <-time.After(pause):
		case <-s.ending.Done():
		}
	}
}

// forgetDead drops what is remembered of processes that have ended. One that
// lives is remembered though its registration ended: it may come back.
func (s *Server) forgetDead() {
	s.mu.Lock()
	dead := slices.Collect(maps.Keys(s.remembered))
	s.mu.Unlock()
	dead = slices.DeleteFunc(dead, func(key journal.Key) bool {
		return aliveKey(key)
	})
	s.mu.Lock()
	for _, key := range dead {
		delete(s.remembered, key)
	}
	s.mu.Unlock()
	if len(dead) > 0 {
		s.remember()
	}
}

// writeChanged writes the journal if something changed since it was written.
func (s *Server) writeChanged() {
	select {
	case <-s.dirty:
		s.writeJournal()
	default:
	}
}

// writeJournal writes what is worth remembering.
func (s *Server) writeJournal() {
	s.mu.Lock()
	r := journal.Record{Policy: s.policy.Name()}
	for key, m := range s.remembered {
		r.Hints = append(r.Hints, m.entry(key))
	}
	s.mu.Unlock()
	s.noteMemory(&r)
	if err := journal.Write(s.dir.File(client.JournalFile), r); err != nil {
		s.log.Warn("journal not written", "why", err)
	}
}

// note has it remembered what was changed for processes while they run.
func (s *Server) note(of map[journal.Key]memory) {
	s.mu.Lock()
	for key, m := range of {
		if key.PID != 0 {
			s.remembered[key] = m
		}
	}
	s.mu.Unlock()
	s.remember()
}

// recallMemory gives what was changed for a process before.
func (s *Server) recallMemory(key journal.Key) (memory, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.remembered[key]
	return m, ok && key.PID != 0
}
