package xserver

import (
	"errors"
	"os"
	"slices"
	"time"

	"xmsched/compute"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/journal"
	"xmsched/xserver/internal/peer"
)

// recall reads the journal at the start.
func (s *Server) recall() {
	r, err := journal.Read(s.dir.File(client.JournalFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Warn("journal ignored", "why", err)
	}
	for _, e := range r.Hints {
		h := compute.Hints{Priority: e.Priority}
		if h.Validate() == nil {
			s.remembered[e.Key] = h
		}
	}
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

// keepJournal writes the journal when something changed, at most every 100 ms,
// and once more at the end.
func (s *Server) keepJournal() {
	const pause = 100 * time.Millisecond
	for {
		select {
		case <-s.dirty:
			s.writeJournal()
		case <-s.ending.Done():
			select {
			case <-s.dirty:
				s.writeJournal()
			default:
			}
			return
		}
		select {
		case <-time.After(pause):
		case <-s.ending.Done():
		}
	}
}

// writeJournal writes what is worth remembering: hints of processes that live.
func (s *Server) writeJournal() {
	s.mu.Lock()
	r := journal.Record{Policy: s.policy.Name()}
	for key, h := range s.remembered {
		r.Hints = append(r.Hints, journal.Entry{Key: key, Priority: h.Priority})
	}
	s.mu.Unlock()
	var dead []journal.Key
	r.Hints = slices.DeleteFunc(r.Hints, func(e journal.Entry) bool {
		start, err := peer.StartTime(e.PID)
		if err == nil && start == e.Start {
			return false
		}
		dead = append(dead, e.Key)
		return true
	})
	s.mu.Lock()
	for _, key := range dead {
		delete(s.remembered, key)
	}
	s.mu.Unlock()
	if err := journal.Write(s.dir.File(client.JournalFile), r); err != nil {
		s.log.Warn("journal not written", "why", err)
	}
}

// rememberHints notes hints that were changed while a process runs.
func (s *Server) rememberHints(keys []journal.Key, h compute.Hints) {
	s.mu.Lock()
	for _, key := range keys {
		if key.PID != 0 {
			s.remembered[key] = h
		}
	}
	s.mu.Unlock()
	s.remember()
}

// recallHints gives the hints that were set for a process before.
func (s *Server) recallHints(key journal.Key) (compute.Hints, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.remembered[key]
	return h, ok && key.PID != 0
}
