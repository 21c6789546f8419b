package compute

import "time"

// A kernel that has begun when its gate closes goes on, and takes the device's
// time from whoever has the turn then. Without correction a task of long kernels
// gets more than its share, by up to a kernel each turn.

// run is one run of a party: ready, with an open gate.
type run struct {
	party    *party
	from, to time.Duration
}

// runs are the last that have ended on a device, as many as can lie within an
// overrun that is worth correcting.
type runs struct {
	ring [16]run
	next int
}

func (r *runs) add(done run) {
	if done.from < done.to {
		r.ring[r.next] = done
		r.next = (r.next + 1) % len(r.ring)
	}
}

// forget drops what is known of a party.
func (r *runs) forget(p *party) {
	for i := range r.ring {
		if r.ring[i].party == p {
			r.ring[i] = run{}
		}
	}
}

// overlap is how long a run lies between two times.
func (r run) overlap(from, to time.Duration) time.Duration {
	return max(min(r.to, to)-max(r.from, from), 0)
}

// overran charges a task for what it took of a device after its gate had closed,
// and those that ran there meanwhile for so much less, by how long they did.
func (s *Scheduler) overran(e Overran) {
	seat := s.seatOn(e.Device, e.Task)
	if seat == nil || seat.party == nil {
		return
	}
	d, late := seat.device, seat.party
	from, to := max(late.closed, late.told), s.now
	if late.open {
		to = min(to, late.opened)
	}
	by := min(e.By, to-from) // nobody takes more than there is
	if by <= 0 {
		return
	}
	late.told = s.now
	late.account(s.now)
	took := by - min(max(e.Unused, 0), by)
	late.ran += took
	seat.ran += took
	d.domain.change(late)

	meanwhile := func(each func(p *party, overlap time.Duration)) {
		for _, r := range d.past.ring {
			if o := r.overlap(from, to); r.party != nil && r.party != late && o > 0 {
				each(r.party, o)
			}
		}
		for p := range d.running.all() {
			if o := (run{p, p.began, s.now}).overlap(from, to); p != late && o > 0 {
				each(p, o)
			}
		}
	}
	var total time.Duration
	meanwhile(func(_ *party, o time.Duration) { total += o })
	meanwhile(func(p *party, o time.Duration) {
		less := time.Duration(float64(by) * float64(o) / float64(total))
		p.account(s.now)
		p.ran -= less
		if e.Late {
			p.late += less
		}
		p.members[0].account(s.now)
		p.members[0].ran -= less
		d.domain.change(p)
	})
}

// prolonged has a party's turn end later, or earlier.
func (s *Scheduler) prolonged(e Prolonged) {
	seat := s.seatOn(e.Device, e.Task)
	if seat == nil || seat.party == nil {
		return
	}
	p := seat.party
	p.late += e.By
	p.account(s.now)
	seat.account(s.now)
	still := min(max(e.Still, 0), p.ran, seat.ran)
	p.ran -= still
	seat.ran -= still
	p.device.domain.change(p)
}
