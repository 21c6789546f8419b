package plane

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/compute"
)

// TestLoopSpins has a loop look for edges instead of sleeping: it takes processor time
// for a while after a ring and none later, loses no ring meanwhile, and answers others.
func TestLoopSpins(t *testing.T) {
	const spin = 100 * time.Millisecond
	l, err := NewLoop(New(Config{Spin: spin}, compute.HPF()), func(ProcessID) {})
	if err != nil {
		t.Fatal(err)
	}
	l.Run()
	defer l.Stop()
	a := benchAttachment(t, 0)
	if err := l.Add(a); err != nil {
		t.Fatal(err)
	}
	used := func() (d time.Duration) {
		t.Helper()
		if err := l.call(func() { d = threadTime() }); err != nil {
			t.Fatal(err)
		}
		return d
	}
	one := [8]byte{0: 1}
	limit := time.Now().Add(time.Minute)
	before := used()
	for rings := uint64(1); used()-before < spin; rings++ { // by far more than rings cost
		a.Board.Device(0).SetReady(rings%2 == 1)
		if _, err := unix.Write(a.Bell, one[:]); err != nil {
			t.Fatal(err)
		}
		for seen := uint64(0); seen < rings; {
			s, _, err := l.Describe()
			if err != nil {
				t.Fatal(err)
			}
			if seen = s.Stats.Edges; time.Now().After(limit) {
				t.Fatalf("%d of %d rings were heard, %v of processor time used", seen, rings, used()-before)
			}
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(2 * spin) // and no ring since
	before = used()
	time.Sleep(2 * spin)
	if more := used() - before; more > spin/2 {
		t.Errorf("%v of processor time in %v without a ring", more, 2*spin)
	}
}
