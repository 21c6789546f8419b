package plane

import (
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/memory"
	"xmsched/preempt/board"
)

const gib = memory.GiB

// memoryRig is a plane with memory under a budget and clients that move theirs.
type memoryRig struct {
	*rig
	budget  memory.Bytes
	tenants []*tenant
	link    slowLink
}

func newMemoryRig(t *testing.T, budget memory.Bytes, mode memory.Mode, policy compute.Policy) *memoryRig {
	r := &rig{t: t, plane: New(Config{Memory: &Memory{Budget: budget, Mode: mode}}, policy)}
	r.turn()
	return &memoryRig{rig: r, budget: budget}
}

// tenant is a client with memory: it plays the preload library and the engine, which
// moves the link's bytes while it is Stopped.
type tenant struct {
	*guest
	rig *memoryRig

	allocated, resident, pinned memory.Bytes
	away                        memory.Bytes // of what is on the host, mapped to nothing
	in, out                     uint64
	asked                       memory.Bytes
	loads                       memory.Bytes  // device memory that was made and waits for its bytes
	wire                        memory.Bytes  // that the link carried of a batch that is not there yet
	slots, had, made            memory.Bytes  // host memory that there is, was at the last look, and was made in all
	kept                        memory.Bytes  // of that, copies of what is on the device
	writes                      bool          // all its memory: none of these is clean
	rests                       time.Duration // until when it makes no host memory ahead

	// Of a program that touches a part of its memory in a turn, and another later.
	touches memory.Bytes // 0: all of it
	hot     memory.Bytes // of that what is on the device
	phases  int          // parts that it went through
	pace    memory.Rate  // at which it goes over its memory, of which it foretells a turn; 0: unknown

	dead  bool
	lazy  bool // moves nothing
	deaf  bool // and suspends nothing
	holds bool // it can do Level 3

	onTurn time.Duration // could run so far
	work   time.Duration // that it did, as long as that takes in memory; see reads
	here   time.Duration // of that: with all its memory
}

// tenant starts one; level 3 or less.
func (r *memoryRig) tenant(task compute.TaskID, priority int, level uint32) *tenant {
	r.t.Helper()
	if level == 3 {
		r.turn(func(p *Plane) { p.SetOffer(compute.Device(testGPU.UUID.String()), offered) })
	}
	c := &tenant{guest: r.guest(task, priority), rig: r, holds: level == 3}
	c.configure(0, 16, 8)
	c.canDo(level, board.NothingInTheWay)
	r.tenants = append(r.tenants, c)
	c.ack()
	c.tell()
	return c
}

// stopped says whether memory of the client may be moved.
func (c *tenant) stopped() bool {
	v := c.board.HoldView(0)
	if want, _ := c.device.Wish(); v.Held == board.HoldAll && v.Did == want {
		return true
	}
	_, m := c.device.Memory()
	return m.Flags&board.MemoryDrained != 0 && !c.device.Gate().Open()
}

func (c *tenant) free() bool {
	return c.device.Gate().Open() && c.board.HoldView(0).Held == board.HoldNone
}

// allocate does what the library does: memory on the device as far as the target
// goes, the rest on the host.
func (c *tenant) allocate(n memory.Bytes) {
	_, m := c.device.Memory()
	if c.resident+n > memory.Bytes(m.Target) {
		c.asked = n
		c.tell()
		c.ring()
		_, m = c.device.Memory()
		c.asked = 0
	}
	here := n
	if c.resident+n > memory.Bytes(m.Target) {
		here = min(n, max(0, memory.Bytes(m.Target)-c.resident).Down())
	}
	if there := c.allocated - c.resident + n - here; m.Host != 0 && there > memory.Bytes(m.Host) {
		if c.asks(n, there); there > c.hostBound() {
			return // out of memory
		}
	}
	c.allocated, c.resident = c.allocated+n, c.resident+here
	c.tell()
	c.ring()
}

// asks waits for room as the library does, which asks again up to 25 times while it gets none.
func (c *tenant) asks(n, there memory.Bytes) {
	const patience, step = 20 * time.Millisecond, time.Millisecond
	c.asked = n
	c.tell()
	c.ring()
	for end := c.rig.now + patience; c.rig.now < end && there > c.hostBound(); {
		c.rig.pass(step)
		for _, other := range c.rig.tenants {
			if other != c {
				other.act(step)
			}
		}
	}
	c.asked = 0
	c.tell()
}

func (c *tenant) hostBound() memory.Bytes {
	if _, m := c.device.Memory(); m.Host != 0 {
		return memory.Bytes(m.Host)
	}
	return memory.MaxBytes
}

// keepSlots makes host memory ahead, some at a time, and gives back what is too much.
func (c *tenant) keepSlots() {
	there, bound := c.allocated-c.resident, c.hostBound()
	if c.rig.link.pinning > 0 {
		c.trim()
		return
	}
	if c.rig.link.in > 0 && !c.rig.link.pins {
		c.slots = c.allocated // made ahead
		return
	}
	if bound == memory.MaxBytes {
		c.slots = there
		return
	}
	c.slots = max(there, min(c.slots, bound))
	if c.slots < min(bound, c.allocated) {
		c.slots += min(32*memory.MiB, min(bound, c.allocated)-c.slots)
	}
}

func (c *tenant) tell() {
	c.slots = max(c.slots, c.allocated-c.resident)
	c.made += max(0, c.slots-c.had)
	c.had = c.slots
	word, m := c.device.Memory()
	there := min(c.resident+c.loads, max(c.resident, memory.Bytes(m.Target))) // in an exchange something goes first
	state := board.MemoryActive
	if c.away > 0 {
		state |= board.MemoryGone
	}
	c.device.TellMemory(board.MemoryView{
		Did: word, State: state, Allocated: uint64(c.allocated), Resident: uint64(there), Loading: uint64(c.loads),
		Host: uint64(c.allocated - there), Pinned: uint64(c.pinned), Asked: uint64(c.asked), In: c.in, Out: c.out,
		Slots: uint64(c.hostMade()), Kept: uint64(c.kept), Working: uint64(c.foretold()), Exchange: uint64(c.exchange()),
	})
}

// hostMade is what there is of host memory: where nothing is said of how it is made, what the
// process may have and has a use for.
func (c *tenant) hostMade() memory.Bytes {
	if c.rig.link.pinning == 0 && !c.rig.link.pins {
		return max(c.slots, min(c.allocated, c.hostBound()))
	}
	return c.slots
}

// act is what the client does in a step.
func (c *tenant) act(step time.Duration) {
	if c.dead {
		return
	}
	c.ack()
	if c.holds {
		_, w := c.device.Wish()
		if w.Hold == board.HoldNone { // whoever lets it run maps what is away
			c.away = 0
			c.tell()
		}
		if !c.deaf {
			c.obey()
		}
	}
	_, m := c.device.Memory()
	if !c.holds && m.Flags&board.MemoryDrained == 0 {
		c.away = 0
	}
	moved := false
	c.loads = 0
	if !c.stopped() {
		c.wire = 0
	}
	if target := memory.Bytes(m.Target); c.stopped() && !c.lazy && !c.deaf {
		switch {
		case c.resident > target:
			n := c.leaves(step, c.resident-target)
			c.resident, c.away, c.out, moved = c.resident-n, c.away+n, c.out+uint64(n), n > 0
			c.evicted()
		case c.resident < target && c.resident < c.allocated:
			n := c.carries(in, step, min(target, c.allocated)-c.resident)
			c.resident, c.away, c.in, moved = c.resident+n, max(0, c.away-n), c.in+uint64(n), n > 0
			c.kept += n
			c.hot = min(c.touches, c.hot+n)
		case c.exchange() > 0: // something that is not touched soon goes for something that is
			n := c.carries(in, step, c.exchange())
			c.in, c.out, c.hot, moved = c.in+uint64(n), c.out+uint64(n), c.hot+n, true
		}
	}
	c.keepSlots()
	c.tell()
	if moved {
		c.ring()
	}
	if c.free() {
		c.onTurn += step
		c.work += c.reads(step)
		if c.resident == c.allocated || c.touches > 0 && c.touches-c.hot < memory.BatchBytes {
			c.here += step
		}
	}
}

// overLink is how much slower a pass over memory of the host is: 50 GB/s, where an H200
// reads 900 (the row oversub).
const overLink = 18

// reads is what a task gets done in a step of a pass over all its memory.
func (c *tenant) reads(step time.Duration) time.Duration {
	missing := float64(c.allocated-c.resident) / float64(max(c.allocated, 1))
	return time.Duration(float64(step) / (1 + missing*(overLink-1)))
}

// live lets time pass for all, and checks at every step what always holds.
func (r *memoryRig) live(d time.Duration) {
	r.t.Helper()
	const step = 4 * time.Millisecond
	for end := r.now + d; r.now < end; {
		r.pass(step)
		for _, c := range r.tenants {
			c.act(step)
		}
		r.pin()
		r.check()
		if r.t.Failed() {
			r.t.FailNow()
		}
	}
}

// check holds the plane to its promise, and the clients to what they may.
func (r *memoryRig) check() {
	r.t.Helper()
	var sum memory.Bytes
	for _, c := range r.tenants {
		if c.dead {
			continue
		}
		_, m := c.device.Memory()
		sum += max(memory.Bytes(m.Target), c.resident) + c.pinned
		if c.away > 0 && c.free() {
			r.t.Errorf("at %v: task runs with %v away", r.now, c.away)
		}
	}
	if sum > r.budget {
		r.t.Errorf("at %v: the processes may have %v, the budget is %v", r.now, sum, r.budget)
	}
}

func (r *memoryRig) wantResident(what string, c *tenant, n memory.Bytes) {
	r.t.Helper()
	if c.resident != n {
		_, m := c.device.Memory()
		r.t.Errorf("%s at %v: %v resident, want %v; it may have %v", what, r.now, c.resident, n, memory.Bytes(m.Target))
	}
}

func TestMemoryIsAnsweredAtOnce(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.HPF())
	c := r.tenant(1, 0, 3)
	want, m := c.device.Memory()
	if want == 0 || m.Flags != board.MemoryManaged || m.Target == 0 || m.Target > uint64(16*gib) {
		t.Fatalf("answer %d %+v", want, m)
	}
	c.allocate(1 * gib)
	r.wantResident("with room", c, gib)
	r.live(100 * time.Millisecond)
	if w, _ := c.device.Wish(); w != 0 && c.stopped() {
		t.Error("stopped though all fits")
	}
}

// TestNoMemoryWithoutABudget holds that a plane without one leaves the boards alone.
func TestNoMemoryWithoutABudget(t *testing.T) {
	r := &rig{t: t, plane: New(Config{}, compute.HPF())}
	r.turn()
	g := r.guest(1, 0)
	g.device.TellMemory(board.MemoryView{State: board.MemoryActive, Allocated: 1 << 40, Resident: 1 << 40, Asked: 1 << 30})
	g.ready(true)
	r.pass(time.Second)
	if want, m := g.device.Memory(); want != 0 || m != (board.Memory{}) {
		t.Errorf("answer %d %+v", want, m)
	}
	if _, managed := r.plane.DescribeMemory(); managed {
		t.Error("described as managed")
	}
}

// TestRoomyMemoryHasNoSay: as long as there is room for all, managed memory changes
// nothing about whose edges may be heard late and who waits at the gate; when there is
// not, it does at once, and no more when there is again.
func TestRoomyMemoryHasNoSay(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Predict, compute.HPF())
	low, high := r.tenant(1, 0, 3), r.tenant(2, 5, 3)
	low.ready(true)
	high.ready(true)
	want := func(what string, tight bool) {
		t.Helper()
		r.live(100 * time.Millisecond)
		regime := r.plane.regime
		if got := r.plane.list[0].tight(); got != tight {
			t.Errorf("%s: tight %t", what, got)
		}
		if calm := r.plane.calm(r.plane.processes[low.id]); calm && tight {
			t.Errorf("%s: calm %t", what, calm)
		}
		if r.plane.onlyGates() && tight {
			t.Errorf("%s: nothing but gates", what)
		}
		if r.plane.regime != regime {
			t.Errorf("%s: the regime changes though nothing does", what)
		}
	}
	want("nobody has any", false)
	low.allocate(4 * gib)
	high.allocate(6 * gib)
	want("ten of sixteen", false)
	if r.plane.calm(r.plane.processes[high.id]) {
		t.Error("who stops the other is calm")
	}
	low.allocate(4 * gib)
	want("fourteen", true)
	low.allocate(8 * gib)
	high.ready(false)
	want("more than there is", true)
	r.live(3 * time.Second) // until all of it is on the device
	high.allocate(-5 * gib)
	low.allocate(-12 * gib)
	r.live(2 * time.Second)
	want("room again", false)
}

// TestTurnsShorterThanALoad: under a policy whose turns are shorter than it takes to load
// what a task has, and which hears of no others, tasks that do not fit together all get on.
func TestTurnsShorterThanALoad(t *testing.T) {
	for _, policy := range []compute.Policy{compute.CFS(), compute.MLFQ(), compute.RR()} {
		t.Run(policy.Name(), func(t *testing.T) {
			r := newMemoryRig(t, 16*gib, memory.Predict, policy)
			for i, n := range []memory.Bytes{6 * gib, 6 * gib, 12 * gib} {
				c := r.tenant(compute.TaskID(1+i), 0, 3)
				c.ready(true)
				c.allocate(n)
			}
			var before [3]time.Duration
			var all time.Duration
			for round := range 5 {
				r.live(2 * time.Second)
				for i, c := range r.tenants {
					if c.onTurn == before[i] {
						t.Errorf("task %d stood still from %v on, for 2 s", i+1, time.Duration(round)*2*time.Second)
					}
					before[i] = c.onTurn
				}
			}
			for _, c := range r.tenants {
				all += c.onTurn
			}
			if all < 5*time.Second {
				t.Errorf("together they ran %v of 10 s", all)
			}
		})
	}
}

// TestSharesOfTasksThatDoNotFit: what a turn stands still for its memory is not charged, so
// that shares are of the time in which tasks run, however long the load takes.
func TestSharesOfTasksThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		policy compute.Policy
		hints  [2]compute.Hints
		share  float64
	}{
		{compute.UP(), [2]compute.Hints{{Utilization: 75}, {Utilization: 25}}, 0.75},
		{compute.PUP(), [2]compute.Hints{{Utilization: 90}, {Utilization: 10}}, 0.9},
		{compute.CFS(), [2]compute.Hints{{Weight: 3}, {Weight: 1}}, 0.75},
		{compute.WRR(), [2]compute.Hints{{Weight: 3}, {Weight: 1}}, 0.75},
	} {
		t.Run(c.policy.Name(), func(t *testing.T) {
			r := newMemoryRig(t, 16*gib, memory.Predict, c.policy)
			var before [2]time.Duration
			for i := range before {
				task := r.tenant(compute.TaskID(i+1), 0, 3)
				r.turn(func(p *Plane) { p.SetHints(compute.TaskID(i+1), c.hints[i]) })
				task.ready(true)
				task.allocate(10 * gib)
			}
			r.live(2 * time.Second)
			for i, task := range r.tenants {
				before[i] = task.onTurn
			}
			r.live(30 * time.Second)
			first, second := r.tenants[0].onTurn-before[0], r.tenants[1].onTurn-before[1]
			if share := first.Seconds() / (first + second).Seconds(); share < c.share-0.03 || share > c.share+0.03 {
				t.Errorf("the first has %.1f %%, want %.1f %%: %v and %v", 100*share, 100*c.share, first, second)
			}
			if first+second < 15*time.Second {
				t.Errorf("together they ran %v of 30 s", first+second)
			}
		})
	}
}

// TestTwoThatDoNotFitTakeTurns has two tasks whose memory exceeds the budget together:
// each gets on, and most of its turn it has its memory.
func TestTwoThatDoNotFitTakeTurns(t *testing.T) {
	for name, policy := range map[string]compute.Policy{"RR": compute.RR(), "HPF with equals": compute.HPF()} {
		for _, level := range []uint32{2, 3} {
			t.Run(name, func(t *testing.T) {
				r := newMemoryRig(t, 16*gib, memory.Allocation, policy)
				a, b := r.tenant(1, 0, level), r.tenant(2, 0, level)
				for _, c := range []*tenant{a, b} {
					c.ready(true)
					for range 10 {
						c.allocate(gib)
					}
				}
				r.live(4 * time.Second)
				for _, c := range []*tenant{a, b} {
					t.Logf("level %d: on its turn %v, of that with all its memory %v, in %v out %v", level, c.onTurn, c.here, memory.Bytes(c.in), memory.Bytes(c.out))
					if c.onTurn < 1200*time.Millisecond || c.here < c.onTurn*8/10 || c.in == 0 || c.out == 0 {
						t.Errorf("level %d: too little", level)
					}
				}
			})
		}
	}
}

// TestTurnsLastForTheNextOnesMemory: tasks whose turns are fixed to less than a load takes
// leave the device idle for little more than stops take, whether the policy has turns or
// they are shifts.
func TestTurnsLastForTheNextOnesMemory(t *testing.T) {
	for _, policy := range []compute.Policy{compute.RR(), compute.CFS(), compute.HPF()} {
		t.Run(policy.Name(), func(t *testing.T) {
			r := newMemoryRig(t, 16*gib, memory.Allocation, policy)
			for i := range 4 {
				c := r.tenant(compute.TaskID(i+1), 0, 3)
				r.turn(func(p *Plane) { p.SetHints(compute.TaskID(i+1), compute.Hints{Quantum: 40 * time.Millisecond}) })
				c.ready(true)
				c.allocate(8 * gib)
			}
			r.live(2 * time.Second)
			onTurn := func() (sum time.Duration) {
				for _, c := range r.tenants {
					sum += c.onTurn
				}
				return sum
			}
			before := onTurn()
			r.live(4 * time.Second)
			if ran := onTurn() - before; ran < 3400*time.Millisecond {
				t.Errorf("of 4 s somebody ran for %v", ran)
			}
			for _, c := range r.tenants {
				if c.onTurn < time.Second || c.here < c.onTurn*8/10 {
					t.Errorf("one was on its turn for %v of 6 s, of that with all its memory for %v", c.onTurn, c.here)
				}
			}
		})
	}
}

// TestOneThatExceedsTheBudget runs with what is there, and is not stopped for more.
func TestOneThatExceedsTheBudget(t *testing.T) {
	r := newMemoryRig(t, 8*gib, memory.Allocation, compute.HPF())
	c := r.tenant(1, 0, 3)
	c.ready(true)
	for range 12 {
		c.allocate(gib)
	}
	r.live(2 * time.Second)
	if c.resident < 7*gib || c.onTurn < 1900*time.Millisecond {
		t.Errorf("%v resident, ran %v", c.resident, c.onTurn)
	}
}

// TestForegroundReturnsWhatItDoesNotUse has an idle foreground whose memory the
// background needs: it gives it, and has it back when it works.
func TestForegroundReturnsWhatItDoesNotUse(t *testing.T) {
	for _, level := range []uint32{2, 3} {
		r := newMemoryRig(t, 16*gib, memory.Allocation, compute.HPF())
		low, high := r.tenant(1, 0, level), r.tenant(2, 5, level)
		high.ready(true)
		high.allocate(8 * gib)
		r.live(50 * time.Millisecond)
		r.wantResident("the foreground", high, 8*gib)
		high.ready(false)
		low.ready(true)
		for range 14 {
			low.allocate(gib)
		}
		r.live(3 * time.Second)
		r.wantResident("the background beside an idle foreground", low, 14*gib)
		before := high.onTurn
		high.ready(true)
		r.live(700 * time.Millisecond)
		r.wantResident("the foreground at work again", high, 8*gib)
		if ran := high.onTurn - before; ran < 250*time.Millisecond {
			t.Errorf("level %d: of 700 ms the foreground ran %v", level, ran)
		}
		ran := low.onTurn
		r.live(100 * time.Millisecond)
		if low.onTurn != ran {
			t.Error("the background runs beside the foreground")
		}
		high.ready(false)
		r.live(100 * time.Millisecond)
		if low.onTurn == ran {
			t.Error("the background does not go on")
		}
	}
}

// TestCase24KilledInMidMove kills a task while its memory goes: what it had is free.
func TestCase24KilledInMidMove(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	a, b := r.tenant(1, 0, 3), r.tenant(2, 0, 3)
	for _, c := range []*tenant{a, b} {
		c.ready(true)
		c.allocate(10 * gib)
	}
	for a.away == 0 || a.stopped() == false {
		r.live(4 * time.Millisecond)
	}
	a.dead = true
	r.turn(func(p *Plane) { p.Remove(a.id) })
	r.live(time.Second)
	r.wantResident("the one that is left", b, 10*gib)
	if state, _ := r.plane.DescribeMemory(); len(state.Devices[0].Processes) != 1 || state.Devices[0].Short {
		t.Errorf("described as %+v", state.Devices[0])
	}
}

// TestLeftAndLives has a process leave that lives on: its memory is not given to
// others until it is dead.
func TestLeftAndLives(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	a, b := r.tenant(1, 0, 3), r.tenant(2, 0, 3)
	a.ready(true)
	a.allocate(8 * gib)
	b.ready(true)
	r.live(100 * time.Millisecond)
	a.dead = true
	haunts := false
	r.turn(func(p *Plane) { haunts = p.Haunt(a.id) })
	if !haunts {
		t.Fatal("nothing is known of it any more")
	}
	has := a.resident
	for range 12 {
		b.allocate(gib)
	}
	r.live(time.Second)
	if b.resident+has > 16*gib {
		t.Errorf("%v given beside the %v of one that lives", b.resident, has)
	}
	if state, _ := r.plane.DescribeMemory(); state.Devices[0].Gone < has {
		t.Errorf("gone: %v, want %v at least", state.Devices[0].Gone, has)
	}
	r.turn(func(p *Plane) { p.Bury(a.id) })
	r.live(2 * time.Second)
	r.wantResident("when it is dead", b, 12*gib)
}

// TestNothingIsGivenWhileSomeAreAwaited is a restart: those who come back have memory
// of which the daemon learns one by one.
func TestNothingIsGivenWhileSomeAreAwaited(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	r.turn(func(p *Plane) { p.SetAwaited(true) })
	a := r.tenant(1, 0, 3)
	a.allocated, a.resident = 10*gib, 10*gib
	a.tell()
	a.ring()
	a.ready(true)
	r.live(50 * time.Millisecond)
	if _, m := a.device.Memory(); m.Target != uint64(10*gib) || m.Flags != board.MemoryManaged {
		t.Errorf("may have %v, has 10 GiB", memory.Bytes(m.Target))
	}
	b := r.tenant(2, 0, 3)
	b.allocated, b.resident = 6*gib, 6*gib
	b.tell()
	b.ring()
	r.turn(func(p *Plane) { p.SetAwaited(false) })
	r.live(time.Second)
	r.wantResident("the one at work", a, 10*gib)
}

// TestAutomaticBudgetOfACardThatIsToldLater: a device under a fixed budget is to have what
// its card has, which is told once it is asked for.
func TestAutomaticBudgetOfACardThatIsToldLater(t *testing.T) {
	r := newMemoryRig(t, 4*gib, memory.Allocation, compute.HPF())
	c := r.tenant(1, 0, 3)
	c.ready(true)
	c.allocate(6 * gib)
	r.live(100 * time.Millisecond)
	r.turn(func(p *Plane) {
		if err := p.SetMemory(Memory{Mode: memory.Allocation}); err != nil {
			t.Error(err)
		}
	})
	r.budget = memory.DeviceBudget(16*gib, 0)
	r.turn(func(p *Plane) {
		p.SetCard(compute.Device(testGPU.UUID.String()), Card{Bytes: 16 * gib, Own: gib})
	})
	state, _ := r.plane.DescribeMemory()
	if d := state.Devices[0]; d.Budget != r.budget || d.DriverOwn != gib {
		t.Errorf("budget %v and %v of the driver's, want %v and 1 GiB", d.Budget, d.DriverOwn, r.budget)
	}
	r.live(2 * time.Second)
	r.wantResident("under the larger budget", c, 6*gib)
}

// TestBudgetBelowWhatIsPinned is refused with the figures, and changes nothing.
func TestBudgetBelowWhatIsPinned(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.HPF())
	c := r.tenant(1, 0, 3)
	c.pinned = 3 * gib
	c.tell()
	c.ring()
	var err error
	set := func(b memory.Bytes) {
		r.turn(func(p *Plane) { err = p.SetMemory(Memory{Budget: b, Mode: memory.Swap}) })
	}
	set(2 * gib)
	if want := (&memory.BudgetError{Budget: 2 * gib, Pinned: 3 * gib}); err == nil || err.Error() != want.Error() {
		t.Errorf("error %v, want %v", err, want)
	}
	if state, _ := r.plane.DescribeMemory(); state.Devices[0].Budget != 16*gib || state.Mode != memory.Allocation {
		t.Errorf("described as %+v", state)
	}
	if set(4 * gib); err != nil {
		t.Error(err)
	}
	if _, m := c.device.Memory(); m.Target > uint64(gib) {
		t.Errorf("may have %v beside what is pinned", memory.Bytes(m.Target))
	}
}

// TestCase29HostWithoutRoom has evictions stop when the host has no room for them, and
// go on when it has.
func TestCase29HostWithoutRoom(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	r.turn(func(p *Plane) { p.SetHost(5*gib, memory.LimitWanted, nil) })
	a, b := r.tenant(1, 0, 3), r.tenant(2, 0, 3)
	for _, c := range []*tenant{a, b} {
		c.ready(true)
		for range 10 {
			c.allocate(gib)
		}
	}
	host := func() memory.Bytes { return a.allocated - a.resident + b.allocated - b.resident }
	for range 100 {
		r.live(20 * time.Millisecond)
		if host() > 5*gib {
			t.Fatalf("at %v: %v on the host, of 5 GiB", r.now, host())
		}
	}
	if state, _ := r.plane.DescribeMemory(); !state.Devices[0].HostShort {
		t.Error("it is not said that the host has no room")
	}
	if a.onTurn < 700*time.Millisecond || b.onTurn < 700*time.Millisecond {
		t.Errorf("ran %v and %v", a.onTurn, b.onTurn)
	}
	r.turn(func(p *Plane) { p.SetHost(40*gib, memory.LimitWanted, nil) })
	r.live(200 * time.Millisecond)
	if state, _ := r.plane.DescribeMemory(); state.Devices[0].HostShort {
		t.Error("it is still said that the host has no room")
	}
}

// TestLimitIsTold stores a process's limit where its library reads it.
func TestLimitIsTold(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.HPF())
	c := r.tenant(1, 0, 3)
	r.turn(func(p *Plane) { p.SetLimit(c.id, 3*gib) })
	if _, m := c.device.Memory(); m.Limit != uint64(3*gib) || m.Total != uint64(3*gib) || m.Target > uint64(3*gib) {
		t.Errorf("answer %+v", m)
	}
}

// TestReleaseLeavesWhatIsAwayClosed ends the daemon while memory is taken away: a gate
// behind which some is missing is the client's to open.
func TestReleaseLeavesWhatIsAwayClosed(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	a, b := r.tenant(1, 0, 2), r.tenant(2, 0, 2)
	for _, c := range []*tenant{a, b} {
		c.ready(true)
		c.allocate(10 * gib)
	}
	for a.away == 0 && b.away == 0 {
		r.live(4 * time.Millisecond)
	}
	r.plane.Release()
	for _, c := range []*tenant{a, b} {
		_, m := c.device.Memory()
		if m.Flags&board.MemoryDrained != 0 {
			t.Error("memory may still be taken away")
		}
		if c.device.Gate().Open() != (c.away == 0) {
			t.Errorf("gate %v with %v away", c.device.Gate(), c.away)
		}
	}
}

// TestOneThatCannotBeStoppedRuns has a client that never is, or moves nothing: it is let
// go soon, and the other gets on as well.
func TestOneThatCannotBeStoppedRuns(t *testing.T) {
	for _, level := range []uint32{2, 3} {
		for name, spoil := range map[string]func(*tenant){
			"moves nothing":      func(c *tenant) { c.lazy = true },
			"is never suspended": func(c *tenant) { c.deaf = true },
		} {
			r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
			a, b := r.tenant(1, 0, level), r.tenant(2, 0, level)
			for _, c := range []*tenant{a, b} {
				c.ready(true)
				for range 10 {
					c.allocate(gib)
				}
			}
			spoil(a)
			r.live(5 * time.Second)
			if a.onTurn < time.Second || b.onTurn < time.Second {
				t.Errorf("level %d, one that %s: it ran %v, the other %v of 5 s", level, name, a.onTurn, b.onTurn)
			}
		}
	}
}

// TestNewMemoryIsOnTheDevice: what a program that does not run yet allocates is on the device
// as long as there is room, also where tasks are swapped as a whole. On an H200 100 GiB went to
// the host beside 76 that were free.
func TestNewMemoryIsOnTheDevice(t *testing.T) {
	for _, mode := range []memory.Mode{memory.Predict, memory.Allocation, memory.Swap, memory.Serial} {
		r := newMemoryRig(t, 137*gib, mode, compute.HPF())
		for i, size := range []memory.Bytes{20 * gib, 110 * gib} {
			c := r.tenant(compute.TaskID(i+1), 10-10*i, 3)
			for range 4 * size / gib {
				c.allocate(gib / 4)
				r.live(5 * time.Millisecond)
			}
		}
		for _, c := range r.tenants {
			if host := c.allocated - c.resident; host > 2*gib { // what others gave up a moment later
				t.Errorf("%v: %v of %v are on the host", mode, host, c.allocated)
			}
		}
	}
}
