package plane

import (
	"time"

	"xmsched/compute"
	"xmsched/memory"
	"xmsched/preempt/board"
)

// linkMeters measure a device's link to the host, by what the boards tell of what was
// moved over it.
type linkMeters struct{ in, out memory.Meter }

// rate is what can be counted on: what comes in needs the room of what goes out.
func (l *linkMeters) rate() memory.Rate { return min(l.in.Rate(), l.out.Rate()) }

// meters are those of a device that comes: of one that has a sheet they are kept while
// nobody is there.
func (k *keeper) meters(id compute.Device) *linkMeters {
	if l := k.links[id]; l != nil {
		return l
	}
	return &linkMeters{}
}

// SetLink tells what a device's link carries one way while the other is busy too, by its
// spec sheet: what is counted on until something was moved, and at most.
func (p *Plane) SetLink(id compute.Device, sheet memory.Rate) {
	if p.mem == nil {
		return
	}
	d := p.devices[id]
	l := p.mem.meters(id)
	if d != nil {
		l = d.mem.link
	}
	p.mem.links[id] = l
	l.in.Expect(sheet)
	l.out.Expect(sheet)
	if d != nil {
		p.useLink(d)
	}
}

// useLink has the planner go by what was measured.
func (p *Plane) useLink(d *device) {
	planner := d.mem.planner
	if planner == nil || planner.Config().Link == d.mem.link.rate() {
		return
	}
	if planner.SetLink(d.mem.link.rate()) == nil {
		p.consider(d)
	}
}

// stretch is a time in which a way was never without something to move, as far as can
// be seen: what waits for room, for host memory or for its process to be stopped says
// nothing about the link.
type stretch struct {
	going bool
	fresh bool          // nothing has come of it yet
	since time.Duration // when it began, or something last came
}

// firstMoved is how long the first batch of a stretch has to take at least to be timed:
// its beginning may be seen some milliseconds late.
const firstMoved = 10 * time.Millisecond

// begin notes that something is seen to be on its way.
func (s *stretch) begin(now time.Duration) {
	if !s.going {
		*s = stretch{going: true, fresh: true, since: now}
	}
}

func (s *stretch) end() { *s = stretch{} }

// came notes that something arrived and whether more is on its way, and says how long it
// took; false: that is not known.
func (s *stretch) came(more bool, now time.Duration) (took time.Duration, timed bool) {
	took = now - s.since
	timed = s.going && (!s.fresh || took >= firstMoved)
	*s = stretch{going: more, since: now}
	return took, timed
}

// timing are a section's stretches.
type timing struct{ in, out stretch }

// starves says whether a client is to have more than others have made room for.
func (m *sectionMemory) starves(v *board.MemoryView) bool {
	return m.target.Bytes < m.target.Desired && memory.Bytes(v.Resident)+memory.BatchBytes > m.aim
}

// timeMoves takes in what a section moved between two looks.
func (p *Plane) timeMoves(s *section, before, after *board.MemoryView) {
	m, d := s.mem, s.seat.device
	t := &m.timing
	// Device memory that is made and waits for its bytes is what the way in is busy with,
	// for as long as there is room to make more.
	loads := after.Loading > 0 && !m.starves(after)
	switch n := moved(before.In, after.In); {
	case n > 0:
		if took, timed := t.in.came(loads, p.now); timed {
			d.mem.link.in.Add(n, took)
		}
	case loads:
		t.in.begin(p.now)
	default:
		t.in.end()
	}
	// The way out is while another batch is to go, and neither host memory is made for it
	// nor anything looked at for changes.
	if after.Slots > before.Slots || after.Clean != before.Clean {
		t.out.end()
	}
	if n := moved(before.Out, after.Out); n > 0 {
		more := memory.Bytes(after.Resident) >= m.aim+memory.BatchBytes && s.memoryStopped()
		if took, timed := t.out.came(more, p.now); timed {
			d.mem.link.out.Add(n, took)
		}
	}
	p.useLink(d)
}
