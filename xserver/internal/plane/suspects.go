package plane

import "slices"

// Suspects appends the processes of which it matters whether they are stopped:
// those that keep somebody with work out, and those that are known to be stopped
// while others are on their device.
func (p *Plane) Suspects(list []ProcessID) []ProcessID {
	for _, d := range p.list {
		if len(d.seats) < 2 {
			continue
		}
		waits := d.somebodyWaits()
		seats := d.seats
		switch {
		case p.halted > 0:
		case waits:
			seats = d.working
		default:
			continue
		}
		for _, st := range seats {
			for _, s := range st.sections {
				wanted := s.process.stopped || waits && s.counted && st.runs()
				if wanted && !slices.Contains(list, s.process.ID) {
					list = append(list, s.process.ID)
				}
			}
		}
	}
	return list
}

// somebodyWaits says whether a task with work is kept out.
func (d *device) somebodyWaits() bool {
	for _, st := range d.working {
		if st.known && (!st.runs() || st.hold != 0) {
			return true
		}
	}
	return false
}
