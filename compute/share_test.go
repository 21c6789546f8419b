package compute

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// worker is a task on the model of a device: it has kernels all the time. One
// that has begun cannot be stopped; those in progress share the device evenly,
// as time slices do. What a kernel takes after its gate has closed is told as
// an overrun when the turn passes on, and when it ends.
// Turning from one to another costs time, as a property of the device.
type worker struct {
	id     TaskID
	kernel time.Duration
	open   bool
	left   time.Duration // of the kernel in progress; 0: none
	late   time.Duration // taken since the gate closed
	took   time.Duration // of the device, in truth
}

// simulate runs workers on one device for as long as total.
func simulate(s *Scheduler, workers []*worker, cost, total time.Duration) {
	var now, next, switching time.Duration
	var last *worker // that had the device by itself
	apply := func(events ...Event) {
		out := s.Apply(now, events...)
		for _, g := range out.Grants {
			for _, w := range workers {
				if w.id == g.Task {
					w.open = g.Open
				}
			}
		}
		next = out.Next
	}
	for _, w := range workers {
		apply(Ready{w.id, "gpu0"})
	}
	var events []Event
	for now < total {
		events = events[:0]
		busy := 0
		for _, w := range workers {
			if w.open && w.left == 0 {
				w.left = w.kernel
			}
			if w.left > 0 {
				busy++
			}
		}
		for _, w := range workers {
			if busy == 1 && w.left > 0 && w != last {
				last, switching = w, cost
			}
		}
		// To the next end of a kernel, or the scheduler's timer.
		step := total - now
		if next != 0 {
			step = min(step, next-now)
		}
		if switching > 0 {
			step = min(step, switching)
			switching -= step
			if now += step; next != 0 && next <= now {
				apply()
			}
			continue
		}
		for _, w := range workers {
			if w.left > 0 {
				step = min(step, w.left*time.Duration(busy))
			}
		}
		part := step
		if busy > 0 {
			part = max(step/time.Duration(busy), 1)
		}
		now += step
		ended := false
		for _, w := range workers {
			if w.left == 0 {
				continue
			}
			ran := min(w.left, part)
			w.left -= ran
			w.took += ran
			if !w.open {
				w.late += ran
				ended = ended || w.left == 0
			}
		}
		if !ended && (next == 0 || next > now) {
			continue
		}
		for _, w := range workers {
			if w.late > 0 {
				events = append(events, Overran{Task: w.id, Device: "gpu0", By: w.late})
				w.late = 0
			}
		}
		apply(events...)
	}
}

// TestShareError: over a minute every share comes out within 0.1 % of what was
// asked for, with kernels shorter and longer than the turns and of different
// lengths, and nothing of the device is lost.
func TestShareError(t *testing.T) {
	const minute = time.Minute
	short, long := 50*time.Microsecond, 5*time.Millisecond
	for _, c := range []struct {
		shares  []int
		kernels []time.Duration
	}{
		{[]int{75, 25}, []time.Duration{short, short}},
		{[]int{75, 25}, []time.Duration{long, long}},
		{[]int{75, 25}, []time.Duration{short, long}},
		{[]int{75, 25}, []time.Duration{long, short}},
		{[]int{75, 25}, []time.Duration{long, 20 * time.Millisecond}},
		{[]int{90, 10}, []time.Duration{short, short}},
		{[]int{90, 10}, []time.Duration{long, long}},
		{[]int{90, 10}, []time.Duration{short, long}},
		{[]int{50, 30, 20}, []time.Duration{long, long, long}},
		{[]int{50, 30, 20}, []time.Duration{long, short, short}},
		{[]int{50, 30, 0}, []time.Duration{short, long, long}}, // who asks for nothing gets the rest
	} {
		for _, policy := range named("UP", "PUP") {
			t.Run(fmt.Sprint(policy.Name(), c.shares, c.kernels), func(t *testing.T) {
				s := NewScheduler(policy)
				var workers []*worker
				rest := 100
				for i, share := range c.shares {
					w := &worker{id: TaskID(i + 1), kernel: c.kernels[i]}
					s.Apply(0, TaskAdded{w.id, "gpu0", Hints{Utilization: share}})
					workers = append(workers, w)
					rest -= share
				}
				simulate(s, workers, 0, minute)
				var total time.Duration
				for _, w := range workers {
					total += w.took
				}
				for i, w := range workers {
					want := float64(c.shares[i])
					if want == 0 {
						want = float64(rest)
					}
					have := 100 * float64(w.took) / float64(total)
					if math.Abs(have/want-1) > 0.001 {
						t.Errorf("task %d has %.3f %% of the device, want %v", w.id, have, want)
					}
				}
				if total < minute*99/100 {
					t.Errorf("the device was used for %v of %v", total, minute)
				}
			})
		}
	}
}
