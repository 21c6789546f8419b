package plane

import "testing"

// TestLaunchesOfOneWhoLaunchesLittle has a client that did not pass a slow path
// since its few launches: what it waited for is in its queues.
func TestLaunchesOfOneWhoLaunchesLittle(t *testing.T) {
	r := newRig(t)
	g := r.guest(1, 0)
	launches := func() uint64 { return r.plane.Describe().Seats[0].Launches }
	for i := 1; i <= 2; i++ {
		q := g.board.Slot(i)
		q.Take(uint64(i), 0, 0)
		q.Submit(64) // a lease of 64
		q.Sync(3)    // of which 3 were used and are complete
	}
	if n := launches(); n != 6 {
		t.Errorf("%d launches, want 6", n)
	}
	g.board.Slot(1).Take(0, 0, 0) // destroyed
	if n := launches(); n != 3 {
		t.Errorf("%d launches, want 3", n)
	}
	g.board.Slot(2).Take(9, 5, 0) // another device's
	if n := launches(); n != 0 {
		t.Errorf("%d launches on this device, want 0", n)
	}
}
