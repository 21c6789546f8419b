package plane

import (
	"xmsched/compute"
	"xmsched/preempt/board"
)

// Settings are what a process is to be governed by, as its owner wants it.
type Settings struct {
	// Level of preemption; 0: the highest that the process can do.
	Level uint32
	// Threshold is how many commands may be outstanding a queue while bounded; 0: as
	// suits the level.
	Threshold uint32
	// Batch is how many commands lie between two completion writes while
	// bounded. One above Threshold counts as Threshold: no completion would be
	// written otherwise for what is waited for. 0: as suits the level.
	Batch uint32
}

// What a process gets that asks for nothing. At Level 1 what is outstanding when its
// gate closes runs on, so it is little. From Level 2 on the device itself stops at
// the gate, and the bound only has to keep the device busy over the pauses of a
// program that launches kernels of some 40 us: it is as wide as in free run.
const (
	threshold1, batch1 = 16, 8
	threshold2, batch2 = board.MaxThreshold, 64
)

// Bounds are the threshold and the batch in force at a level. A batch above the
// threshold counts as the threshold.
func (s Settings) Bounds(level uint32) (threshold, batch uint32) {
	threshold, batch = s.Threshold, s.Batch
	if batch == 0 {
		batch = batch1
		if threshold == 0 && level >= 2 {
			batch = batch2
		}
	}
	if threshold == 0 {
		threshold = threshold1
		if level >= 2 {
			threshold = threshold2
		}
	}
	return threshold, batch
}

// maxLevel is the highest level that this daemon knows how to use.
const maxLevel = board.MaxLevel

// Configure changes what a process is governed by; one that is gone is ignored.
// Nothing waits for it: the new numbers come with a new gate word, which closed
// gates keep closed, so that a task may be configured while it is suspended.
func (p *Plane) Configure(id ProcessID, s Settings) {
	pr, ok := p.processes[id]
	if !ok || pr.Settings == s {
		return
	}
	pr.Settings = s
	for _, sec := range pr.sections {
		if sec != nil {
			p.refresh(sec)
			p.reassess(sec.seat)
		}
	}
}

// refresh stores a section's answer again if it is not what it was.
func (p *Plane) refresh(s *section) {
	if s.gate != 0 && p.grantOf(s) != s.grant {
		p.publish(s)
	}
}

// level is the one in force: what is asked for, as far as the process can do it
// on this device. Level 1 needs nothing of the device and is always there.
func (s *section) level() uint32 {
	asked := s.process.Settings.Level
	if asked == 0 || asked > maxLevel {
		asked = maxLevel
	}
	return max(1, min(asked, s.levelMax()))
}

// levelMax is the highest that the process can do there, by its own word and as far
// as the device offers it.
func (s *section) levelMax() uint32 {
	if s.view.LevelMax >= 3 && (!s.seat.device.offer.Level3 || s.refused) {
		return 2
	}
	return s.view.LevelMax
}

// offerWhy says why a process that could do Level 3 is not offered it.
func (s *section) offerWhy() string {
	switch {
	case s.view.LevelMax < 3 || s.levelMax() >= 3:
		return ""
	case s.refused:
		return board.ControlRefused.String()
	}
	return s.seat.device.offer.why()
}

// LevelState is a process's level on one device, for listings.
type LevelState struct {
	Device compute.Device
	Level  uint32         // in force
	Max    uint32         // that can be had there; 0: not known yet
	Why    board.LevelWhy // the client can do no more
	Offer  string         // why the device offers no more to a client that could; empty: it does
	Did    board.HoldView // the client's word
}
