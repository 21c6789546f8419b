package plane

import (
	"sync/atomic"
	"testing"
	"time"

	"xmsched/preempt/board"
)

// sleeper sleeps on a guest's gate word, as its thread that acknowledges does, until
// the word moves; woken is set when it is back.
func (g *guest) sleeper(t *testing.T, old board.Gate) (woken *atomic.Bool, wait func()) {
	woken = &atomic.Bool{}
	done := make(chan struct{})
	begun := make(chan struct{})
	go func() {
		defer close(done)
		close(begun)
		if err := g.device.WaitGate(old, 10*time.Second); err != nil {
			t.Errorf("wait: %v", err)
		}
		woken.Store(true)
	}()
	<-begun
	time.Sleep(20 * time.Millisecond) // it sleeps by now
	return woken, func() { <-done }
}

// TestIdleOnesAreWokenLater: the gate of a process without work is closed at once, and
// who sleeps on it is woken within dozeLimit; at once if the process turns out to have
// work, though its gate does not move again.
func TestIdleOnesAreWokenLater(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	r.pass(time.Second)
	open := low.device.Gate()
	woken, wait := low.sleeper(t, open)
	high.ready(true)
	low.want("without work", false, board.Bounded)
	time.Sleep(20 * time.Millisecond)
	if woken.Load() {
		t.Error("it was woken at once, though it has no work")
	}
	r.pass(dozeLimit)
	wait()
	if len(r.plane.dozing) != 0 {
		t.Errorf("%d still doze", len(r.plane.dozing))
	}

	high.ready(false)
	r.pass(time.Millisecond) // open again
	_, wait = low.sleeper(t, low.device.Gate())
	high.ready(true)
	closed := low.device.Gate()
	low.ready(true)
	if low.device.Gate() != closed {
		t.Fatal("the gate moved when it had work")
	}
	wait() // the clock stood still
	if len(r.plane.dozing) != 0 {
		t.Errorf("%d still doze", len(r.plane.dozing))
	}

	// One that leaves is forgotten.
	low.ready(false)
	high.ready(false)
	r.pass(100 * time.Millisecond)
	high.ready(true)
	if len(r.plane.dozing) == 0 {
		t.Fatal("nobody dozes: the test is not what it says")
	}
	r.turn(func(p *Plane) { p.Remove(low.id) })
	if len(r.plane.dozing) != 0 {
		t.Error("one that left still dozes")
	}
}
