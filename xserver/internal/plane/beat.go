package plane

import (
	"xmsched/compute"
	"xmsched/preempt/board"
)

// beatsATurn is how many boards are gone over in one turn: some 30 us. An edge that
// comes during a beat is answered before the next of them.
const beatsATurn = 8

// fullLook is at every how many beats sections are looked at that nobody said to have
// claimed: a bell may have been lost, and claims may come out of their order.
const fullLook = 8

// beat moves the heartbeats on, of a few processes a turn. It also finds claims whose
// bell was lost, and stores gate words again that were opened by lease while this
// process was stopped, or scribbled on.
func (p *Plane) beat() {
	if p.now >= p.nextBeat && len(p.beating) == 0 {
		p.nextBeat = p.now + p.cfg.Heartbeat
		p.beats++
		p.sampleShares()
		clear(p.beaten)
		p.beaten = p.beaten[:0]
		for _, pr := range p.processes {
			p.beaten = append(p.beaten, pr)
		}
		p.beating = p.beaten
	}
	n := min(len(p.beating), beatsATurn)
	for _, pr := range p.beating[:n] {
		if !pr.gone { // its board is there
			p.beatProcess(pr)
		}
	}
	p.beating = p.beating[n:]
}

func (p *Plane) beatProcess(pr *process) {
	pr.Board.BeatDaemon()
	if pr.reach == 0 || !p.lookUpTo(pr, min(pr.reach+1, board.Devices)) && p.beats%fullLook == 0 {
		p.look(pr)
	}
	for _, s := range pr.sections {
		if s == nil {
			continue
		}
		if s.gate != 0 && pr.Board.Device(s.index).Gate() != s.gate {
			p.publish(s)
		}
		p.renew(s)
		if st := s.seat; st.mode == compute.Bounded {
			p.book(st)
			p.grain(st)
			p.measureAlone(st)
		}
	}
}
