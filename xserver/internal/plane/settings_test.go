package plane

import (
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/preempt/board"
)

func (g *guest) canDo(level uint32, why board.LevelWhy) {
	g.device.SetLevelMax(level, why)
	g.ring()
}

func (g *guest) configure(level, threshold, batch uint32) {
	g.r.turn(func(p *Plane) {
		p.Configure(g.id, Settings{Level: level, Threshold: threshold, Batch: batch})
	})
}

func (g *guest) wantNumbers(what string, level, threshold, batch uint32) {
	g.r.t.Helper()
	if _, have := g.device.Grant(); have.Level != level || have.Threshold != threshold || have.Batch != batch {
		g.r.t.Errorf("%s: %+v, want level %d, threshold %d, batch %d", what, have, level, threshold, batch)
	}
}

// TestLevelInForce holds that nobody is governed at a level that he cannot do or
// did not ask for.
func TestLevelInForce(t *testing.T) {
	for _, c := range []struct{ asked, can, want uint32 }{
		{0, 0, 1}, {0, 1, 1}, {0, 2, 2}, {0, 3, 2},
		{1, 0, 1}, {1, 1, 1}, {1, 2, 1},
		{2, 0, 1}, {2, 1, 1}, {2, 2, 2}, {2, 9, 2},
		{3, 3, 2},
	} {
		r := newRig(t)
		g := r.guest(1, 0)
		g.configure(c.asked, 16, 8)
		g.wantNumbers("before it says what it can do", 1, 16, 8)
		g.canDo(c.can, board.NothingInTheWay)
		g.wantNumbers("after", c.want, 16, 8)
	}
}

// TestDefaultsFollowTheLevel has nobody ask for numbers, or for one of them.
func TestDefaultsFollowTheLevel(t *testing.T) {
	for _, c := range []struct{ level, threshold, batch, wantThreshold, wantBatch uint32 }{
		{1, 0, 0, 16, 8}, {2, 0, 0, 256, 64}, {3, 0, 0, 256, 64},
		{1, 4, 0, 4, 4}, {2, 4, 0, 4, 4}, {3, 100, 0, 100, 8},
		{1, 0, 100, 16, 16}, {2, 0, 100, 256, 100}, {3, 0, 1, 256, 1},
		{1, 256, 256, 256, 256}, {3, 16, 8, 16, 8},
	} {
		r := newRig(t)
		g := r.at3(1, 0)
		g.configure(c.level, c.threshold, c.batch)
		g.wantNumbers("configured", c.level, c.wantThreshold, c.wantBatch)
	}
	r := newRig(t)
	g := r.guest(1, 0)
	g.configure(0, 0, 0)
	g.wantNumbers("before it says what it can do", 1, 16, 8)
	g.canDo(2, board.NothingInTheWay)
	g.wantNumbers("after", 2, 256, 64)
	g.canDo(1, board.NotRegistered)
	g.wantNumbers("when it can no more", 1, 16, 8)
}

// TestLevelIsFoundWithoutARing has a client say what it can do and not ring.
func TestLevelIsFoundWithoutARing(t *testing.T) {
	r := newRig(t)
	g := r.guest(1, 0)
	g.configure(0, 16, 8)
	g.device.SetLevelMax(2, board.NothingInTheWay)
	r.pass(200 * time.Millisecond)
	g.wantNumbers("after a heartbeat", 2, 16, 8)
	g.device.SetLevelMax(1, board.NotRegistered) // its context went
	g.ring()
	g.wantNumbers("when it can no more", 1, 16, 8)
	s := r.plane.Describe().Processes[0].Levels
	if len(s) != 1 || s[0].Level != 1 || s[0].Max != 1 || s[0].Why != board.NotRegistered || s[0].Device == "" {
		t.Errorf("described as %+v", s)
	}
}

// TestLevelsDifferByDevice has a process that can do more on one of its devices.
func TestLevelsDifferByDevice(t *testing.T) {
	r := newRig(t)
	g := r.guest(1, 0)
	second := testGPU
	second.UUID = board.UUID{2}
	g.board.Device(1).Claim(second)
	g.board.Device(1).SetLevelMax(1, board.NoStreamWaits)
	g.configure(0, 16, 8)
	g.canDo(2, board.NothingInTheWay)
	g.wantNumbers("on the first", 2, 16, 8)
	if _, have := g.board.Device(1).Grant(); have.Level != 1 {
		t.Errorf("level %d on the second, want 1", have.Level)
	}
}

// TestCase35ConfiguredWhileSuspended changes each number by itself while the gate
// is closed.
func TestCase35ConfiguredWhileSuspended(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.canDo(2, board.NothingInTheWay)
	low.ready(true)
	high.ready(true)
	for _, s := range []Settings{{1, 4, 8}, {0, 4, 8}, {0, 64, 8}, {2, 64, 64}} {
		before := low.device.Gate()
		low.configure(s.Level, s.Threshold, s.Batch)
		low.want("while high is ready", false, board.Bounded)
		want := s.Level
		if want == 0 {
			want = 2
		}
		low.wantNumbers("configured", want, s.Threshold, min(s.Batch, s.Threshold))
		after := low.device.Gate()
		if after == before {
			t.Errorf("%+v came without a new gate word", s)
		}
		low.configure(s.Level, s.Threshold, s.Batch)
		if low.device.Gate() != after {
			t.Errorf("%+v again made a new gate word", s)
		}
	}
	high.ready(false)
	r.pass(time.Millisecond)
	low.want("with high idle", true, board.Bounded)
}

// TestIdleAfterIsTheTasks holds the hint of one task against the daemon's time.
func TestIdleAfterIsTheTasks(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	r.turn(func(p *Plane) { p.SetHints(2, compute.Hints{Priority: 5, IdleAfter: 3 * time.Millisecond}) })
	low.ready(true)
	high.ready(true)
	high.ready(false)
	r.pass(2900 * time.Microsecond)
	low.want("2.9 ms after", false, board.Bounded)
	r.pass(200 * time.Microsecond)
	low.want("3.1 ms after", true, board.Bounded)
	r.turn(func(p *Plane) { p.SetHints(2, compute.Hints{Priority: 5}) })
	high.ready(true)
	high.ready(false)
	r.pass(DefaultIdleAfter)
	low.want("after the daemon's time", true, board.Bounded)
}

// TestTurnsByTheirQuanta has two busy tasks take turns: everybody bounded, each
// for what it asked for.
func TestTurnsByTheirQuanta(t *testing.T) {
	r := newRig(t)
	r.turn(func(p *Plane) { p.SetPolicy(compute.RR()) })
	r.switches(0)
	short, long := r.guest(1, 0), r.guest(2, 255)
	r.turn(func(p *Plane) {
		p.SetHints(1, compute.Hints{Quantum: 2 * time.Millisecond})
		p.SetHints(2, compute.Hints{Quantum: 6 * time.Millisecond})
	})
	short.ready(true)
	long.ready(true)
	ran := map[*guest]time.Duration{}
	const step = 100 * time.Microsecond
	for range 800 { // ten rounds
		r.pass(step)
		for _, g := range []*guest{short, long} {
			gate, grant := g.device.Grant()
			if grant.Mode != board.Bounded {
				t.Fatalf("mode %d under RR, want bounded", grant.Mode)
			}
			if gate.Open() {
				ran[g] += step
			}
		}
	}
	if ran[short] != 20*time.Millisecond || ran[long] != 60*time.Millisecond {
		t.Errorf("ran %v and %v in 80 ms, want 20 and 60", ran[short], ran[long])
	}
}

// TestCase36SleeperTakesNoMoreThanATurn has one task sleep for 10 s under RR and
// then want as much as the other.
func TestCase36SleeperTakesNoMoreThanATurn(t *testing.T) {
	r := newRig(t)
	r.turn(func(p *Plane) { p.SetPolicy(compute.RR()) })
	r.switches(0)
	busy, sleeper := r.guest(1, 0), r.guest(2, 0)
	sleeper.ready(true)
	sleeper.ready(false)
	busy.ready(true)
	r.pass(10 * time.Second)
	sleeper.ready(true)
	waited := time.Duration(0)
	for range 1000 {
		r.pass(100 * time.Microsecond)
		if busy.device.Gate().Open() {
			waited = 0
		} else if waited += 100 * time.Microsecond; waited > compute.DefaultQuantum {
			t.Fatalf("the busy one is kept out for %v by one that slept", waited)
		}
	}
}

// TestCase36DevicesAreNotSerialised has two tasks on a device each, under every
// policy but those of the whole machine: neither ever waits for the other.
func TestCase36DevicesAreNotSerialised(t *testing.T) {
	for _, name := range compute.PolicyNames() {
		policy, err := compute.PolicyByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if policy.Traits().Machine {
			continue
		}
		r := newRig(t)
		r.turn(func(p *Plane) { p.SetPolicy(policy) })
		one := r.guest(1, 0)
		b, err := board.Create(1, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		other := testGPU
		other.UUID = board.UUID{2}
		b.Device(0).Claim(other)
		two := &guest{r: r, id: 50, board: b, device: b.Device(0)}
		r.turn(func(p *Plane) {
			p.Add(Process{ID: 50, Task: 2, Hints: compute.Hints{Priority: 9}, Board: b, Settings: Settings{Threshold: 16, Batch: 8}})
		})
		one.ready(true)
		two.ready(true)
		for range 100 {
			r.pass(time.Millisecond)
			one.want(name+", on the first device", true, board.Free)
			two.want(name+", on the second device", true, board.Free)
		}
	}
}

// TestOneTaskOnTwoDevices has a task with a process on two devices: on each it
// has a gate of its own.
func TestOneTaskOnTwoDevices(t *testing.T) {
	r := newRig(t)
	both := r.guest(1, 0)
	second := testGPU
	second.UUID = board.UUID{2}
	both.board.Device(1).Claim(second)
	both.board.Device(0).SetReady(true)
	both.board.Device(1).SetReady(true)
	both.ring()
	high := r.guest(2, 5)
	high.ready(true)
	both.want("where the other computes", false, board.Bounded)
	if gate, grant := both.board.Device(1).Grant(); !gate.Open() || grant.Mode != board.Free {
		t.Errorf("where it is alone: %v, mode %d", gate, grant.Mode)
	}
}
