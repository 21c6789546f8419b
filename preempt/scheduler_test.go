package preempt

import (
	"errors"
	"slices"
	"testing"
	"time"

	"xmsched/compute"
)

func newScheduler(t *testing.T, p compute.Policy) *Scheduler {
	t.Helper()
	s := NewScheduler(p)
	t.Cleanup(s.Close)
	return s
}

// pair is two queues of one device under one scheduler.
func pair(t *testing.T, s *Scheduler, high, low compute.Hints) (hh, lh *hardware, hq, lq *XQueue) {
	t.Helper()
	hh, lh = newHardware(false), newHardware(false)
	hq = newQueue(t, hh, Options{Scheduler: s, Hints: high})
	lq = newQueue(t, lh, Options{Scheduler: s, Hints: low, LaunchConfig: LaunchConfig{Threshold: 1}})
	return hh, lh, hq, lq
}

func TestPriorityStopsTheOther(t *testing.T) {
	s := newScheduler(t, compute.HPF())
	high, low, hq, lq := pair(t, s, compute.Hints{Priority: 1}, compute.Hints{})
	for n := range 3 {
		submit(t, lq, low.launch(n))
	}
	low.awaitLaunched(t, 1)
	c := submit(t, hq, high.launch(0))
	if lq.Info().Open {
		t.Fatal("the low queue is open when the high one's first submission returns")
	}
	low.step(1)
	low.stays(t, 1) // at most what was outstanding
	high.step(1)
	if err := c.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	low.awaitLaunched(t, 2)
	if i := lq.Info(); !i.Open || i.Suspended {
		t.Errorf("the low queue after the high one's end: %+v", i)
	}
}

// An idle queue stays ready for IdleAfter: a program between two commands keeps
// the device.
func TestIdleAfterHint(t *testing.T) {
	s := newScheduler(t, compute.HPF())
	high, low, hq, lq := pair(t, s, compute.Hints{Priority: 1, IdleAfter: 300 * time.Millisecond}, compute.Hints{})
	high.release()
	begun := time.Now()
	if err := submit(t, hq, high.launch(0)).Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	submit(t, lq, low.launch(0))
	if low.awaitLaunched(t, 1); time.Since(begun) < 300*time.Millisecond {
		t.Error("the low queue ran at once")
	}
	if err := hq.UpdateHints(func(h *compute.Hints) { h.IdleAfter = compute.MinIdleAfter }); err != nil {
		t.Fatal(err)
	}
	if err := submit(t, hq, high.launch(1)).Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return lq.Info().Open }, "open again")
}

func TestCase35HintsSurvivePolicies(t *testing.T) {
	s := newScheduler(t, compute.RR())
	high, _, hq, lq := pair(t, s, compute.Hints{Priority: 7}, compute.Hints{})
	s.SetPolicy(compute.HPF())
	if s.Policy().Name() != "HPF" {
		t.Fatalf("policy %s", s.Policy().Name())
	}
	submit(t, hq, high.launch(0))
	if lq.Info().Open {
		t.Error("the priority was lost with the policy")
	}
	// A change of hints takes effect at once.
	if err := lq.SetHints(compute.Hints{Priority: 9}); err != nil {
		t.Fatal(err)
	}
	if !lq.Info().Open {
		t.Error("the raised priority has no effect")
	}
}

func TestTurns(t *testing.T) {
	s := newScheduler(t, compute.RR())
	hints := compute.Hints{Quantum: 5 * time.Millisecond}
	a, b, aq, bq := pair(t, s, hints, hints)
	submit(t, aq, a.launch(0))
	submit(t, bq, b.launch(0))
	turns := func(q *XQueue) (n int) {
		open := q.Info().Open
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if now := q.Info().Open; now != open {
				open, n = now, n+1
			}
		}
		return n
	}
	if n := turns(aq); n < 4 {
		t.Errorf("%d changes of turn in 200 ms of quanta of 5 ms", n)
	}
}

// Case 18: a running queue waits for a command of a stopped one, under every
// policy and along a chain. XSched stands still here.
func TestCase18RunningQueueWaitsForAStoppedOne(t *testing.T) {
	for _, name := range compute.PolicyNames() {
		t.Run(name, func(t *testing.T) {
			policy, err := compute.PolicyByName(name)
			if err != nil {
				t.Fatal(err)
			}
			s := newScheduler(t, policy)
			hw := []*hardware{newHardware(true), newHardware(true), newHardware(false)}
			var q []*XQueue
			for i, h := range hw {
				q = append(q, newQueue(t, h, Options{Scheduler: s, Hints: compute.Hints{Priority: i}}))
			}
			// The highest queue is the first to come, and busy all the while.
			submit(t, q[2], hw[2].launch(0))
			lowest := submit(t, q[0], hw[0].launch(0))
			for n := 1; n < 5; n++ {
				submit(t, q[0], hw[0].launch(n))
			}
			middle := submit(t, q[1], hw[1].launch(0), lowest)
			last := submit(t, q[2], hw[2].launch(1), middle)
			if err := middle.Wait(soon(t)); err != nil {
				t.Fatalf("the highest queue waits for ever: %v", err)
			}
			hw[2].awaitLaunched(t, 2)
			if policy.Name() == "HPF" {
				hw[0].stays(t, 1) // what was waited for, and no more
			}
			hw[2].release()
			if err := last.Wait(soon(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// What the program itself has suspended is not resumed by anybody's waiting.
func TestCase18ProgramsSuspensionStands(t *testing.T) {
	s := newScheduler(t, compute.HPF())
	high, low, hq, lq := pair(t, s, compute.Hints{Priority: 1}, compute.Hints{})
	high.release()
	low.release()
	if err := lq.Suspend(soon(t), 0); err != nil {
		t.Fatal(err)
	}
	awaited := submit(t, lq, low.launch(0))
	c := submit(t, hq, high.launch(0), awaited)
	low.stays(t, 0)
	if err := lq.Resume(0); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
}

func TestWaitingForWhatNeverRuns(t *testing.T) {
	s := newScheduler(t, compute.HPF())
	high, low, hq, lq := pair(t, s, compute.Hints{Priority: 1}, compute.Hints{})
	high.release()
	low.release()
	if err := lq.Suspend(soon(t), 0); err != nil {
		t.Fatal(err)
	}
	dropped := submit(t, lq, low.launch(0))
	c := submit(t, hq, nil, dropped)
	if err := lq.Resume(DropCommands); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(soon(t)); err != nil {
		t.Errorf("the command behind a dropped one: %v", err)
	}
	if err := dropped.Wait(soon(t)); !errors.Is(err, ErrDropped) {
		t.Error(err)
	}
	// Its number is another command's now, which must not be let go by mistake.
	fence := submit(t, lq, low.launch(1))
	if err := fence.Wait(soon(t)); err != nil || !slices.Equal(low.order, []int{1}) {
		t.Errorf("after the drop: %v, launched %v", err, low.order)
	}
}

func TestLeavingTheScheduler(t *testing.T) {
	s := newScheduler(t, compute.HPF())
	high, low, hq, lq := pair(t, s, compute.Hints{Priority: 1}, compute.Hints{})
	submit(t, hq, high.launch(0))
	submit(t, lq, low.launch(0))
	low.stays(t, 0)
	if err := NewScheduler(compute.RR()).addAndClose(lq); !errors.Is(err, ErrAttached) {
		t.Errorf("a second scheduler: %v", err)
	}
	s.Remove(lq)
	s.Remove(lq) // not there any more
	low.awaitLaunched(t, 1)
	if err := s.Add(lq); err != nil {
		t.Fatal(err)
	}
	if lq.Info().Open {
		t.Error("open under a scheduler that prefers the other")
	}
	s.Close()
	s.Close()
	if i := lq.Info(); !i.Open {
		t.Error("stopped by a scheduler that has ended")
	}
	if err := s.Add(hq); !errors.Is(err, ErrClosed) {
		t.Errorf("add to a closed scheduler: %v", err)
	}
	if _, err := New(newHardware(true), Options{Scheduler: s}); !errors.Is(err, ErrClosed) {
		t.Errorf("new queue of a closed scheduler: %v", err)
	}
}

func (s *Scheduler) addAndClose(q *XQueue) error {
	defer s.Close()
	return s.Add(q)
}

// In XSched a queue stopped by the scheduler cannot be destroyed.
func TestClosingAStoppedQueue(t *testing.T) {
	s := newScheduler(t, compute.HPF())
	high, low, hq, lq := pair(t, s, compute.Hints{Priority: 1}, compute.Hints{})
	submit(t, hq, high.launch(0))
	c := submit(t, lq, low.launch(0))
	low.release()
	if err := lq.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	high.release()
}

func TestDevicesAreDecidedAlone(t *testing.T) {
	s := newScheduler(t, compute.HPF())
	high, low := newHardware(false), newHardware(true)
	low.device = "another"
	hq := newQueue(t, high, Options{Scheduler: s, Hints: compute.Hints{Priority: 1}})
	lq := newQueue(t, low, Options{Scheduler: s})
	submit(t, hq, high.launch(0))
	if err := submit(t, lq, low.launch(0)).Wait(soon(t)); err != nil {
		t.Fatalf("a queue of another device: %v", err)
	}
}
