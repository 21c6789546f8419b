package plane

import (
	"slices"
	"time"
)

// A word that opens or closes the gate of a process without work is news to nobody
// but the thread that acknowledges it: who comes to launch reads the word. With many
// processes the system calls that wake these threads, and what they then do, would
// be most of what an edge costs the machine. So they are woken together, dozeLimit
// later at most, however often the gate moved meanwhile; at once if the process turns
// out to have work, as then one of its threads may have met the gate closed and sleep.
const (
	dozeLimit  = 20 * time.Millisecond
	wakesATurn = 8 // some 20 us
)

// dozes says whether nobody in a section's process is in a hurry, as far as was seen.
func (s *section) dozes() bool { return !s.counted && !s.view.Ready && s.view.Waiting == 0 }

// doze has who sleeps on a section's gate word woken later.
func (p *Plane) doze(s *section) {
	if s.dozing {
		return
	}
	if len(p.dozing) == 0 {
		p.wakeAt = p.now + dozeLimit
	}
	s.dozing = true
	p.dozing = append(p.dozing, s)
}

// rouse has them woken in this turn, if the last look at the section shows that they
// may wait.
func (p *Plane) rouse(s *section) {
	if !s.dozing || s.dozes() {
		return
	}
	s.dozing = false
	p.stored = append(p.stored, s.process.Board.Device(s.index))
	p.dozing = slices.DeleteFunc(p.dozing, func(x *section) bool { return x == s })
}

// wakeDozing wakes those whose time has come, a few a turn.
func (p *Plane) wakeDozing() {
	if len(p.dozing) == 0 || p.wakeAt > p.now {
		return
	}
	left := max(0, len(p.dozing)-wakesATurn)
	for _, s := range p.dozing[left:] {
		s.dozing = false
		s.process.Board.Device(s.index).Wake()
	}
	clear(p.dozing[left:])
	p.dozing = p.dozing[:left]
}
