package mover

import (
	"cmp"
	"time"

	"xmsched/compute"
	"xmsched/memory"
)

// refresh is the shortest time between two looks at a forecast for which nobody waits.
const refresh = 10 * time.Millisecond

// foresight is what a section made of the last forecast.
type foresight struct {
	at       time.Duration // of the last look
	orders   Orders        // that it was for
	figures  Figures
	stale    bool
	pause    time.Duration // until a look is due that was put off; 0: none was
	working  memory.Bytes  // as told
	exchange memory.Bytes
	barren   time.Duration // until when exchanges are left, as the last had its time and brought nothing in
	vain     time.Duration // how long that was the last time; 0: it brought something in
}

// foresee tells what the forecast says of the coming turn, if anything it depends on
// has changed.
func (s *section) foresee(o Orders, f Figures) {
	if s.uses == nil {
		return
	}
	v, now := &s.vision, s.now()
	v.stale = s.foreseen.Swap(false) || v.stale || o != v.orders || f != v.figures
	v.pause = 0
	if !v.stale {
		return
	}
	if v.at != 0 && now-v.at < refresh {
		v.pause = refresh - (now - v.at)
		return
	}
	v.at, v.orders, v.figures, v.stale = max(now, 1), o, f, false
	var err error
	if s.planner.list, err = s.memory.List(s.index, s.planner.list); err != nil {
		s.trouble = err
		return
	}
	s.look(o)
	var working, exchange memory.Bytes
	if p := &s.planner.forecast; p.known {
		working = p.working()
		p.order()
		switch x := p.pick(o.Target); {
		case !x.pays(s.board.Open()):
		case now < v.barren:
			v.stale, v.pause = true, v.barren-now
		default:
			exchange = x.in
		}
	}
	s.show(working, exchange)
}

// exchanged takes in that an exchange had its time, and whether it brought anything in.
func (v *foresight) exchanged(some bool, now time.Duration) {
	if some {
		v.vain = 0
		return
	}
	v.vain = min(max(2*v.vain, later), latest)
	v.barren = now + v.vain
}

// look reads the forecast for the segments of the list.
func (s *section) look(o Orders) {
	s.planner.forecast.known = false
	if s.uses == nil {
		return
	}
	turn := cmp.Or(o.Turn, compute.DefaultQuantum)
	if uses, known := s.uses.Next(s.index, turn); known {
		s.planner.forecast.read(s.planner.list, uses, turn)
	}
}

// show tells the daemon. It is rung for what makes a difference to it.
func (s *section) show(working, exchange memory.Bytes) {
	v := &s.vision
	if working == v.working && exchange == v.exchange {
		return
	}
	s.board.Foreseen(working, exchange)
	differs := working - v.working
	rings := (working == 0) != (v.working == 0) || (exchange == 0) != (v.exchange == 0) || max(differs, -differs) > v.working/8
	v.working, v.exchange = working, exchange
	if rings {
		s.board.Ring()
	}
}
