package plane

import (
	"fmt"
	"math"
	"testing"
	"time"

	"xmsched/compute"
)

// sliced is a device that its contexts have in turn, a time slice each, as a GPU
// does without us: whoever's gate opens while another has the device waits for
// the end of that slice, and may find the gate closed again by then. Nobody can use
// what turning to another takes.
type sliced struct {
	contexts []*kernels
	slice    time.Duration
	cost     time.Duration // of turning to another
	now      int           // whose slice it is
	left     time.Duration // of it
	turning  time.Duration // left of that
	had      *kernels      // the slice before
}

// work lets the device work for a while; what nobody can use passes unused.
func (s *sliced) work(d time.Duration) {
	if s.turning > 0 {
		s.turning -= d
		return
	}
	if k := s.contexts[s.now]; s.left > 0 && k.atWork() {
		s.left -= d
		k.work(d)
		return
	}
	for range s.contexts {
		s.now = (s.now + 1) % len(s.contexts)
		if k := s.contexts[s.now]; k.atWork() {
			s.left = s.slice
			if s.had != k {
				s.had, s.turning = k, s.cost
			}
			if s.turning == 0 {
				s.left -= d
				k.work(d)
			}
			return
		}
	}
	s.left = 0
}

// TestSharesOnTimeSlices: turns shorter than the device's own time slices, in
// which a command may not even have begun, are charged for what they took, and not
// for the switch between them, though the sheet says something else of it: it is of
// one in mid-kernel. Whole rounds are
// counted, and so many that a turn more or less is nothing.
func TestSharesOnTimeSlices(t *testing.T) {
	const total, step, slice, cost = 20 * time.Second, 20 * time.Microsecond, 2 * time.Millisecond, 160 * time.Microsecond
	short, long := 60*time.Microsecond, 5020*time.Microsecond
	for _, c := range []struct {
		shares  []int
		lengths []time.Duration
	}{
		{[]int{75, 25}, []time.Duration{short}},
		{[]int{75, 25}, []time.Duration{short, long}},
		{[]int{90, 10}, []time.Duration{long}}, {[]int{75, 25}, []time.Duration{long}}, {[]int{50, 30, 20}, []time.Duration{long}},
		{[]int{50, 30, 20}, []time.Duration{short, long}},
	} {
		shares, lengths := c.shares, c.lengths
		t.Run(fmt.Sprint(shares, lengths), func(t *testing.T) {
			r := newRig(t)
			r.turn(func(p *Plane) { p.SetPolicy(compute.PUP()) })
			r.switches(225 * time.Microsecond)
			d := &sliced{slice: slice, cost: cost}
			for i, share := range shares {
				k := r.kernels(compute.TaskID(i+1), share, lengths[i%len(lengths)])
				k.most = max(4, uint64(100*time.Millisecond/k.length))
				r.turn(func(p *Plane) { p.Configure(k.id, Settings{Level: 2, Threshold: 256, Batch: 64}) })
				d.contexts = append(d.contexts, k)
				k.launch()
				k.ready(true)
			}
			last, from := d.contexts[len(d.contexts)-1], time.Duration(0)
			for open := true; ; {
				begins := !open && last.device.Gate().Open()
				open = last.device.Gate().Open()
				if begins && r.now >= total {
					break
				}
				if begins && from == 0 && r.now >= 1500*time.Millisecond { // until then it learns how long they are
					from = r.now
					for i, st := range r.plane.list[0].seats {
						if got, want := st.overrun.length, d.contexts[i].length; want == long && (got < want/2 || got > want*3/2) {
							t.Errorf("after %v commands of task %d are taken for %v long, and are %v", r.now, i+1, got, want)
						}
					}
					for _, k := range d.contexts {
						k.took = 0
					}
				}
				for _, k := range d.contexts {
					k.launch()
				}
				d.work(step)
				r.pass(step)
			}
			var all time.Duration
			for _, k := range d.contexts {
				all += k.took
			}
			for i, k := range d.contexts {
				got := 100 * float64(k.took) / float64(all)
				t.Logf("task %d: %.2f %%, want %d", i+1, got, shares[i])
				if want := float64(shares[i]); math.Abs(got-want) > want/100 {
					t.Errorf("task %d got %.2f %%, want %v", i+1, got, want)
				}
			}
			if all < (r.now-from)*98/100 {
				t.Errorf("%v of the device used in %v", all, r.now-from)
			}
		})
	}
}

// TestNobodyWaitsForOneWhoWent: a turn that waits for what another's stop left begins
// when that one has no work any more, or is gone.
func TestNobodyWaitsForOneWhoWent(t *testing.T) {
	for name, end := range map[string]func(r *rig, k *kernels){
		"idle": func(r *rig, k *kernels) {
			k.board.Slot(1).Sync(k.submitted)
			k.ready(false)
		},
		"gone":          func(r *rig, k *kernels) { r.turn(func(p *Plane) { p.Remove(k.id) }) },
		"another queue": func(*rig, *kernels) {}, // it never ends, as it waits for something else
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.turn(func(p *Plane) { p.SetPolicy(compute.UP()) })
			d := &sliced{slice: 2 * time.Millisecond}
			for i := range 3 {
				k := r.kernels(compute.TaskID(i+1), 30, 5*time.Millisecond)
				d.contexts = append(d.contexts, k)
				k.launch()
				k.ready(true)
			}
			waits := func() (late *kernels) {
				for _, st := range r.plane.tasks[1].seats[0].device.working {
					if st.overrun.drains {
						late = d.contexts[st.id-1]
					}
				}
				return late
			}
			const step = 20 * time.Microsecond
			for waits() == nil || r.now < 500*time.Millisecond {
				for _, k := range d.contexts {
					k.launch()
				}
				d.work(step)
				if r.pass(step); r.now > 2*time.Second {
					t.Fatal("no turn ever waited")
				}
			}
			late := waits()
			end(r, late)
			for begun := r.now; ; r.pass(step) {
				open := 0
				for _, k := range d.contexts {
					if k != late && k.device.Gate().Open() {
						open++
					}
				}
				if open > 0 {
					break
				}
				if limit := 10 * time.Millisecond; r.now-begun > limit {
					t.Fatalf("nobody runs %v after", limit)
				}
			}
		})
	}
}
