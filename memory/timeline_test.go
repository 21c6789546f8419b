package memory

import (
	"slices"
	"testing"
	"time"

	"xmsched/compute"
)

// device is a scheduler and a planner of one device, as a daemon has them.
type device struct {
	s      *compute.Scheduler
	p      *Planner
	claims []Claim
}

func newDevice(t *testing.T, policy compute.Policy, budget Bytes, footprints ...Bytes) *device {
	t.Helper()
	p, err := NewPlanner(Config{Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	d := &device{s: compute.NewScheduler(policy), p: p}
	for i, f := range footprints {
		id := compute.TaskID(i + 1)
		d.s.Apply(0, compute.TaskAdded{Task: id, Device: "gpu0", Hints: compute.Hints{Priority: -i}})
		d.claims = append(d.claims, Claim{Task: id, Footprint: f, Rank: -i})
	}
	return d
}

// apply tells the scheduler what happened and has every task do at once what the
// planner says.
func (d *device) apply(now time.Duration, events ...compute.Event) []Target {
	d.s.Apply(now, events...)
	for i, st := range d.s.State() {
		c := &d.claims[i]
		c.Ready, c.Open, c.Stopped = st.Ready, st.Open, !st.Open
	}
	var out Decision
	for range 16 * len(d.claims) {
		out = d.p.Decide(now, d.s.Timeline("gpu0"), d.s.Expected("gpu0"), d.claims)
		for i, target := range out.Targets {
			c := &d.claims[i]
			c.Resident, c.Seen = min(target.Bytes, c.Footprint), target.Want
		}
	}
	return out.Targets
}

func (d *device) resident() (list []Bytes) {
	for _, c := range d.claims {
		list = append(list, c.Resident)
	}
	return list
}

func equal(a []Bytes, b ...Bytes) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestTurns: under RR the one whose turn it is has its memory, and the next one,
// and after a turn it is the next two.
func TestTurns(t *testing.T) {
	d := newDevice(t, compute.RR(), 16*GiB, 8*GiB, 8*GiB, 8*GiB)
	ready := func(id compute.TaskID) compute.Event { return compute.Ready{Task: id, Device: "gpu0"} }
	d.apply(time.Millisecond, ready(1), ready(2), ready(3))
	if !equal(d.resident(), 8*GiB, 8*GiB, 0) {
		t.Errorf("first turn: %v", d.resident())
	}
	d.apply(7 * time.Millisecond)
	if !equal(d.resident(), 0, 8*GiB, 8*GiB) {
		t.Errorf("second turn: %v", d.resident())
	}
	targets := d.apply(13 * time.Millisecond)
	if !equal(d.resident(), 8*GiB, 0, 8*GiB) {
		t.Errorf("third turn: %v", d.resident())
	}
	if q := targets[0].Quantum; q < LinkRate.Time(8*GiB) {
		t.Errorf("turns of %v do not hide a load", q)
	}
}

// couple is two tasks under a budget of 16 GiB of which one has the turn, as they claim.
type couple struct {
	p      *Planner
	claims []Claim
}

func newCouple(t *testing.T, a, b Claim) *couple {
	t.Helper()
	p, err := NewPlanner(Config{Budget: 16 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	a.Task, b.Task = 1, 2
	return &couple{p, []Claim{a, b}}
}

// decide is the planner's word while the first has the turn, until that time; both take note
// of it.
func (c *couple) decide(now time.Duration, first compute.TaskID, until time.Duration) []Target {
	slots := []compute.Slot{{Task: first, Start: 0}, {Task: 3 - first, Start: until}}
	d := c.p.Decide(now, slices.Values(slots), nil, c.claims)
	for i := range c.claims {
		c.claims[i].Seen = d.Targets[i].Want
	}
	return d.Targets
}

// TestPinnedMemoryIsNotAWorkingSet: who tells none and has memory that cannot leave counts
// with all that it has: it has its memory in its turn, and the next one makes room for that.
func TestPinnedMemoryIsNotAWorkingSet(t *testing.T) {
	c := newCouple(t, Claim{Footprint: 12 * GiB, Pinned: GiB, Resident: 4 * GiB, Ready: true, Stopped: true}, Claim{Footprint: 12 * GiB, Working: 12 * GiB, Pinned: GiB, Resident: 12 * GiB, Ready: true, Stopped: true})
	targets := c.decide(time.Second, 1, 3*time.Second)
	if want := targets[0].Desired; want != 12*GiB || !targets[0].Hold {
		t.Errorf("who tells no working set should have %v, held %v, want all of 12 GiB", want, targets[0].Hold)
	}
	if targets[1].Move != Out || targets[1].Desired != 4*GiB {
		t.Errorf("the next one should have %v, moves %v", targets[1].Desired, targets[1].Move)
	}
}

// TestExchangesAreHeldFor: a task that should exchange what it has for what it uses is held
// for that while it is not its turn, and while it is for a short time after long ones; it
// ends though the task does nothing.
func TestExchangesAreHeldFor(t *testing.T) {
	c := newCouple(t, Claim{Footprint: 8 * GiB, Resident: 8 * GiB, Ready: true, Open: true}, Claim{Footprint: 12 * GiB, Working: 8 * GiB, Resident: 8 * GiB, Ready: true, Stopped: true})
	claims := c.claims
	now := time.Second
	held := func(first compute.TaskID, task int) (n int) {
		for range 3000 {
			if c.decide(now, first, time.Hour)[task].Hold {
				n++
			}
			now += time.Millisecond
		}
		return n
	}
	if n := held(1, 1); n != 0 {
		t.Errorf("held for %d ms for nothing", n)
	}
	claims[1].Exchange = GiB
	if n := held(1, 1); n < 90 || n > 600 {
		t.Errorf("held for %d of 3000 ms while another runs, and nothing moves", n)
	}
	if n := held(2, 1); n < 30 || n > 1000 {
		t.Errorf("held for %d of 3000 ms of its turn", n)
	}
	claims[1].Exchange = BatchBytes - Granularity
	if n := held(2, 1); n != 0 {
		t.Errorf("held for %d ms for less than a batch", n)
	}
}

// TestFalseExchangesEnd: a task that claims to have more to exchange than there is in the
// world, and moves a little of it now and then, is held for a part of its turn.
func TestFalseExchangesEnd(t *testing.T) {
	c := newCouple(t, Claim{Footprint: MaxBytes, Working: GiB, Resident: 8 * GiB, Exchange: MaxBytes, Ready: true, Open: true}, Claim{Footprint: 12 * GiB, Working: 8 * GiB, Resident: 4 * GiB, Ready: true, Stopped: true})
	claims := c.claims
	const steps = 60000
	held := 0
	for i := range steps {
		if i%50 == 0 {
			claims[0].Resident += Granularity * Bytes(1-i/50%2*2)
		}
		now := time.Second + time.Duration(i)*time.Millisecond
		target := c.decide(now, 1, now+time.Hour)[0]
		if target.Hold {
			held++
		}
		if w := target.Wait; w > DefaultWaitCap {
			t.Fatalf("its turn is prolonged by %v ahead", w)
		}
	}
	if held > steps/3 {
		t.Errorf("held for %d of %d ms of its turn", held, steps)
	}
}

// TestExchangesAreAtOnce: whose turn it is and who turns to other memory is Stopped for it
// at once, also if it was held back when its turn began, or if there is more room for it:
// what it reads from the host it reads at a thirtieth of the speed. The next time waits until
// it ran for some while, over turns of others too, unless those can run meanwhile. What it
// did not get done in its turn it does after it, however long ago it began to ask.
func TestExchangesAreAtOnce(t *testing.T) {
	c := newCouple(t, Claim{Footprint: 8 * GiB, Working: GiB, Resident: 8 * GiB, Ready: true, Open: true}, Claim{Footprint: 12 * GiB, Working: 4 * GiB, Resident: 3 * GiB, Ready: true, Stopped: true})
	claims := c.claims
	now := time.Second
	first := compute.TaskID(2)
	decide := func() (held bool) {
		held = c.decide(now, first, time.Hour)[1].Hold
		now += time.Millisecond
		return held
	}
	runs := func(what string, d time.Duration) {
		t.Helper()
		for range int(d / time.Millisecond) {
			if decide() {
				t.Fatalf("%s: held", what)
			}
		}
	}
	holds := func(what string) {
		t.Helper()
		if !decide() {
			t.Fatalf("%s: not held", what)
		}
	}
	holds("for what it misses at the beginning of its turn")
	claims[1].Resident = 8 * GiB
	runs("all is there", 60*time.Millisecond)
	claims[1].Exchange = GiB
	holds("it turned to other memory")
	claims[1].Exchange = 0
	runs("exchanged", 5*time.Millisecond)
	claims[0].Working, claims[0].Resident = 8*GiB, 7*GiB // who cannot run meanwhile
	claims[1].Exchange = GiB
	runs("it has just exchanged", 4*LinkRate.Time(GiB)-10*time.Millisecond)
	claims[0].Working, claims[0].Resident = GiB, 8*GiB
	holds("others can run meanwhile")
	first = 1
	for range 200 {
		if decide() {
			claims[1].Exchange = 0
		}
	}
	if claims[1].Exchange != 0 {
		t.Fatal("its turn is over, and it is not held for its exchange")
	}
	first = 2
	runs("its turn again", 20*time.Millisecond)
	claims[1].Exchange = GiB
	holds("long after its last exchange")
}

// TestExchangesKeepTheirRoom: what a task sends out to have other memory of its come in is
// not given to others that would take it.
func TestExchangesKeepTheirRoom(t *testing.T) {
	c := newCouple(t, Claim{Footprint: 16 * GiB, Working: 2 * GiB, Resident: 10 * GiB, Ready: true, Open: true}, Claim{Footprint: 16 * GiB, Working: 2 * GiB, Resident: 6 * GiB, Ready: true, Stopped: true})
	claims := c.claims
	for _, first := range []compute.TaskID{1, 2} { // in its turn, and while it is not
		claims[1].Exchange, claims[1].Resident = GiB, 6*GiB
		for i := range 40 {
			target := c.decide(time.Second+time.Duration(i)*time.Millisecond, first, time.Hour)[1]
			if i == 0 && !target.Hold {
				t.Fatalf("turn of %d: not held", first)
			}
			if b := target.Bytes; b != 6*GiB {
				t.Fatalf("turn of %d: may have %s of the 6 GiB that it had, with %s there", first, b, claims[1].Resident)
			}
			switch i {
			case 5:
				claims[1].Resident -= 256 * MiB
			case 10:
				claims[1].Resident += 256 * MiB
			case 15:
				claims[1].Exchange = 0
			}
		}
	}
}

// TestWhatATurnDoesNotTouchIsNotWaitedFor: neither is a turn prolonged for more than the next
// one touches, nor does who exchanges keep the device from one whose working set is there, nor
// is whose turn it is stopped for it.
func TestWhatATurnDoesNotTouchIsNotWaitedFor(t *testing.T) {
	c := newCouple(t, Claim{Footprint: 8 * GiB, Working: 2 * GiB, Resident: 4 * GiB, Ready: true, Open: true}, Claim{Footprint: 8 * GiB, Working: 2 * GiB, Resident: 4 * GiB, Ready: true, Stopped: true})
	claims := c.claims
	for i := range 500 {
		claims[0].Exchange = 0
		if i >= 400 {
			claims[0].Exchange = GiB
		}
		now := time.Second + time.Duration(i)*time.Millisecond
		targets := c.decide(now, 1, now+10*time.Millisecond)
		if i < 400 && targets[0].Hold {
			t.Fatalf("after %d ms: held for what it does not touch: %+v", i, targets[0])
		}
		if over := targets[0].Overtime; over > 0 {
			t.Fatalf("prolonged by %v", over)
		}
		if targets[1].Desired != 8*GiB {
			t.Fatalf("there is room for all, and it is to have %s", targets[1].Desired)
		}
		if i == 400 && !targets[0].Yield {
			t.Fatalf("nobody is to run while it exchanges: %+v", targets[0])
		}
	}
}

// TestForegroundKeepsOrReturns: under HPF a foreground that comes back every 100
// ms keeps its memory between its requests; one that comes every minute returns
// it, and has it again when it is due.
func TestForegroundKeepsOrReturns(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		idle  Bytes // what it has in between
	}{{100 * time.Millisecond, 4 * GiB}, {time.Minute, 0}} {
		d := newDevice(t, compute.HPF(), 16*GiB, 4*GiB, 16*GiB)
		now := time.Second
		d.apply(now, compute.Ready{Task: 2, Device: "gpu0"})
		for range 3 {
			d.apply(now, compute.Ready{Task: 1, Device: "gpu0"})
			if d.resident()[0] != 4*GiB {
				t.Fatalf("every %v: at work it has %s", c.every, d.resident()[0])
			}
			d.apply(now+10*time.Millisecond, compute.Idle{Task: 1, Device: "gpu0"})
			now += c.every
		}
		d.apply(now - c.every/2)
		if !equal(d.resident(), c.idle, 16*GiB-c.idle) {
			t.Errorf("every %v: half way to its next request they have %v", c.every, d.resident())
		}
		d.apply(now - 50*time.Millisecond)
		if d.resident()[0] != 4*GiB {
			t.Errorf("every %v: just before its next request it has %s", c.every, d.resident()[0])
		}
	}
}
