package plane

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/compute"
	"xmsched/preempt/board"
)

// TestWhoIsCalm: those whom nobody's gate depends on, as long as that is so.
func TestWhoIsCalm(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	want := func(what string, g *guest, calm bool) {
		t.Helper()
		if got := r.plane.calm(r.plane.processes[g.id]); got != calm {
			t.Errorf("%s: calm %v, want %v", what, got, calm)
		}
	}
	r.pass(10 * time.Millisecond)
	want("the lowest", low, true)
	want("who stops it", high, false)
	low.ready(true)
	high.ready(true)
	want("the lowest, kept out", low, true)

	r.turn(func(p *Plane) { p.SetHints(1, compute.Hints{SLO: time.Millisecond}) })
	want("one whose requests are timed", low, false)
	r.turn(func(p *Plane) { p.SetHints(1, compute.Hints{}) })
	want("the lowest again", low, true)

	lowest := r.guest(3, -5)
	r.pass(10 * time.Millisecond)
	want("with a lower one", low, false)
	want("the lower one", lowest, true)
	r.turn(func(p *Plane) { p.Remove(lowest.id) })
	want("the lower one has left", low, true)

	r.turn(func(p *Plane) { p.SetPolicy(compute.RR()) })
	want("where turns are taken", low, false)
	r.turn(func(p *Plane) { p.SetPolicy(compute.HPF()) })
	want("the lowest by priority", low, true)
}

// TestBriskIsNotCalm: who has more edges than are seen of a calm one, and not once or
// twice, is not calm for a while; unless the loop came late.
func TestBriskIsNotCalm(t *testing.T) {
	r := newRig(t)
	low := r.guest(1, 0)
	r.guest(2, 5)
	pr := r.plane.processes[low.id]
	pr.calms = true
	edges := func(n int, calm bool) {
		t.Helper()
		for i := range n {
			low.device.SetReady(i%2 == 0)
		}
		if low.ring(); r.plane.calm(pr) != calm {
			t.Errorf("after %d edges: calm %v", n, !calm)
		}
	}
	edges(2, true)
	r.plane.delayed = true
	edges(8, true)
	r.plane.delayed = false
	edges(4, true)
	edges(4, true)
	r.pass(brisk)
	edges(4, true)
	edges(4, true)
	edges(2, true)
	if r.plane.lag() != mostPatience {
		t.Error("the looks are close already")
	}
	edges(4, true)
	if r.plane.lag() != patience {
		t.Error("the looks are not closer")
	}
	edges(4, true)
	edges(4, true)
	edges(4, false)
	r.pass(brisk)
	edges(2, true)
}

// TestLooksAreCloseWhileSomebodyIsKeptOut: whoever comes to wait then is heard soon.
func TestLooksAreCloseWhileSomebodyIsKeptOut(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	for range 3 * restATurn {
		r.guest(compute.TaskID(10+r.ids), 0)
	}
	want := func(what string, lag time.Duration) {
		t.Helper()
		r.pass(10 * time.Millisecond)
		if got := r.plane.lag(); got != lag {
			t.Errorf("%s: looks every %v, want %v", what, got, lag)
		}
	}
	want("nobody has work", mostPatience)
	low.ready(true)
	want("the lowest has", mostPatience)
	high.ready(true)
	want("it is kept out", patience)
	high.ready(false)
	want("it is let in", mostPatience)
	high.ready(true)
	r.turn(func(p *Plane) { p.Remove(low.id) })
	want("one that was kept out has left", patience)
	r.turn(func(p *Plane) { p.Remove(high.id) })
	want("who kept them out has", mostPatience)
	if r.plane.shut != 0 {
		t.Errorf("%d are kept out", r.plane.shut)
	}
}

// TestCalmHeardLate: a calm client's requests are counted as they were, by its own word,
// however late its edges are heard, as long as not more than two of them were missed.
func TestCalmHeardLate(t *testing.T) {
	const ms = time.Millisecond
	r := newRig(t)
	r.plane.cfg.Epoch = uint64(time.Hour)
	low := r.guest(1, 0)
	r.guest(2, 5)
	pr := r.plane.processes[low.id]
	pr.calms = true
	at := func(ready bool) {
		now := r.plane.clock(r.now)
		if ready {
			low.device.SetTimes(now, 0)
		} else {
			low.device.SetIdleAt(now)
		}
		low.device.SetReady(ready)
	}
	want := func(what string, n uint64, longest, ran time.Duration) {
		t.Helper()
		s := r.state(1)
		if s.Requests.N != n || s.Requests.Max != longest || s.Ran != ran {
			t.Errorf("%s: %d requests, the longest %v, ran for %v; want %d, %v, %v", what, s.Requests.N, s.Requests.Max, s.Ran, n, longest, ran)
		}
	}
	wait := func(d time.Duration) { r.now += d }

	at(true)
	low.ring()
	wait(2 * ms)
	at(false)
	wait(ms)
	low.ring()
	want("idle for a millisecond", 1, 2*ms, 3*ms)
	if low.device.Watched() {
		t.Error("it is still waited for")
	}

	wait(ms)
	at(true)
	wait(3 * ms)
	at(false)
	wait(ms / 2)
	low.ring()
	want("a whole request", 2, 3*ms, 3*ms) // it may have run, which nobody saw

	at(true)
	low.ring()
	wait(4 * ms)
	at(false)
	wait(ms)
	at(true)
	wait(ms)
	low.ring()
	want("and again", 3, 4*ms, 9*ms)
	if pr.sections[0].counted != true {
		t.Error("it counts as idle")
	}

	// Idle for less than counts when it is looked at: it is waited out.
	wait(ms)
	at(false)
	wait(ms / 10)
	low.ring()
	want("idle for a tenth", 3, 4*ms, 10*ms+ms/10)
	wait(ms)
	at(true)
	wait(ms)
	r.turn()
	want("it came back after long enough", 4, 4*ms, 12*ms+ms/10)

	// A client that does not tell, or lies, is believed as much as before.
	for _, us := range []uint64{0, uint64(2 * time.Hour)} {
		low.device.SetIdleAt(us)
		before := r.state(1).Requests.N
		low.device.SetReady(false)
		low.ring()
		if !low.device.Watched() || r.state(1).Requests.N != before {
			t.Errorf("idle at %d: taken for idle at once", us)
		}
		r.pass(5 * ms)
		low.ready(true)
	}
}

// TestCalmWithWorkIsWokenAtOnce: that its bell was not heard yet does not have it sleep
// at a gate that opens.
func TestCalmWithWorkIsWokenAtOnce(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	r.plane.processes[low.id].calms = true
	r.pass(time.Second)
	high.ready(true)
	r.pass(dozeLimit)
	_, wait := low.sleeper(t, low.device.Gate())
	low.device.SetReady(true)
	high.ready(false)
	r.pass(300 * time.Microsecond)
	low.want("after high", true, board.Bounded)
	wait() // the clock stood still
}

// crowd is a loop with many low clients and a high one, which comes last.
func crowd(t *testing.T, low int) (*Loop, []Attachment) {
	t.Helper()
	l, err := NewLoop(New(Config{}, compute.HPF()), func(ProcessID) {})
	if err != nil {
		t.Fatal(err)
	}
	l.Run()
	t.Cleanup(l.Stop)
	var all []Attachment
	for i := range low + 1 {
		a := benchAttachment(t, i)
		if i == low {
			a.Hints.Priority = 5
		}
		if err := l.Add(a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return l, all
}

func edge(t *testing.T, a Attachment, ready bool) {
	t.Helper()
	a.Board.Device(0).SetReady(ready)
	one := [8]byte{0: 1}
	if _, err := unix.Write(a.Bell, one[:]); err != nil {
		t.Fatal(err)
	}
}

// within waits until something holds on the loop's thread.
func within(t *testing.T, l *Loop, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		var yes bool
		if err := l.call(func() { yes = holds() }); err != nil {
			t.Fatal(err)
		}
		if yes {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("it never came about: %s", what)
		}
	}
}

// TestLoopLull: with many edges the bells of the calm are heard together, none is lost,
// others are heard at once as before, and a quiet loop sleeps.
func TestLoopLull(t *testing.T) {
	const low = 20
	l, all := crowd(t, low)
	ready := map[int]bool{}
	calms := func() (n int) {
		for _, a := range l.attached {
			if a.process.calms {
				n++
			}
		}
		return n
	}
	storm := func(until func() bool) {
		t.Helper()
		limit := time.Now().Add(30 * time.Second)
		for i, done := 0, false; !done; i++ {
			if time.Now().After(limit) {
				t.Fatal("it never came about")
			}
			ready[i%low] = !ready[i%low]
			edge(t, all[i%low], ready[i%low])
			pause := unix.Timespec{Nsec: 50_000} // which time.Sleep cannot do
			_ = unix.Nanosleep(&pause, nil)
			if i%low == low-1 {
				if err := l.call(func() { done = until() }); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	agrees := func() bool {
		for i, r := range ready {
			pr := l.plane.processes[all[i].ID]
			if pr != nil && pr.sections[0].counted != r {
				return false
			}
		}
		return true
	}
	looked := 0
	storm(func() bool {
		if l.lull.at != 0 && calms() == low {
			looked++
		}
		return looked > 10
	})
	within(t, l, "every ring heard", agrees)
	within(t, l, "it is listened to again", func() bool { return l.lull.at == 0 })

	// A single ring of a calm one wakes the loop.
	ready[0] = !ready[0]
	edge(t, all[0], ready[0])
	within(t, l, "a single ring heard", agrees)

	// Who is not calm closes the gates of the others amid a storm.
	edge(t, all[low], true)
	storm(func() bool { return !all[0].Board.Device(0).Gate().Open() })
	edge(t, all[low], false)
	storm(func() bool { return all[0].Board.Device(0).Gate().Open() })
	within(t, l, "every ring heard", agrees)

	// They are calm no more once they are in somebody's way, and one that left is forgotten.
	under := benchAttachment(t, low+1)
	under.Hints.Priority = -5
	if err := l.Add(under); err != nil {
		t.Fatal(err)
	}
	within(t, l, "with a lower one nobody is calm", func() bool { return calms() == 0 })
	if err := l.Remove(under.ID); err != nil {
		t.Fatal(err)
	}
	storm(func() bool { return calms() > low/2 })
	for i := range low / 2 {
		if err := l.Remove(all[i].ID); err != nil {
			t.Fatal(err)
		}
		delete(ready, i)
	}
	ready[low-1] = !ready[low-1]
	edge(t, all[low-1], ready[low-1])
	within(t, l, "those who stay are heard", agrees)
}

// calmed is a loop under CHPF that hears the first of two clients, the lower, with the calm.
func calmed(t *testing.T) (l *Loop, low, high Attachment) {
	t.Helper()
	l, all := crowd(t, 1)
	if err := l.SetPolicy(compute.CHPF()); err != nil {
		t.Fatal(err)
	}
	low, high = all[0], all[1]
	if err := l.SetCPUPriorities(map[compute.TaskID]int{low.Task: -1}); err != nil {
		t.Fatal(err)
	}
	if err := l.call(func() { l.lull.many, l.lull.window = true, l.plane.now+time.Hour }); err != nil {
		t.Fatal(err)
	}
	edge(t, low, true)
	within(t, l, "the lower is calm", func() bool { return l.attached[low.ID].process.calms })
	return l, low, high
}

// TestCalmNoMore: who is calm no more is heard by itself at once, whatever made him so,
// and though his rings are not listened to at the moment.
func TestCalmNoMore(t *testing.T) {
	t.Run("priority at the processor", func(t *testing.T) {
		l, low, _ := calmed(t)
		if err := l.SetCPUPriorities(map[compute.TaskID]int{low.Task: 1}); err != nil {
			t.Fatal(err)
		}
		within(t, l, "he stops the other", func() bool { return !l.attached[low.ID].process.calms })
	})
	t.Run("throttled", func(t *testing.T) {
		l, low, high := calmed(t)
		a := l.attached[low.ID]
		if err := l.call(func() {
			for !a.process.flood.throttled {
				l.plane.heard(a.process)
			}
			l.ring(a.index)
		}); err != nil {
			t.Fatal(err)
		}
		if err := l.Remove(high.ID); err != nil {
			t.Fatal(err)
		}
		third := benchAttachment(t, 2)
		if err := l.Add(third); err != nil {
			t.Fatal(err)
		}
		if err := l.SetCPUPriorities(map[compute.TaskID]int{third.Task: -2}); err != nil {
			t.Fatal(err)
		}
		within(t, l, "he stops the third", func() bool { return !a.process.calms })
		within(t, l, "he is listened to again", func() bool { return !a.process.flood.throttled && len(l.muted) == 0 })
		edge(t, low, false)
		within(t, l, "he is heard", func() bool { return !a.process.sections[0].counted })
	})
}

// TestCalmLiesCostNoTurns: a calm client whose idle time is always long past, by its own
// word, and that has edges all the time without a ring, does not have a turn follow a turn.
func TestCalmLiesCostNoTurns(t *testing.T) {
	r := newRig(t)
	r.plane.cfg.Epoch = uint64(time.Hour)
	low := r.guest(1, 0)
	r.guest(2, 5)
	r.pass(100 * time.Millisecond)
	r.plane.processes[low.id].calms = true
	low.ready(true)
	r.pass(10 * time.Millisecond)
	lie := func() {
		low.device.SetIdleAt(r.plane.clock(r.now - believed/2))
		low.device.SetReady(false)
		low.device.SetReady(true)
		low.device.SetReady(false)
	}
	low.device.SetIdleAt(r.plane.clock(r.now))
	low.device.SetReady(false)
	low.ring() // it is waited out
	turns := 0
	for end := r.now + 100*time.Millisecond; r.now < end; turns++ {
		lie()
		if r.now = max(r.now, r.next); turns == 10_000 {
			t.Fatalf("10000 turns, and it is %v before the end: the next is due at %v, now is %v", end-r.now, r.next, r.now)
		}
		r.turn()
	}
	t.Logf("%d turns", turns)
}

// TestCalmRequestWhileIdling: a whole request of a calm client that came while its idle
// edge was waited out, long enough after it, is one more.
func TestCalmRequestWhileIdling(t *testing.T) {
	const ms = time.Millisecond
	r := newRig(t)
	r.plane.cfg.Epoch = uint64(time.Hour)
	low := r.guest(1, 0)
	r.guest(2, 5)
	r.pass(100 * ms)
	pr := r.plane.processes[low.id]
	pr.calms = true
	at := func(ready bool) {
		if now := r.plane.clock(r.now); ready {
			low.device.SetTimes(now, 0)
		} else {
			low.device.SetIdleAt(now)
		}
		low.device.SetReady(ready)
	}
	r.now += ms / 10
	at(true)
	low.ring()
	r.now += 2 * ms
	at(false)
	low.ring() // heard at once: it is waited out, and its edges are silent
	if !low.device.Watched() {
		t.Fatal("it is not waited for")
	}
	next := r.next
	r.now += ms / 2
	at(true)
	r.now += ms / 2
	at(false)
	if r.now >= next {
		t.Fatalf("it is looked at already: %v, %v", r.now, next)
	}
	r.pass(20 * ms)
	if s := r.state(1); s.Requests.N != 2 || s.Requests.Max != 2*ms {
		t.Errorf("%d requests, the longest %v; want 2, %v", s.Requests.N, s.Requests.Max, 2*ms)
	}
}

// TestCalmRequestsAreAllCounted: whatever the rhythm of a calm client, its requests are
// counted, or it is calm no more.
func TestCalmRequestsAreAllCounted(t *testing.T) {
	const us, span = time.Microsecond, 20 * time.Second
	for _, c := range []struct{ work, idle time.Duration }{
		{300 * us, 300 * us}, {300 * us, 700 * us}, {500 * us, 500 * us}, {500 * us, 1500 * us}, {time.Millisecond, time.Millisecond}, {700 * us, 1400 * us},
		{time.Millisecond, 2 * time.Millisecond}, {2 * time.Millisecond, time.Millisecond}, {2 * time.Millisecond, 3 * time.Millisecond}, {5 * time.Millisecond, 900 * us},
	} {
		r := newRig(t)
		r.plane.cfg.Epoch = uint64(time.Hour)
		low := r.guest(1, 0)
		r.guest(2, 5)
		r.pass(100 * time.Millisecond)
		pr := r.plane.processes[low.id]
		pr.calms = true
		n, ready, rang, calm := uint64(0), false, false, 0
		edge, look, end := r.now+37*us, r.plane.nextLook(), r.now+span
		for looks := 0; r.now < end; {
			next := min(edge, r.next)
			if rang {
				next = min(next, look)
			}
			r.now = max(r.now, next)
			if r.now >= edge {
				now := r.plane.clock(r.now)
				if ready = !ready; ready {
					low.device.SetTimes(now, 0)
					edge += c.work
				} else {
					low.device.SetIdleAt(now)
					edge += c.idle
					n++
				}
				low.device.SetReady(ready)
				if !low.device.Watched() {
					rang = true
				}
				if look = r.plane.nextLook(); !pr.calms {
					look = r.now
				}
			}
			if rang && r.now >= look {
				rang = false
				low.ring()
				pr.calms = r.plane.calm(pr)
				if looks++; pr.calms {
					calm++
				}
			} else if r.now >= r.next {
				r.turn()
			}
		}
		if got := r.state(1).Requests.N; got < n*97/100 || got > n {
			t.Errorf("%v every %v: %d requests counted of %d (calm at %d looks)", c.work, c.work+c.idle, got, n, calm)
		} else {
			t.Logf("%v every %v: %d of %d (calm at %d looks)", c.work, c.work+c.idle, got, n, calm)
		}
	}
}
