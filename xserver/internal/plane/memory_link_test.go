package plane

import (
	"math/rand/v2"
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/memory"
	"xmsched/preempt/board"
)

// slowLink is a link by which memory moves in whole batches, as it does; the zero value
// is one as fast as the H200's, on which every step moves what it carries.
type slowLink struct {
	in, out memory.Rate
	pins    bool // host memory is made for all that goes out, meanwhile

	// Host memory is made at this rate, for one process at a time, ahead of what goes out;
	// the copy of what came in is kept as clean. 0: it is made as keepSlots says.
	pinning memory.Rate
	pinned  time.Duration // until when that is made which was begun
	next    int           // whose turn it is to make some
}

// aSlot is what is made of host memory at once.
const aSlot = 32 * memory.MiB

// pin makes host memory, a slot for each who may have more in turn.
func (r *memoryRig) pin() {
	l := &r.link
	if l.pinning == 0 {
		return
	}
	for idle := 0; l.pinned < r.now && idle < len(r.tenants); {
		c := r.tenants[l.next%len(r.tenants)]
		l.next++
		if c.dead || c.slots+aSlot > min(c.hostBound(), c.allocated) || !c.reserves() && c.rests > l.pinned {
			idle++
			continue
		}
		c.slots, idle = c.slots+aSlot, 0
		l.pinned += l.pinning.Time(aSlot)
		if _, m := c.device.Memory(); m.Flags&board.MemoryGentle != 0 {
			c.rests = l.pinned + gentleness*l.pinning.Time(aSlot)
		}
	}
	l.pinned = max(l.pinned, r.now)
}

// gentleness is how much longer than the making of a slot ahead the pause after it is, while
// the client is to be gentle.
const gentleness = 9

// reserves says whether the client makes host memory for what is to leave the device now.
func (c *tenant) reserves() bool {
	_, m := c.device.Memory()
	c.forgoes(aSlot)
	return c.stopped() && c.resident > memory.Bytes(m.Target) && c.idle() < aSlot
}

// trim gives up slots that are too many, clean copies last.
func (c *tenant) trim() {
	there := c.allocated - c.resident
	c.slots = max(there, min(c.slots, c.hostBound()))
	c.kept = min(c.kept, c.slots-there)
}

// leaves is how much of the rest leaves the device in a step: what is clean at once.
func (c *tenant) leaves(step time.Duration, rest memory.Bytes) (n memory.Bytes) {
	if c.rig.link.pinning == 0 {
		return c.carries(out, step, min(rest, c.hostBound()-(c.allocated-c.resident)))
	}
	clean := memory.Bytes(0)
	if !c.writes {
		clean = min(c.kept, rest)
	}
	c.kept -= clean
	c.forgoes(rest - clean)
	return clean + c.carries(out, step, min(rest-clean, c.idle()-clean))
}

// idle is what of its host memory holds nothing.
func (c *tenant) idle() memory.Bytes { return c.slots - (c.allocated - c.resident) - c.kept }

// forgoes gives up copies, which are of no use any more, for so much that is to go, where more
// host memory may not be made, or should not be for that.
func (c *tenant) forgoes(b memory.Bytes) {
	_, m := c.device.Memory()
	if c.writes && (m.Flags&board.MemoryGentle != 0 || c.slots+aSlot > c.hostBound()) {
		c.kept -= max(0, min(c.kept, b-c.idle()))
	}
}

type way bool

const (
	in  way = true
	out way = false
)

// carries is what of the rest is there after another step.
func (c *tenant) carries(w way, step time.Duration, rest memory.Bytes) (n memory.Bytes) {
	rest = max(0, rest)
	l := c.rig.link
	if l.in == 0 {
		return min(rest, memory.LinkRate.Over(step).Down())
	}
	rate := l.out
	if w == in {
		rate = l.in
	}
	c.wire += rate.Over(step)
	for batch := min(memory.BatchBytes, rest); rest > 0 && c.wire >= batch; batch = min(memory.BatchBytes, rest) {
		n, rest, c.wire = n+batch, rest-batch, c.wire-batch
	}
	if rest == 0 {
		c.wire = 0
	}
	if w == in {
		c.loads = min(rest, 2*memory.BatchBytes)
	}
	return n
}

// taking lets two tasks of 10 GiB take turns under a budget of 16 for a while.
func taking(t *testing.T, l slowLink, sheet memory.Rate, d time.Duration) (r *memoryRig, a, b *tenant) {
	r = newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	r.link = l
	if sheet != 0 {
		r.turn(func(p *Plane) { p.SetLink(compute.Device(testGPU.UUID.String()), sheet) })
	}
	a, b = r.tenant(1, 0, 3), r.tenant(2, 0, 3)
	for _, c := range []*tenant{a, b} {
		c.ready(true)
		for range 10 {
			c.allocate(gib)
		}
	}
	r.live(d)
	return r, a, b
}

func (r *memoryRig) measured() memory.Rate {
	state, _ := r.plane.DescribeMemory()
	return state.Devices[0].Link
}

// TestSlowLinkIsMeasured has two tasks that do not fit together and a link of a tenth of
// what is taken at first: turns become long enough for their memory to be there.
func TestSlowLinkIsMeasured(t *testing.T) {
	for name, l := range map[string]slowLink{
		"both ways": {in: 5e9, out: 5e9},
		"out":       {in: 20e9, out: 5e9},
	} {
		r, a, b := taking(t, l, 0, 12*time.Second)
		if got := r.measured(); got < 4e9 || got > 6e9 {
			t.Errorf("%s 5 GB/s: taken for %.1f", name, got/1e9)
		}
		ran, here := a.onTurn+b.onTurn, a.here+b.here
		r.live(12 * time.Second)
		ran, here = a.onTurn+b.onTurn-ran, a.here+b.here-here
		t.Logf("%s: %.1f GB/s, ran %v, %v of it with all memory", name, r.measured()/1e9, ran, here)
		if here < ran*8/10 || ran < 8*time.Second {
			t.Errorf("%s: ran %v of 12 s, %v of it with all memory", name, ran, here)
		}
	}
}

// TestStarvedMovesSayNothing has memory come in only as others' goes out, which host
// memory has to be made for at a tenth of the link's speed.
func TestStarvedMovesSayNothing(t *testing.T) {
	r, a, b := taking(t, slowLink{in: 45e9, out: 4.5e9, pins: true}, 48e9, 10*time.Second)
	if got := r.measured(); got < 42e9 || got > 48e9 {
		t.Errorf("a link of 45 GB/s is taken for %.1f", got/1e9)
	}
	if a.in == 0 || b.in == 0 {
		t.Error("nothing came in")
	}
}

// TestSheetBoundsTheLink: what the sheet says holds at first, and is the most.
func TestSheetBoundsTheLink(t *testing.T) {
	r, a, b := taking(t, slowLink{in: 40e9, out: 40e9}, 24e9, 0)
	if got := r.measured(); got != 24e9 {
		t.Errorf("by the sheet 24 GB/s, taken for %.1f", got/1e9)
	}
	r.live(5 * time.Second)
	if got := r.measured(); got != 24e9 {
		t.Errorf("24 GB/s by the sheet, 40 by what moved: taken for %.1f", got/1e9)
	}
	device := compute.Device(testGPU.UUID.String())
	r.turn(func(p *Plane) { p.SetLink(device, 48e9) })
	if got := r.measured(); got < 36e9 || got > 44e9 {
		t.Errorf("48 GB/s by the sheet, 40 by what moved: taken for %.1f", got/1e9)
	}
	// What was measured is known to those who come when all are gone.
	r.turn(func(p *Plane) { p.Remove(a.id); p.Remove(b.id) })
	r.tenants = nil
	r.tenant(3, 0, 3)
	if got := r.measured(); got < 36e9 || got > 44e9 {
		t.Errorf("when all had left: taken for %.1f", got/1e9)
	}
}

// TestLinkByLiars has clients tell any figures: the rate stays one that can be.
func TestLinkByLiars(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	r.turn(func(p *Plane) { p.SetLink(compute.Device(testGPU.UUID.String()), 24e9) })
	random := rand.New(rand.NewPCG(7, 7))
	liars := []*tenant{r.tenant(1, 0, 3), r.tenant(2, 0, 3)}
	for _, c := range liars {
		c.ready(true)
	}
	any := func() uint64 { return random.Uint64() >> random.UintN(64) }
	for range 3000 {
		c := liars[random.IntN(2)]
		word, _ := c.device.Memory()
		c.device.TellMemory(board.MemoryView{
			Did: word, State: board.MemoryActive, Allocated: any(), Resident: any(), Loading: any(), Host: any(),
			In: any(), Out: any(), Slots: any(), Clean: board.CleanBytes{Hashed: any() * random.Uint64N(2)},
		})
		c.obey()
		c.ring()
		r.pass(time.Duration(random.IntN(40)) * time.Millisecond)
		if got := r.measured(); !(got >= memory.LeastLink && got <= 24e9) {
			t.Fatalf("at %v: a link of %g", r.now, float64(got))
		}
	}
}

// TestStretch times what came while there was more to come all along.
func TestStretch(t *testing.T) {
	const ms = time.Millisecond
	var s stretch
	want := func(what string, more bool, now, took time.Duration) {
		t.Helper()
		if got, timed := s.came(more, now); timed != (took > 0) || timed && got != took {
			t.Errorf("%s: %v, timed %v; want %v", what, got, timed, took)
		}
	}
	want("out of nothing", true, 100*ms, 0)
	want("with more to come", true, 103*ms, 3*ms)
	want("the last", false, 106*ms, 3*ms)
	want("after a pause", true, 200*ms, 0)
	s.end()
	want("after an end", false, 210*ms, 0)
	s.begin(300 * ms)
	s.begin(305 * ms)
	want("the first, soon", false, 305*ms, 0)
	s.begin(400 * ms)
	want("the first, late", true, 430*ms, 30*ms)
	s.begin(440 * ms)
	want("the next", true, 450*ms, 20*ms)
}
