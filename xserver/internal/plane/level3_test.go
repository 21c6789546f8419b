package plane

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/nvx/choose"
	"xmsched/preempt/board"
)

// offered is what the device of these tests offers.
var offered = Offer{Level3: true}

// at3 is a guest that can do Level 3 and carries wishes out when told to.
func (r *rig) at3(task compute.TaskID, priority int) *guest {
	r.t.Helper()
	r.turn(func(p *Plane) { p.SetOffer(compute.Device(testGPU.UUID.String()), offered) })
	g := r.guest(task, priority)
	g.configure(0, 16, 8)
	g.canDo(3, board.NothingInTheWay)
	return g
}

// obey does what is wished, in no time, and does not ring.
func (g *guest) obey() board.HoldView {
	want, w := g.device.Wish()
	v := g.board.HoldView(0)
	if w.Hold != board.HoldNone && v.Held == board.HoldNone {
		v.Holds++
	}
	v.Did, v.Held, v.SliceUS, v.Error = want, w.Hold, w.SliceUS, 0
	v.HoldTime, v.ReleaseTime = 600*time.Microsecond, 400*time.Microsecond
	g.device.Did(v)
	return v
}

func (g *guest) wantWish(what string, hold board.Hold, sliceUS uint32) {
	g.r.t.Helper()
	if _, w := g.device.Wish(); w.Hold != hold || w.SliceUS != sliceUS {
		g.r.t.Errorf("%s at %v: wish %+v, want %v, %d us", what, g.r.now, w, hold, sliceUS)
	}
}

// pair3 is a foreground and a background that is armed, both without work.
func pair3(t *testing.T) (r *rig, low, high *guest) {
	r = newRig(t)
	low = r.at3(1, 0)
	high = r.at3(2, 5)
	low.wantWish("beside a foreground", board.HoldNone, 1)
	low.obey()
	low.ring()
	return r, low, high
}

// TestNoWishesBelowLevel3 holds that nobody is asked for anything who cannot do it.
func TestNoWishesBelowLevel3(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.canDo(2, board.NothingInTheWay)
	low.ready(true)
	high.ready(true)
	r.pass(time.Second)
	if want, _ := low.device.Wish(); want != 0 {
		t.Errorf("asked for wish %d", want)
	}
}

func TestLevel3NeedsAnOffer(t *testing.T) {
	r := newRig(t)
	g := r.guest(1, 0)
	g.configure(3, 16, 8)
	g.canDo(3, board.NothingInTheWay)
	g.wantNumbers("before the device was probed", 2, 16, 8)
	if l := r.plane.Describe().Processes[0].Levels[0]; l.Max != 2 || l.Offer != NotProbed {
		t.Errorf("described as %+v", l)
	}
	id := compute.Device(testGPU.UUID.String())
	r.turn(func(p *Plane) { p.SetOffer(id, Offer{Level3: true}) })
	g.wantNumbers("when it passed", 3, 16, 8)
	r.turn(func(p *Plane) { p.SetOffer(id, Offer{Why: "the driver is another"}) })
	g.wantNumbers("when it is offered no more", 2, 16, 8)
	if l := r.plane.Describe().Processes[0].Levels[0]; l.Offer != "the driver is another" {
		t.Errorf("described as %+v", l)
	}
}

func TestBackgroundIsArmedOnlyForAForeground(t *testing.T) {
	r := newRig(t)
	low := r.at3(1, 0)
	low.ready(true)
	if want, _ := low.device.Wish(); want != 0 {
		t.Error("armed while alone")
	}
	high := r.at3(2, 5)
	low.wantWish("when a foreground came", board.HoldNone, 1)
	low.obey()
	r.pass(300 * time.Millisecond)
	r.turn(func(p *Plane) { p.Remove(high.id) })
	low.wantWish("when it left", board.HoldNone, 0)
	low.want("alone again", true, board.Free)
}

// TestRequestThatGrowsSuspends has a foreground of which nothing is known: the
// armed background stops at once, and is suspended when the request lasts.
func TestRequestThatGrowsSuspends(t *testing.T) {
	r, low, high := pair3(t)
	low.ready(true)
	high.ready(true)
	low.want("at the request", false, board.Bounded)
	low.wantWish("at the request", board.HoldNone, 1)
	r.pass(time.Millisecond)
	low.wantWish("after 1 ms", board.HoldNone, 1)
	r.pass(500 * time.Microsecond)
	low.wantWish("after 1.5 ms", board.HoldCompute, 1)
	low.obey()
	r.pass(time.Millisecond)
	high.ready(false)
	r.pass(time.Millisecond)
	low.want("after the request", true, board.Bounded)
	low.wantWish("after the request", board.HoldNone, 1)
	low.obey()
	r.pass(5 * time.Millisecond)
	seats := r.plane.Describe().Seats
	c := seats[0].Cost
	if c.Levels[3].Taken != 1 || c.Stopped < 2*time.Millisecond || c.Stopped > 5*time.Millisecond || c.Lost == 0 {
		t.Errorf("the background's books: %+v", c)
	}
	if g := seats[1].Cost.Levels[3].Given; g != 1 {
		t.Errorf("given %d times at level 3, want 1", g)
	}
}

// requests has the foreground make some that last so long.
func (r *rig) requests(high *guest, others []*guest, n int, length, gap time.Duration) {
	for range n {
		high.ready(true)
		r.pass(length)
		for _, o := range others {
			o.obey()
		}
		high.ready(false)
		r.pass(gap)
		for _, o := range others {
			o.obey()
		}
		r.pass(0)
	}
}

func TestLongRequestsSuspendAtOnce(t *testing.T) {
	r, low, high := pair3(t)
	low.ready(true)
	r.requests(high, []*guest{low}, 5, 6*time.Millisecond, 6*time.Millisecond)
	high.ready(true)
	low.wantWish("at a request that will be long", board.HoldCompute, 1)
	if o := r.plane.Describe().Seats[0].Order; o.Reason != choose.LongRequest {
		t.Errorf("for the reason %q", o.Reason)
	}
}

// TestArmedTakeTurns has two busy backgrounds: one runs at a time, the other is let
// go only after the first says that it stands still.
func TestArmedTakeTurns(t *testing.T) {
	r, a, _ := pair3(t)
	b := r.at3(3, 0)
	b.obey()
	a.ready(true)
	b.ready(true)
	r.pass(time.Millisecond)
	a.obey()
	b.obey()
	r.pass(10 * time.Millisecond)
	a.want("in its turn", true, board.Bounded)
	b.want("waiting for its turn", false, board.Bounded)
	r.pass(choose.TurnLength)
	a.want("after its turn", false, board.Bounded)
	a.wantWish("after its turn", board.HoldCompute, 1)
	b.want("before the first stands still", false, board.Bounded)
	a.obey()
	r.pass(3 * time.Millisecond)
	b.obey()
	b.want("when the first stands still", true, board.Bounded)
	b.wantWish("in its turn", board.HoldNone, 1)
	r.pass(choose.TurnLength)
	b.obey()
	r.pass(time.Millisecond)
	a.obey()
	a.want("in its second turn", true, board.Bounded)
}

// TestLapsedHoldIsAskedForAgain has a client let go by itself, as it does when the
// daemon stood still for a second.
func TestLapsedHoldIsAskedForAgain(t *testing.T) {
	r, low, high := pair3(t)
	low.ready(true)
	high.ready(true)
	r.pass(2 * time.Millisecond)
	v := low.obey()
	r.pass(10 * time.Millisecond)
	for _, lapse := range []func(){func() { v.Held = board.HoldNone }, func() { v.SliceUS = 0 }} {
		lapse()
		low.device.Did(v) // without a new wish
		before, _ := low.device.Wish()
		r.pass(200 * time.Millisecond)
		want, w := low.device.Wish()
		if want == before || w != (board.Wish{Hold: board.HoldCompute, SliceUS: 1}) {
			t.Errorf("wish %d %+v after a heartbeat, was %d", want, w, before)
		}
		v = low.obey()
		r.pass(10 * time.Millisecond)
	}
	before, _ := low.device.Wish()
	r.pass(time.Second)
	if want, _ := low.device.Wish(); want != before {
		t.Error("asked again though nothing lapsed")
	}
}

func TestRefusedWishEndsLevel3(t *testing.T) {
	r, low, high := pair3(t)
	low.ready(true)
	high.ready(true)
	r.pass(2 * time.Millisecond)
	want, _ := low.device.Wish()
	low.device.Did(board.HoldView{Did: want, Error: 0x56})
	r.pass(time.Millisecond)
	low.wantNumbers("after the driver refused", 2, 16, 8)
	low.wantWish("after the driver refused", board.HoldNone, 1)
	low.want("by its gate", false, board.Bounded)
	for _, p := range r.plane.Describe().Processes {
		if l := p.Levels[0]; p.Task == 1 && (l.Level != 2 || l.Offer != board.ControlRefused.String()) {
			t.Errorf("described as %+v", l)
		}
	}
}

// TestSilentClientKeepsNobodyOut has one that never answers: the next goes on
// without it.
func TestSilentClientKeepsNobodyOut(t *testing.T) {
	r, a, high := pair3(t)
	b := r.at3(3, 0)
	b.obey()
	a.ready(true)
	b.ready(true)
	r.pass(choose.TurnLength + 2*time.Millisecond) // a is silent from here on
	for range 40 {
		r.pass(10 * time.Millisecond)
		b.obey()
	}
	if !b.device.Gate().Open() {
		t.Error("the other waits for a silent one")
	}
	high.ready(true)
	a.want("silent, under a foreground", false, board.Bounded)
	b.want("under a foreground", false, board.Bounded)
}

func TestReleaseLetsGo(t *testing.T) {
	r, low, high := pair3(t)
	low.ready(true)
	high.ready(true)
	r.pass(2 * time.Millisecond)
	low.obey()
	r.plane.Release()
	low.want("after the end", true, board.Free)
	low.wantWish("after the end", board.HoldNone, 0)
}

// TestConfiguredDownWhileHeld takes Level 3 away from a suspended task.
func TestConfiguredDownWhileHeld(t *testing.T) {
	r, low, high := pair3(t)
	low.ready(true)
	high.ready(true)
	r.pass(2 * time.Millisecond)
	low.obey()
	for _, level := range []uint32{2, 1} {
		low.configure(level, 16, 8)
		low.want("under the foreground", false, board.Bounded)
		if _, w := low.device.Wish(); w.Hold != board.HoldNone {
			t.Errorf("still to be held at level %d", level)
		}
	}
}

// TestHeldOnesLeave has processes die while they are suspended, are asked to be,
// and run: nobody else is kept out.
func TestHeldOnesLeave(t *testing.T) {
	for _, after := range []time.Duration{0, choose.TurnLength, choose.TurnLength + 3*time.Millisecond} {
		r, a, _ := pair3(t)
		b := r.at3(3, 0)
		b.obey()
		a.ready(true)
		b.ready(true)
		r.pass(after)
		r.turn(func(p *Plane) { p.Remove(a.id) })
		r.pass(time.Millisecond)
		b.obey()
		r.pass(time.Millisecond)
		b.want("alone with the foreground", true, board.Bounded)
		b.wantWish("alone with the foreground", board.HoldNone, 1)
	}
}

// TestGarbageAnswers has background clients write noise about their wishes, among
// honest ones.
func TestGarbageAnswers(t *testing.T) {
	r, low, high := pair3(t)
	var noisy []*guest
	for i := range 3 {
		noisy = append(noisy, r.at3(compute.TaskID(10+i), -5))
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		g := noisy[rnd.IntN(len(noisy))]
		scribble(g.board, rnd)
		g.device.SetTimes(rnd.Uint64(), rnd.Uint64())
		g.device.SetLevelMax(rnd.Uint32(), board.LevelWhy(rnd.Uint32()))
		g.device.Did(board.HoldView{
			Did: rnd.Uint32N(8), Held: board.Hold(rnd.Uint32N(5)), SliceUS: rnd.Uint32(), Error: rnd.Uint32N(2),
		})
		g.ring()
		low.ready(true)
		high.ready(true)
		low.obey()
		r.pass(time.Duration(rnd.IntN(3000)) * time.Microsecond)
		low.want("beside noise", false, board.Bounded)
		if gate := high.device.Gate(); !gate.Open() {
			t.Fatalf("the highest is kept out by noise: %v", gate)
		}
		high.ready(false)
		for range 20 {
			r.pass(10 * time.Millisecond)
			low.obey()
		}
		r.pass(10 * time.Millisecond)
		if _, w := low.device.Wish(); !low.device.Gate().Open() || w.Hold != board.HoldNone {
			t.Fatalf("low is kept out by noise: %v %+v, %v", low.device.Gate(), w, r.plane.Describe().Seats)
		}
	}
}

// token is a run of a foreground that launches nearly all of the time, with a look at
// what else happens meanwhile.
func (g *guest) token(length time.Duration, meanwhile func()) {
	begin := g.r.plane.clock(g.r.now)
	g.device.SetTimes(begin, begin)
	g.ready(true)
	for range 4 {
		g.r.pass(length / 4)
		meanwhile()
	}
	g.device.AddLaunches(1000)
	g.device.SetTimes(begin, begin+uint64(length)-1000)
	g.ready(false)
	g.r.pass(50 * time.Microsecond)
}

// TestClientsOfMPSRunAtTheSameTime has two of them, the foreground bound by the CPU: a
// background of short commands goes on beside it, one of long ones does not, and none
// does beside a foreground that is not known to share the device.
func TestClientsOfMPSRunAtTheSameTime(t *testing.T) {
	for _, c := range []struct {
		name     string
		why      board.LevelWhy
		launches uint64 // of the background in 10 ms
		regime   choose.Regime
		open     bool
		mode     board.Mode
	}{
		{"short commands", board.ClientOfMPS, 50, choose.Share, true, board.Loose},
		{"long commands", board.ClientOfMPS, 2, choose.Share, false, board.Bounded},
		{"no clients", board.UnknownObjects, 50, choose.Plain, false, board.Bounded},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.plane.cfg.Epoch = uint64(time.Hour)
			low, high := r.guest(1, 0), r.guest(2, 5)
			for _, g := range []*guest{low, high} {
				g.configure(0, 16, 8)
				g.canDo(2, board.NothingInTheWay)
				g.canDo(2, c.why) // found out later than the level
			}
			low.ready(true)
			for range 50 {
				r.pass(10 * time.Millisecond)
				low.device.AddLaunches(c.launches)
				low.ring()
			}
			for range 60 {
				high.token(27*time.Millisecond, func() {
					low.ack()
					if low.device.Gate().Open() {
						low.device.AddLaunches(c.launches)
					}
				})
			}
			high.ready(true)
			low.want("while the other launches", c.open, c.mode)
			if got := r.plane.Describe().Seats[0].Regime; got != c.regime {
				t.Errorf("the regime is %v, want %v", got, c.regime)
			}
		})
	}
}

// TestForegroundBoundByTheCPU has one that launches all the time, so that the
// background runs beside it, and then one that launches half as fast meanwhile: the
// background is taken back within a second and a half, and for long.
func TestForegroundBoundByTheCPU(t *testing.T) {
	r, low, high := pair3(t)
	r.plane.cfg.Epoch = uint64(time.Hour)
	low.ready(true)
	token := func(length time.Duration) { high.token(length, func() { low.obey() }) }
	regime := func() choose.Regime { return r.plane.Describe().Seats[0].Regime }
	begin := r.now
	for regime() != choose.Beside {
		if token(27 * time.Millisecond); r.now-begin > 300*time.Millisecond {
			t.Fatalf("the regime is %v after %v", regime(), r.now-begin)
		}
	}
	// Let go once it has a longer slice.
	for begin = r.now; !low.device.Gate().Open(); {
		if token(30 * time.Millisecond); r.now-begin > 50*time.Millisecond {
			t.Fatalf("%v after the regime changed it is kept out: %v", r.now-begin, r.plane.Describe().Seats)
		}
	}
	for range 100 {
		token(30 * time.Millisecond)
		low.want("beside one that is bound by the CPU", true, board.Bounded)
	}
	begin = r.now
	for regime() == choose.Beside {
		length := 27 * time.Millisecond
		if low.device.Gate().Open() {
			length *= 2
		}
		// What is looked at reaches a second back.
		if token(length); r.now-begin > 1500*time.Millisecond {
			t.Fatalf("it launches half as fast, and after %v it is still %v", r.now-begin, regime())
		}
	}
	for range 100 {
		token(27 * time.Millisecond)
	}
	if regime() == choose.Beside {
		t.Error("it was tried again after 3 s")
	}
}

// TestRunsThatFollowAtOnceAreSeen has one that launches again before the daemon has
// woken up: that it is bound by the CPU is found out all the same.
func TestRunsThatFollowAtOnceAreSeen(t *testing.T) {
	r, low, high := pair3(t)
	r.plane.cfg.Epoch = uint64(time.Hour)
	low.ready(true)
	high.device.SetTimes(r.plane.clock(r.now), 0)
	high.ready(true)
	for range 4 {
		for range 9 {
			r.pass(3 * time.Millisecond)
			low.obey()
		}
		high.device.AddLaunches(1000)
		now := r.plane.clock(r.now)
		high.device.SetReady(false)
		high.device.SetTimes(now, now-1000)
		high.device.SetReady(true)
		r.pass(40 * time.Microsecond)
		high.ring()
	}
	if got := r.plane.Describe().Seats[0].Regime; got != choose.Beside {
		t.Errorf("the regime is %v", got)
	}
}

// TestLevel3EdgesAllocateNothing guards the hot path with everything in use.
func TestLevel3EdgesAllocateNothing(t *testing.T) {
	r, low, high := pair3(t)
	low.ready(true)
	edge := func(ready bool) {
		r.now += 3 * time.Millisecond
		r.plane.Begin(r.now)
		high.device.SetReady(ready)
		r.plane.Edge(high.id)
		r.next = r.plane.Finish()
		for range 3 {
			low.obey()
			r.now += time.Millisecond
			r.plane.Begin(r.now)
			r.next = r.plane.Finish()
		}
	}
	for range 20 {
		edge(true)
		edge(false)
	}
	if n := testing.AllocsPerRun(1000, func() { edge(true); edge(false) }); n > 0 {
		t.Errorf("two edges allocate %v times", n)
	}
	if n := r.plane.stats.Wishes; n < 1000 {
		t.Errorf("only %d wishes: the path was not the one", n)
	}
}

// BenchmarkEdgeLevel3 is a turn of the plane beside backgrounds that take turns.
func BenchmarkEdgeLevel3(b *testing.B) {
	for _, others := range []int{1, 8, 255} {
		b.Run(fmt.Sprintf("backgrounds=%d", others), func(b *testing.B) {
			p := New(Config{IdleAfter: time.Nanosecond}, compute.HPF())
			now := time.Duration(0)
			var pages []*board.Board
			p.Begin(now)
			p.SetOffer(compute.Device(testGPU.UUID.String()), offered)
			for i := range others + 1 {
				page, err := board.Create(1, 1)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = page.Close() })
				page.Device(0).Claim(testGPU)
				page.Device(0).SetLevelMax(3, board.NothingInTheWay)
				priority := 0
				if i == 0 {
					priority = 5
				} else {
					page.Device(0).SetReady(true)
				}
				p.Add(Process{ID: ProcessID(i + 1), Task: compute.TaskID(i + 1), Hints: compute.Hints{Priority: priority}, Board: page})
				pages = append(pages, page)
			}
			p.Finish()
			obey := func() {
				for _, page := range pages {
					want, w := page.Device(0).Wish()
					page.Device(0).Did(board.HoldView{Did: want, Held: w.Hold, SliceUS: w.SliceUS})
				}
			}
			for range 20 {
				obey()
				now += 10 * time.Millisecond
				p.Begin(now)
				p.Finish()
			}
			high := pages[0].Device(0)
			b.ReportAllocs()
			ready := false
			for b.Loop() {
				ready = !ready
				now += 300 * time.Microsecond
				p.Begin(now)
				high.SetReady(ready)
				p.Edge(1)
				p.Finish()
			}
		})
	}
}

// TestFewLaunchesSayNothingOfCommands has a background run in short turns and launch
// little in each, as one does whose queues are full, and pause once with something
// outstanding: it keeps its place beside the foreground, and loses it once it has gone
// on like that for long.
func TestFewLaunchesSayNothingOfCommands(t *testing.T) {
	r := newRig(t)
	r.plane.cfg.Epoch = uint64(time.Hour)
	low, high := r.guest(1, 0), r.guest(2, 5)
	for _, g := range []*guest{low, high} {
		g.configure(0, 16, 8)
		g.canDo(2, board.ClientOfMPS)
	}
	runs := func(times int, length time.Duration, launches uint64) {
		low.ready(true)
		for range times {
			r.pass(length)
			low.device.AddLaunches(launches)
			low.ring()
		}
	}
	beside := func(what string, want bool) {
		for range 10 {
			high.token(27*time.Millisecond, func() { low.ack() })
		}
		high.ready(true)
		if got := low.device.Gate().Open(); got != want {
			t.Errorf("%s: open %v, want %v", what, got, want)
		}
		high.ready(false)
		r.pass(10 * time.Millisecond)
	}
	runs(50, 10*time.Millisecond, 50)
	low.ready(false)
	r.pass(400 * time.Millisecond)
	for range 3 {
		runs(1, 30*time.Millisecond, 8)
		low.ready(false)
		r.pass(400 * time.Millisecond)
	}
	low.ready(true)
	beside("after short turns", true)
	runs(50, 10*time.Millisecond, 50)
	runs(1, 650*time.Millisecond, 0)
	beside("after a pause", true)
	runs(60, 20*time.Millisecond, 2)
	beside("after a second of long commands", false)
}
