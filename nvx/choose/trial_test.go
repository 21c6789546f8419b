package choose

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/hal/sim/model"
)

// What lies between the programs, the daemon and the device: wake-ups and looks, as
// they are on the H200's machine.
const (
	wakeUp    = 40 * time.Microsecond // of a thread, by an eventfd or a futex
	ackLook   = 60 * time.Microsecond // until the daemon sees an acknowledgement
	idleAfter = 200 * time.Microsecond
	chunk     = time.Millisecond // kernels of backgrounds are counted in such pieces
	gpu       = compute.Device("gpu")
)

// decider is what a trial decides by: the rule, or a fixed choice.
type decider interface {
	foreground(now time.Duration, busy bool) // confirmed edges
	ran(now, run, launching time.Duration, launches uint64)
	did(i int, held bool, slice time.Duration)
	decide(now time.Duration) (orders []Order, next time.Duration)
}

// trial is a device in virtual time with a foreground that follows a trace and
// endless backgrounds beside it.
type trial struct {
	m       *model.Machine
	decider decider
	agenda  []appointment
	seq     int

	fore  model.ChannelID
	backs []*back
	trace []request

	// The foreground.
	index    int
	left     int // kernels of the present request
	started  time.Duration
	launched time.Duration // when the last launch is done
	launches uint64        // in all
	ready    bool
	edge     int
	busy     time.Duration // that the foreground used of the device
	latency  []time.Duration

	// The daemon.
	counted bool // the foreground counts as having work
	watched bool // idle is being confirmed
	wakeAt  time.Duration

	driver time.Duration // until when its lock is taken
	over   bool
}

// back is a background program.
type back struct {
	ctx     model.ContextID
	ch      model.ChannelID
	kernel  time.Duration
	pieces  int // of the present kernel that are not submitted
	open    bool
	atGate  bool
	order   Order
	want    int
	held    bool
	slice   time.Duration
	done    time.Duration // progress
	working bool          // its thread is at a wish
}

type appointment struct {
	at  time.Duration
	seq int
	f   func()
}

func (x *trial) at(at time.Duration, f func()) {
	x.seq++
	a := appointment{max(at, x.m.Now()), x.seq, f}
	i, _ := slices.BinarySearchFunc(x.agenda, a, func(a, b appointment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
	x.agenda = slices.Insert(x.agenda, i, a)
}

func (x *trial) after(d time.Duration, f func()) { x.at(x.m.Now()+d, f) }

// newTrial makes one with n backgrounds of kernels of that length.
func newTrial(trace []request, n int, kernel time.Duration, d decider) *trial {
	x := &trial{m: model.New(model.Config{}), decider: d, trace: trace}
	_, chans := x.m.AddContext(1)
	x.fore = chans[0]
	for range n {
		ctx, chans := x.m.AddContext(1)
		x.backs = append(x.backs, &back{ctx: ctx, ch: chans[0], kernel: kernel})
	}
	return x
}

// run plays the trace, from one second after the start, for the backgrounds to be
// prepared, until limit.
func (x *trial) run(limit time.Duration) {
	for i, b := range x.backs {
		x.feed(i, b)
	}
	x.daemon()
	x.at(time.Second, x.next)
	for {
		at := limit
		if len(x.agenda) > 0 {
			at = min(at, x.agenda[0].at)
		}
		if e, ok := x.m.Step(at); ok {
			x.event(e)
			continue
		}
		if at >= limit || x.over {
			return
		}
		a := x.agenda[0]
		x.agenda = x.agenda[1:]
		a.f()
	}
}

// feed has a background's queue filled: each kernel behind the gate, in pieces.
func (x *trial) feed(i int, b *back) {
	for x.m.Queued(b.ch) < 4 {
		first := b.pieces == 0
		if first {
			b.pieces = int(max(1, (b.kernel+chunk-1)/chunk))
		}
		piece := b.kernel / time.Duration(max(1, (b.kernel+chunk-1)/chunk))
		c := x.m.KernelCommand(uint64(piece), piece)
		c.Hold = first
		b.pieces--
		x.m.Submit(b.ch, c)
	}
}

func (x *trial) event(e model.Event) {
	if e.Channel == x.fore {
		if e.Kind == model.Done {
			x.m.Retire(e.Channel)
			if x.left--; x.left == 0 {
				x.at(max(x.m.Now(), x.launched), x.finish)
			}
		}
		return
	}
	for i, b := range x.backs {
		if b.ch != e.Channel {
			continue
		}
		switch e.Kind {
		case model.Held:
			if b.open {
				x.m.Release(b.ch)
			} else {
				b.atGate = true
			}
		case model.Done:
			b.done += time.Duration(e.Command)
			x.m.Retire(b.ch)
			x.feed(i, b)
		}
	}
}

// next starts the next request when its time has come.
func (x *trial) next() {
	if x.index == len(x.trace) {
		x.over = true
		return
	}
	q := x.trace[x.index]
	at := time.Second + q.start
	if at > x.m.Now() {
		x.at(at, x.next)
		return
	}
	x.index++
	x.started, x.left = x.m.Now(), q.kernels
	x.launches += uint64(q.kernels)
	x.launched = x.started + time.Duration(q.kernels)*q.launch
	x.busy += time.Duration(q.kernels) * q.kernel
	x.setReady(true)
	for i := range q.kernels {
		c := x.m.KernelCommand(0, q.kernel)
		c.Arrival = x.started + time.Duration(i)*q.launch
		x.m.Submit(x.fore, c)
	}
}

// finish ends a request, from the program's side.
func (x *trial) finish() {
	x.latency = append(x.latency, x.m.Now()-x.started)
	x.setReady(false)
	x.after(20*time.Microsecond, x.next)
}

// setReady makes an edge; while one is watched, none rings.
func (x *trial) setReady(ready bool) {
	x.ready = ready
	x.edge++
	if x.watched {
		return
	}
	run, launching, launches := x.m.Now()-x.started, min(x.launched, x.m.Now())-x.started, x.launches
	x.after(wakeUp, func() {
		switch {
		case ready && !x.counted:
			x.counted = true
			x.decider.foreground(x.m.Now()-wakeUp, true)
		case !ready:
			x.decider.ran(x.m.Now(), run, launching, launches)
			x.watched = true
			x.confirm(x.edge, x.m.Now()-wakeUp)
		}
		x.daemon()
	})
}

// confirm waits out an idle edge.
func (x *trial) confirm(edge int, since time.Duration) {
	x.after(idleAfter, func() {
		switch {
		case x.ready:
			x.watched = false
		case x.edge != edge:
			x.confirm(x.edge, x.m.Now())
		default:
			x.watched, x.counted = false, false
			x.decider.foreground(since, false)
			x.daemon()
		}
	})
}

// daemon has orders decided and carried out.
func (x *trial) daemon() {
	now := x.m.Now()
	orders, next := x.decider.decide(now)
	for i, o := range orders {
		x.carry(i, x.backs[i], o)
	}
	if next > now && (x.wakeAt <= now || next < x.wakeAt) {
		x.wakeAt = next
		x.at(next, func() {
			if x.wakeAt == next {
				x.daemon()
			}
		})
	}
}

// carry brings a background to an order.
func (x *trial) carry(i int, b *back, o Order) {
	if o.Open && !b.open && b.atGate {
		b.atGate = false
		x.m.Release(b.ch)
	}
	b.open = o.Open
	if o.Hold == b.order.Hold && o.Slice == b.order.Slice {
		b.order = o
		return
	}
	b.order = o
	b.want++
	if !b.working {
		b.working = true
		x.after(wakeUp, func() { x.work(i, b) })
	}
}

// work is the background's channel thread: it carries out what is wished now, one
// control after the other, under the driver's lock.
func (x *trial) work(i int, b *back) {
	want, o := b.want, b.order
	control := func(c model.Control, effect func(), then func()) {
		begin := max(x.m.Now(), x.driver)
		cost := x.m.ControlCost(c, model.Compute, func(id model.ContextID) bool { return id == b.ctx })
		x.driver = begin + cost
		x.at(x.driver, func() { effect(); then() })
	}
	answer := func() {
		held, slice := b.held, b.slice
		if b.want != want {
			x.work(i, b)
			return
		}
		b.working = false
		x.after(ackLook, func() {
			if b.want == want {
				x.decider.did(i, held, slice)
				x.daemon()
			}
		})
	}
	hold := func() {
		if o.Hold == b.held {
			answer()
			return
		}
		c := model.Resume
		if o.Hold {
			c = model.Suspend
		}
		control(c, func() {
			b.held = o.Hold
			_ = x.m.SetEnabled(b.ctx, model.Compute, !o.Hold)
		}, answer)
	}
	if o.Slice == b.slice {
		hold()
		return
	}
	control(model.SetSlice, func() {
		b.slice = o.Slice
		slice := o.Slice
		if slice == 0 {
			slice = 2048 * time.Microsecond
		}
		_ = x.m.SetTimeslice(b.ctx, model.Compute, slice)
	}, hold)
}

// rule decides by the chooser, under strict priority.
type rule struct {
	sched   *compute.Scheduler
	chooser *Chooser
	fore    *Task
	backs   []*Task
	events  []compute.Event
}

func newRule(n int, costs Costs) *rule {
	r := &rule{sched: compute.NewScheduler(compute.HPF()), chooser: New(costs)}
	r.fore = r.chooser.Add(0)
	r.events = append(r.events, compute.TaskAdded{Task: 0, Device: gpu, Hints: compute.Hints{Priority: 10}})
	for i := range n {
		id := compute.TaskID(i + 1)
		b := r.chooser.Add(id)
		r.chooser.SetAble(b, true, true)
		r.chooser.Ready(b, 0)
		r.backs = append(r.backs, b)
		r.events = append(r.events, compute.TaskAdded{Task: id, Device: gpu}, compute.Ready{Task: id, Device: gpu})
	}
	return r
}

func (r *rule) foreground(now time.Duration, busy bool) {
	if busy {
		r.chooser.Ready(r.fore, now)
		r.events = append(r.events, compute.Ready{Device: gpu})
	} else {
		r.chooser.Idle(r.fore, now)
		r.events = append(r.events, compute.Idle{Device: gpu})
	}
}

func (r *rule) ran(now, run, launching time.Duration, launches uint64) {
	r.chooser.Ran(r.fore, now, run, launching)
	r.chooser.Launched(r.fore, now, launches)
}

func (r *rule) did(i int, held bool, slice time.Duration) { r.chooser.Did(r.backs[i], held, slice) }

func (r *rule) decide(now time.Duration) ([]Order, time.Duration) {
	out := r.sched.Apply(now, r.events...)
	r.events = r.events[:0]
	for _, g := range out.Grants {
		t := r.fore
		if g.Task > 0 {
			t = r.backs[g.Task-1]
		}
		r.chooser.Verdict(t, g.Open, g.Mode)
	}
	r.chooser.Decide(now)
	var orders []Order
	for _, b := range r.backs {
		orders = append(orders, b.Order())
	}
	return orders, r.chooser.Next()
}

// fixed always does the same.
type fixed struct {
	n     int
	slice time.Duration
	gate  bool // closes with the foreground
	hold  bool // suspends with the foreground
	busy  bool
}

func (f *fixed) foreground(_ time.Duration, busy bool) { f.busy = busy }
func (f *fixed) ran(_, _, _ time.Duration, _ uint64)   {}
func (f *fixed) did(int, bool, time.Duration)          {}

func (f *fixed) decide(time.Duration) ([]Order, time.Duration) {
	o := Order{Open: !(f.busy && f.gate), Hold: f.busy && f.hold, Slice: f.slice}
	orders := make([]Order, f.n)
	for i := range orders {
		orders[i] = o
	}
	return orders, 0
}

// outcome is what came of a trial.
type outcome struct {
	p50, p99 time.Duration
	mean     time.Duration // of the latencies
	progress time.Duration // of all backgrounds
	span     time.Duration // of the trace
	used     time.Duration // by the foreground
	requests int
}

func (x *trial) outcome() outcome {
	o := outcome{span: x.m.Now() - time.Second, used: x.busy, requests: len(x.latency)}
	for _, b := range x.backs {
		o.progress += b.done
	}
	sorted := slices.Sorted(slices.Values(x.latency))
	for _, l := range sorted {
		o.mean += l
	}
	if n := len(sorted); n > 0 {
		o.mean /= time.Duration(n)
		o.p50, o.p99 = sorted[n/2], sorted[min(n-1, n*99/100)]
	}
	return o
}

// play runs a trace beside n backgrounds.
func play(trace []request, n int, kernel time.Duration, d decider) outcome {
	x := newTrial(trace, n, kernel, d)
	x.at(time.Second, func() { // what was done before does not count
		for _, b := range x.backs {
			b.done = 0
		}
	})
	x.run(time.Hour)
	return x.outcome()
}

func (o outcome) String() string {
	return fmt.Sprintf("p50 %v p99 %v, backgrounds %.1f %% of what was left", o.p50, o.p99, 100*o.share())
}

// share is how much of the time that the foreground did not use went into the
// backgrounds' progress.
func (o outcome) share() float64 { return float64(o.progress) / float64(o.span-o.used) }

// TestTrialImitatesTheH200 holds the trial itself against what was measured there:
// 0.45 ms requests beside one background of 4.7 ms kernels.
func TestTrialImitatesTheH200(t *testing.T) {
	trace := readTrace(t, "short")
	const kernel = 4700 * time.Microsecond
	alone := play(trace, 0, 0, &fixed{})
	for _, c := range []struct {
		name      string
		d         fixed
		low, high time.Duration // of the median
	}{
		{"native", fixed{n: 1}, 700 * time.Microsecond, 2700 * time.Microsecond},
		{"armed", fixed{n: 1, slice: Armed, gate: true}, 600 * time.Microsecond, 700 * time.Microsecond},
		{"suspended", fixed{n: 1, gate: true, hold: true}, 800 * time.Microsecond, 1200 * time.Microsecond},
	} {
		o := play(trace, 1, kernel, &c.d)
		t.Logf("%-10s %v (alone %v)", c.name, o, alone.p50)
		if o.p50 < c.low || o.p50 > c.high {
			t.Errorf("%s: %v, want %v to %v as on the H200", c.name, o.p50, c.low, c.high)
		}
	}
}
