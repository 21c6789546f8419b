package plane

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xmsched/compute"
	"xmsched/nvx/choose"
	"xmsched/preempt/board"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a plane on a clock that the test moves.
type rig struct {
	t     *testing.T
	plane *Plane
	now   time.Duration
	next  time.Duration
	ids   ProcessID

	hostOf string // of the guests
}

// newRig has a plane that manages memory, as daemons do, and more than enough of it.
func newRig(t *testing.T) *rig {
	r := &rig{t: t, plane: New(Config{Memory: &Memory{Budget: 1 << 40}}, compute.HPF())}
	r.turn()
	return r
}

// turn runs a turn in which what happened.
func (r *rig) turn(what ...func(*Plane)) {
	r.plane.Begin(r.now)
	for _, f := range what {
		f(r.plane)
	}
	r.next = r.plane.Finish()
}

// switches says what the device loses with a switch in mid-kernel, as a sheet would.
func (r *rig) switches(cost time.Duration) {
	r.turn(func(p *Plane) {
		p.SetOffer(compute.Device(testGPU.UUID.String()), Offer{Costs: choose.Costs{Switch: max(cost, 1)}})
	})
}

// pass moves the clock, with a turn whenever a timer is due.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	end := r.now + d
	for turns := 0; r.next <= end; turns++ {
		if turns > 10000 {
			r.t.Fatalf("10000 turns before %v: a timer stands still at %v", end, r.next)
		}
		r.now = max(r.now, r.next)
		r.turn()
	}
	r.now = end
}

// guest is a process of a test; it claims device 0 and acknowledges at once
// unless told not to.
type guest struct {
	r      *rig
	id     ProcessID
	board  *board.Board
	device board.Device
}

var testGPU = board.Identity{UUID: board.UUID{1}, Name: "test GPU"}

func (r *rig) guest(task compute.TaskID, priority int) *guest {
	r.t.Helper()
	b, err := board.Create(1, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = b.Close() })
	r.ids++
	g := &guest{r: r, id: r.ids, board: b, device: b.Device(0)}
	g.device.Claim(testGPU)
	r.turn(func(p *Plane) {
		p.Add(Process{ID: g.id, Task: task, Hints: compute.Hints{Priority: priority}, Board: b, Settings: Settings{Level: 1, Threshold: 16, Batch: 8}, HostOf: r.hostOf})
	})
	return g
}

func (g *guest) ring() { g.r.turn(func(p *Plane) { p.Edge(g.id) }) }

func (g *guest) ready(ready bool) {
	g.device.SetReady(ready)
	g.ring()
}

func (g *guest) ack() { g.device.Ack(g.device.Gate()) }

func (g *guest) want(what string, open bool, mode board.Mode) {
	g.r.t.Helper()
	gate, grant := g.device.Grant()
	if gate == 0 || gate.Open() != open || grant.Mode != mode {
		g.r.t.Errorf("%s at %v: gate %v mode %d, want open %v mode %d", what, g.r.now, gate, grant.Mode, open, mode)
	}
}

func TestAloneIsFree(t *testing.T) {
	r := newRig(t)
	r.guest(1, 0).want("alone", true, board.Free)
}

func TestIdleCountsAfterAWhile(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.ready(true)
	high.ready(true)
	low.want("while high is ready", false, board.Bounded)
	high.ready(false)
	low.want("just after high turned idle", false, board.Bounded)
	r.pass(100 * time.Microsecond)
	high.ready(true)
	high.ready(false)
	r.pass(150 * time.Microsecond)
	low.want("250 us after the first idle edge, 150 after the last", false, board.Bounded)
	r.pass(60 * time.Microsecond)
	low.want("210 us after the last idle edge", true, board.Bounded)
}

func TestLostRingAtTheEndOfIdling(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.ready(true)
	high.ready(true)
	high.ready(false)
	high.device.SetReady(true) // its bell is on the way
	r.pass(300 * time.Microsecond)
	low.want("with high back", false, board.Bounded)
}

func TestEdgesWhileIdlingNeedNoBell(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.ready(true)
	watched := func(want bool, when string) {
		t.Helper()
		if high.device.Watched() != want {
			t.Errorf("%s: watched %v, want %v", when, !want, want)
		}
	}
	high.ready(true)
	watched(false, "while ready")
	high.ready(false)
	watched(true, "after an idle edge")

	high.device.SetReady(true) // without a bell
	r.pass(250 * time.Microsecond)
	low.want("with high back", false, board.Bounded)
	watched(false, "when it was found back")

	high.ready(false)
	r.pass(150 * time.Microsecond)
	high.device.SetReady(true)
	high.device.SetReady(false)
	r.pass(150 * time.Microsecond)
	low.want("300 us after an idle edge that was not the last", false, board.Bounded)
	watched(true, "while the last idle edge is waited out")
	r.pass(100 * time.Microsecond)
	low.want("with high idle for long enough", true, board.Bounded)
	watched(false, "when it counts as idle")

	high.ready(true)
	high.ready(false)
	r.turn(func(p *Plane) { p.SetStopped(high.id, true) })
	watched(false, "when it is stopped")
}

func TestNewcomerWaitsForAcknowledgement(t *testing.T) {
	r := newRig(t)
	old := r.guest(1, 0)
	old.ready(true)
	old.ack()
	young := r.guest(2, 5)
	young.want("before the acknowledgement", false, board.Top)
	old.want("of a newcomer", true, board.Bounded)
	r.pass(time.Millisecond)
	young.want("1 ms later", false, board.Top)
	old.ack()
	r.pass(250 * time.Microsecond)
	young.want("after the acknowledgement", true, board.Top)
}

func TestNewcomerWaitsFiveMillisecondsAtMost(t *testing.T) {
	r := newRig(t)
	old := r.guest(1, 0)
	old.ready(true)
	young := r.guest(2, 5)
	r.pass(4 * time.Millisecond)
	young.want("after 4 ms", false, board.Top)
	r.pass(1100 * time.Microsecond)
	young.want("after 5 ms", true, board.Top)
}

func TestNewcomerBesideIdleOnesStartsAtOnce(t *testing.T) {
	r := newRig(t)
	r.guest(1, 0)
	r.guest(2, 5).want("beside an idle one", true, board.Top)
}

func TestTaskOfSeveralProcesses(t *testing.T) {
	r := newRig(t)
	other := r.guest(9, 0)
	other.ready(true)
	other.ack()
	a := r.guest(1, 5)
	other.ack()
	r.pass(time.Millisecond)
	b := r.guest(1, 5)
	b.want("joined an answered task", true, board.Top)
	a.ready(true)
	b.ready(true)
	other.want("both ready", false, board.Bounded)
	a.ready(false)
	r.pass(time.Millisecond)
	other.want("one still ready", false, board.Bounded)
	r.turn(func(p *Plane) { p.Remove(b.id) })
	other.want("the ready one died", true, board.Bounded)
	r.turn(func(p *Plane) { p.Remove(a.id) })
	other.want("alone again", true, board.Free)
}

// TestCase32StoppedCountsAsIdle has a stopped process give way, and counted again
// when it runs on.
func TestCase32StoppedCountsAsIdle(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.ready(true)
	high.ready(true)
	if s := r.plane.Suspects(nil); len(s) != 1 || s[0] != high.id {
		t.Errorf("suspects %v, want only %d, who keeps the other out", s, high.id)
	}
	r.turn(func(p *Plane) { p.SetStopped(high.id, true) })
	low.want("high is stopped", true, board.Bounded)
	if s := r.plane.Suspects(nil); len(s) != 1 || s[0] != high.id {
		t.Errorf("suspects %v, want %d, who may run on", s, high.id)
	}
	r.turn(func(p *Plane) { p.SetStopped(high.id, false) })
	low.want("high runs on", false, board.Bounded)
	r.turn(func(p *Plane) { p.SetStopped(high.id, true) })
	high.ring()
	low.want("high rings", false, board.Bounded)
}

func TestNobodyIsSuspectWhenNobodyWaits(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	high.ready(true)
	if s := r.plane.Suspects(nil); len(s) != 0 {
		t.Errorf("suspects %v while %d has no work", s, low.id)
	}
}

func TestEmptyQueuesArePresumedIdle(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	s := high.board.Slot(1)
	s.Take(0xabc, 0, 0)
	s.Submit(8)
	s.Mark(8)
	low.ready(true)
	high.ready(true)
	r.pass(20 * time.Millisecond)
	low.want("high has commands outstanding", false, board.Bounded)
	s.Complete(8)
	r.pass(20 * time.Millisecond)
	low.want("high's queues are empty", true, board.Bounded)
	s.Submit(1) // without an edge: it never turned idle by its own account
	r.pass(6 * time.Millisecond)
	low.want("high stirs", false, board.Bounded)
	s.Sync(9)
	r.pass(20 * time.Millisecond)
	low.want("high's queues are empty again", true, board.Bounded)
	high.ready(false)
	high.ready(true)
	low.want("high makes an edge", false, board.Bounded)
}

// TestCase37QueuesWithoutSlots holds that queues which share slot 0 are not
// presumed empty, and those beyond the thousandth are seen.
func TestCase37QueuesWithoutSlots(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	for i := 1; i < 3000; i++ {
		high.board.Slot(i).Take(uint64(i), 0, 0)
	}
	high.board.Slot(2999).Submit(1)
	low.ready(true)
	high.ready(true)
	r.pass(20 * time.Millisecond)
	low.want("queue 2999 has a command", false, board.Bounded)
	high.board.Slot(2999).Sync(1)
	high.board.Slot(0).Take(1, 0, 0)
	r.pass(20 * time.Millisecond)
	low.want("queues share slot 0", false, board.Bounded)
	high.board.Slot(0).Take(0, 0, 0)
	r.pass(20 * time.Millisecond)
	low.want("all queues are empty", true, board.Bounded)
}

func TestNothingIsPolledWhenNobodyWaits(t *testing.T) {
	r := newRig(t)
	r.guest(1, 0)
	r.guest(2, 5).ready(true)
	r.pass(10 * time.Millisecond) // what they have is looked at once
	turns := 0
	for end := r.now + time.Second; r.next < end; turns++ {
		r.now = r.next
		r.turn()
	}
	if turns > 6 { // heartbeats
		t.Errorf("%d turns in a second in which nothing changed", turns)
	}
}

func TestGateOpenedByLeaseIsTakenBack(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.ready(true)
	high.ready(true)
	if !low.device.OpenByLease(low.device.Gate()) {
		t.Fatal("the gate is not closed")
	}
	r.pass(200 * time.Millisecond)
	low.want("after a heartbeat", false, board.Bounded)
}

func TestHeartbeatFindsClaimsWithoutARing(t *testing.T) {
	r := newRig(t)
	b, err := board.Create(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r.turn(func(p *Plane) { p.Add(Process{ID: 77, Task: 1, Board: b}) })
	beat := b.DaemonBeat()
	b.Device(3).Claim(testGPU)
	r.pass(time.Second)
	if g := b.Device(3).Gate(); g == 0 || !g.Open() {
		t.Errorf("gate is %v", g)
	}
	if n := b.DaemonBeat() - beat; n < 4 || n > 6 {
		t.Errorf("%d heartbeats in a second, want 5", n)
	}
}

// TestCase39DevicesByUUID has two processes call the same device by different
// sections and ordinals.
func TestCase39DevicesByUUID(t *testing.T) {
	r := newRig(t)
	low := r.guest(1, 0)
	b, err := board.Create(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	other := board.Identity{UUID: board.UUID{2}, Ordinal: 0}
	same := testGPU
	same.Ordinal = 1
	b.Device(0).Claim(other)
	b.Device(1).Claim(same)
	r.turn(func(p *Plane) {
		p.Add(Process{ID: 50, Task: 2, Hints: compute.Hints{Priority: 1}, Board: b})
	})
	low.ready(true)
	b.Device(0).SetReady(true)
	r.turn(func(p *Plane) { p.Edge(50) })
	low.want("work on another device", true, board.Bounded)
	b.Device(1).SetReady(true)
	r.turn(func(p *Plane) { p.Edge(50) })
	low.want("work on the same device", false, board.Bounded)
}

// TestCase35PolicyKeepsHints switches the policy forth and back.
func TestCase35PolicyKeepsHints(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 0)
	r.turn(func(p *Plane) { p.SetHints(2, compute.Hints{Priority: 7}) })
	low.ready(true)
	high.ready(true)
	low.want("under HPF", false, board.Bounded)
	r.turn(func(p *Plane) { p.SetPolicy(compute.RR()) })
	if _, g := high.device.Grant(); g.Mode != board.Bounded {
		t.Errorf("under RR high has mode %d, want bounded", g.Mode)
	}
	r.turn(func(p *Plane) { p.SetPolicy(compute.HPF()) })
	low.want("under HPF again", false, board.Bounded)
	high.want("under HPF again", true, board.Top)
}

func TestFloodIsPolledInstead(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.ready(true)
	for i := 0; !r.plane.Throttled(high.id); i++ {
		high.ring()
		if i > 2*floodRings {
			t.Fatalf("%d rings in no time and still heard", i)
		}
	}
	high.device.SetReady(true) // unheard
	r.pass(floodPoll)
	low.want("half a millisecond after an unheard edge", false, board.Bounded)
	r.pass(2 * floodWindow)
	if r.plane.Throttled(high.id) {
		t.Error("still throttled after two quiet windows")
	}
}

func TestFloodOfOneAloneIsLookedAtWhenARivalComes(t *testing.T) {
	r := newRig(t)
	low := r.guest(1, 0)
	r.pass(10 * time.Millisecond)
	for !r.plane.Throttled(low.id) {
		low.ring()
	}
	low.device.SetReady(true) // unheard, and of no interest to anybody
	if d := r.next - r.now; d < floodWindow {
		t.Errorf("the next turn is in %v though it is alone", d)
	}
	high := r.guest(2, 5)
	if s := r.plane.Describe().Seats[0]; !s.Ready {
		t.Error("what it claims was not looked at when the other came")
	}
	high.ready(true)
	low.want("with a rival", false, board.Bounded)
}

// TestEdgesAllocateNothing guards the hot path: no garbage, so no collector.
func TestEdgesAllocateNothing(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.ready(true)
	edge := func(ready bool) {
		r.now += time.Millisecond
		r.plane.Begin(r.now)
		high.device.SetReady(ready)
		r.plane.Edge(high.id)
		r.next = r.plane.Finish()
		r.now += time.Millisecond
		r.plane.Begin(r.now)
		r.next = r.plane.Finish()
	}
	edge(true)
	edge(false)
	if n := testing.AllocsPerRun(1000, func() { edge(true); edge(false) }); n > 0 {
		t.Errorf("two edges allocate %v times", n)
	}
}

// BenchmarkEdge is a turn of the plane: one edge, one gate word of another.
func BenchmarkEdge(b *testing.B) {
	for _, others := range []int{0, 100} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			p := New(Config{IdleAfter: time.Nanosecond}, compute.HPF())
			now := time.Duration(0)
			add := func(id int, priority int) board.Device {
				page, err := board.Create(1, 1)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = page.Close() })
				page.Device(0).Claim(testGPU)
				p.Begin(now)
				p.Add(Process{ID: ProcessID(id), Task: compute.TaskID(id), Hints: compute.Hints{Priority: priority}, Board: page})
				p.Finish()
				return page.Device(0)
			}
			low, high := add(1, 0), add(2, 5)
			for i := range others {
				add(3+i, -100)
			}
			low.SetReady(true)
			b.ReportAllocs()
			ready := false
			for b.Loop() {
				ready = !ready
				now += time.Millisecond
				p.Begin(now)
				high.SetReady(ready)
				p.Edge(2)
				p.Finish()
			}
		})
	}
}

// BenchmarkEdgeCloses is an edge that closes everybody else's gate, or opens it, where
// one of them has work: the whole turn, and how much of it passes until that one's
// word stands.
func BenchmarkEdgeCloses(b *testing.B) {
	for _, others := range []int{1, 255} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			p := New(Config{IdleAfter: time.Nanosecond}, compute.HPF())
			now := time.Duration(0)
			var sections []board.Device
			for i := range others + 1 {
				page, err := board.Create(1, 1)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = page.Close() })
				page.Device(0).Claim(testGPU)
				if i == 0 {
					page.Device(0).SetReady(true)
				}
				p.Begin(now)
				p.Add(Process{ID: ProcessID(i + 1), Task: compute.TaskID(i + 1), Hints: compute.Hints{Priority: i / others}, Board: page})
				p.Finish()
				sections = append(sections, page.Device(0))
			}
			low, high := sections[0], sections[others]
			b.ReportAllocs()
			ready := false
			for b.Loop() {
				ready = !ready
				now += time.Millisecond
				p.Begin(now)
				high.SetReady(ready)
				p.Edge(ProcessID(others + 1))
				p.Finish()
				if !ready { // it counts as idle in the next turn
					now += time.Millisecond
					p.Begin(now)
					p.Finish()
				}
				if low.Gate().Open() == ready {
					b.Fatal("the one with work was not answered")
				}
			}
		})
	}
}

func TestReleaseOpensEveryGate(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.ready(true)
	high.ready(true)
	r.plane.Release()
	low.want("after the end", true, board.Free)
	high.want("after the end", true, board.Free)
}

// TestGarbageBoards lets clients write noise over their pages while two honest
// ones are scheduled; nothing of it reaches those.
func TestGarbageBoards(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	var noisy []*guest
	for i := range 3 {
		noisy = append(noisy, r.guest(compute.TaskID(10+i), 0))
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		g := noisy[rnd.IntN(len(noisy))]
		scribble(g.board, rnd)
		g.ring()
		r.pass(time.Duration(rnd.IntN(3000)) * time.Microsecond)
		high.ready(true)
		low.ready(true)
		low.want("beside noise", false, board.Bounded)
		if gate := high.device.Gate(); !gate.Open() {
			t.Fatalf("the highest is kept out by noise: %v", gate)
		}
		high.ready(false)
		r.pass(time.Millisecond)
		if gate := low.device.Gate(); !gate.Open() {
			t.Fatalf("low is kept out by noise: %v", gate)
		}
	}
}

// scribble fills claims and queues with what a hostile client may write: the
// device claims of the other test processes among it.
func scribble(b *board.Board, rnd *rand.Rand) {
	for i := range board.Devices {
		d := b.Device(i)
		id := testGPU
		if rnd.IntN(2) == 0 {
			id.UUID = board.UUID{byte(rnd.Uint32()), byte(rnd.Uint32())}
		}
		switch rnd.IntN(4) {
		case 0:
			d.Leave()
		case 1:
			d.Claim(id)
		}
		d.SetReady(rnd.IntN(2) == 0)
		d.Ack(board.Gate(rnd.Uint32()))
		d.SetWaiting(rnd.Uint32())
		d.AddLaunches(rnd.Uint64())
		d.OpenByLease(d.Gate())
	}
	for range 50 {
		s := b.Slot(rnd.IntN(board.Slots))
		s.Take(rnd.Uint64(), int(int32(rnd.Uint32())), board.SlotFlags(rnd.Uint32()))
		s.Submit(rnd.Uint64())
		s.Mark(rnd.Uint64())
		s.Sync(rnd.Uint64())
		s.Complete(rnd.Uint64())
	}
	b.SetUncovered(rnd.Uint32())
	b.SetQueuesOver(rnd.Uint32())
}

func TestDescribe(t *testing.T) {
	r := newRig(t)
	g := r.guest(4, 3)
	g.ready(true)
	g.device.AddLaunches(12)
	g.device.SetWaiting(1)
	r.pass(2 * time.Millisecond)
	s := r.plane.Describe()
	if s.Policy != "HPF" || s.Devices != 1 || len(s.Seats) != 1 || len(s.Processes) != 1 {
		t.Fatalf("%+v", s)
	}
	seat := s.Seats[0]
	if seat.Task != 4 || seat.DeviceName != "test GPU" || !seat.Ready || !seat.Open || seat.Launches != 12 || seat.Waiting != 1 {
		t.Errorf("%+v", seat)
	}
}

// TestClaimsOutOfTheirOrder are found by a ring, and without one by a later heartbeat.
func TestClaimsOutOfTheirOrder(t *testing.T) {
	r := newRig(t)
	g := r.guest(1, 0)
	other := testGPU
	other.UUID[0] ^= 0xff
	g.board.Device(9).Claim(other)
	g.ring()
	if g.board.Device(9).Gate() == 0 {
		t.Error("a section far behind the others was rung for and is not answered")
	}
	other.UUID[1] ^= 0xff
	g.board.Device(14).Claim(other)
	r.pass((fullLook + 1) * 200 * time.Millisecond)
	if g.board.Device(14).Gate() == 0 {
		t.Error("its claim without a ring was not found")
	}
	other.UUID[2] ^= 0xff
	late := r.guest(2, 0) // has one section
	late.board.Device(3).Claim(other)
	late.device.SetReady(true)
	late.ring() // one ring for both
	r.pass((fullLook + 1) * 200 * time.Millisecond)
	if late.board.Device(3).Gate() == 0 {
		t.Error("a claim that came with an edge was not found")
	}
}
