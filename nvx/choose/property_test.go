package choose

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xmsched/compute"
)

// colony is a chooser under a policy, with clients that carry its orders out in
// their own time.
type colony struct {
	t       *rapid.T
	sched   *compute.Scheduler
	chooser *Chooser
	now     time.Duration
	next    time.Duration
	ids     compute.TaskID
	clients []*client
	events  []compute.Event
}

// client is one task as it really is.
type client struct {
	id       compute.TaskID
	task     *Task
	priority int
	able     bool
	ready    bool

	// What it was told, and what it made of it.
	order  Order
	held   bool
	slice  time.Duration
	want   int // changes of hold and slice
	did    int
	behind bool // what it has to do came while its gate was closed

	sliceAt []time.Duration
	ran     time.Duration
	allowed time.Duration // by the policy
}

// onDevice says whether anything of the client can run.
func (c *client) onDevice() bool { return c.ready && !c.held && (c.order.Open || !c.behind) }

func newColony(t *rapid.T, policy compute.Policy) *colony {
	return &colony{t: t, sched: compute.NewScheduler(policy), chooser: New(Costs{})}
}

func (o *colony) add(priority int, able bool, floor float64) *client {
	o.ids++
	c := &client{id: o.ids, task: o.chooser.Add(o.ids), priority: priority, able: able, behind: true}
	c.task.Tag = c
	o.chooser.SetRank(c.task, priority)
	o.chooser.SetAble(c.task, able, able)
	o.clients = append(o.clients, c)
	o.events = append(o.events, compute.TaskAdded{Task: c.id, Device: gpu, Hints: compute.Hints{Priority: priority, MinShare: floor}})
	return c
}

func (o *colony) remove(c *client) {
	o.chooser.Remove(c.task)
	o.events = append(o.events, compute.DeviceLeft{Task: c.id, Device: gpu})
	for i, x := range o.clients {
		if x == c {
			o.clients = append(o.clients[:i], o.clients[i+1:]...)
		}
	}
}

func (o *colony) ready(c *client, ready bool) {
	if c.ready == ready || !ready && c.held {
		return // what is suspended does not end
	}
	c.ready = ready
	if ready {
		c.behind = !c.order.Open
		o.chooser.Ready(c.task, o.now)
		o.events = append(o.events, compute.Ready{Task: c.id, Device: gpu})
		return
	}
	if c.behind && !c.order.Open {
		c.ready = true // it waits at its gate
		return
	}
	o.chooser.Idle(c.task, o.now)
	o.events = append(o.events, compute.Idle{Task: c.id, Device: gpu})
}

// turn has everything decided, and holds the order of what is told.
func (o *colony) turn() {
	out := o.sched.Apply(o.now, o.events...)
	o.events = o.events[:0]
	for _, g := range out.Grants {
		for _, c := range o.clients {
			if c.id == g.Task {
				o.chooser.Verdict(c.task, g.Open, g.Mode)
			}
		}
	}
	for _, t := range o.chooser.Decide(o.now) {
		c := t.Tag.(*client)
		order := t.Order()
		if order.Hold != c.order.Hold || order.Slice != c.order.Slice {
			c.want++
		}
		if order.Slice != c.order.Slice && order.Slice != Besides {
			c.sliceAt = append(c.sliceAt, o.now)
		}
		if order.Open {
			c.behind = false
		}
		c.order = order
		o.checkArmed()
	}
	o.check()
	for _, c := range o.clients {
		if c.order != c.task.Order() {
			o.t.Fatalf("the order of task %d changed without being told", c.id)
		}
	}
	o.next = out.Next
	if n := o.chooser.Next(); n != 0 && (o.next == 0 || n < o.next) {
		o.next = n
	}
}

// obey has a client carry out what it was told last.
func (o *colony) obey(c *client) {
	if c.did == c.want {
		return
	}
	c.did = c.want
	c.held, c.slice = c.order.Hold, c.order.Slice
	o.checkArmed()
	o.chooser.Did(c.task, c.held, c.slice)
}

// pass lets time go by, with turns when they are due; clients answer within delay.
func (o *colony) pass(d, delay time.Duration) {
	end := o.now + d
	for turns := 0; ; turns++ {
		if turns > 20000 {
			o.t.Fatalf("a timer stands still at %v", o.next)
		}
		at := end
		if o.next != 0 {
			at = min(at, max(o.next, o.now))
		}
		late := false
		for _, c := range o.clients {
			if c.did != c.want {
				late = true
			}
		}
		if late {
			at = min(at, o.now+delay)
		}
		for _, c := range o.clients {
			if c.onDevice() {
				c.ran += at - o.now
			}
			if c.task.open {
				c.allowed += at - o.now
			}
		}
		o.now = at
		if late {
			for _, c := range o.clients {
				o.obey(c)
			}
		}
		o.turn()
		if o.now >= end {
			return
		}
	}
}

// checkArmed holds that two armed tasks are never on the device, not even while the
// orders of one decision are told one after the other.
func (o *colony) checkArmed() {
	var armed []string
	for _, c := range o.clients {
		if isShort(c.slice) && c.onDevice() {
			armed = append(armed, fmt.Sprint(c.id))
		}
	}
	if len(armed) > 1 {
		o.t.Fatalf("at %v: armed and on the device together: %v", o.now, armed)
	}
}

// check holds what must be so after every decision.
func (o *colony) check() {
	for _, c := range o.clients {
		for i := 1; i < len(c.sliceAt); i++ {
			if d := c.sliceAt[i] - c.sliceAt[i-1]; d < SliceEvery {
				o.t.Fatalf("task %d: two changes of slice within %v, none of them to run beside", c.id, d)
			}
		}
		if !c.able && (c.order.Hold || c.want > 0) {
			o.t.Fatalf("task %d can do nothing and is told %+v", c.id, c.order)
		}
		if c.task.mode != compute.Bounded && c.order.Hold && !isShort(c.order.Slice) && !isShort(c.slice) {
			o.t.Fatalf("task %d of mode %v is held", c.id, c.task.mode)
		}
		if c.order.Loose != 0 && (!c.order.Open || !c.task.behind()) {
			o.t.Fatalf("task %d of mode %v: commands that need not wait, the order is %+v", c.id, c.task.mode, c.order)
		}
		if c.order.Open && !c.task.open && c.order.Reason != RunsBeside {
			o.t.Fatalf("task %d: the policy keeps it out, the order is %+v", c.id, c.order)
		}
	}
}

// TestHistories plays random ones, and at the end of each lets everybody work.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy, err := compute.PolicyByName(rapid.SampledFrom(compute.PolicyNames()).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		o := newColony(t, policy)
		some := rapid.IntRange(0, 1<<16)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			step := rapid.IntRange(0, 9).Draw(t, "step")
			if step < 2 || len(o.clients) == 0 {
				if len(o.clients) < 6 {
					o.add(rapid.IntRange(0, 3).Draw(t, "priority"), rapid.IntRange(0, 4).Draw(t, "able") > 0,
						float64(rapid.IntRange(0, 3).Draw(t, "floor"))/10)
				}
				o.turn()
				continue
			}
			c := o.clients[some.Draw(t, "who")%len(o.clients)]
			switch step {
			case 2:
				if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
					o.remove(c)
				}
			case 3, 4:
				o.ready(c, true)
			case 5:
				o.ready(c, false)
			case 6:
				o.obey(c)
			case 7:
				o.chooser.Ran(c.task, o.now, time.Duration(some.Draw(t, "run"))*time.Microsecond, time.Duration(some.Draw(t, "launching"))*time.Microsecond)
				o.chooser.Launched(c.task, o.now, uint64(some.Draw(t, "launches")))
				o.chooser.SetGrain(c.task, time.Duration(some.Draw(t, "grain"))*10*time.Nanosecond)
			default:
				d := time.Duration(rapid.Uint32Range(1, 40_000).Draw(t, "pass")) * time.Microsecond
				o.pass(d, time.Duration(rapid.IntRange(1, 3000).Draw(t, "delay"))*time.Microsecond)
			}
			o.turn()
		}
		o.end()
	})
}

// end lets the foreground rest and everybody else work: nobody starves whom the
// policy lets run.
func (o *colony) end() {
	o.pass(2*time.Second, time.Millisecond)
	for _, c := range o.clients {
		if c.task.leads {
			o.ready(c, false)
		} else {
			o.ready(c, true)
		}
	}
	o.pass(2*time.Second, time.Millisecond)
	for _, c := range o.clients {
		c.ran, c.allowed = 0, 0
	}
	const span = 4 * time.Second
	o.pass(span, time.Millisecond)
	var open []*client
	for _, c := range o.clients {
		if c.ready && c.allowed == span {
			open = append(open, c)
		}
	}
	for _, c := range open {
		if least := span / time.Duration(len(open)) * 8 / 10; c.ran < least {
			o.t.Fatalf("task %d of %d that may run all the time: %v of %v, order %+v", c.id, len(open), c.ran, span, c.order)
		}
	}
}

// TestAcknowledgedBeforeTheNext looks at one turn's end closely: the next goes only
// after the answer, however long that takes, unless it never comes.
func TestAcknowledgedBeforeTheNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newColony(t, compute.HPF())
		o.add(5, true, 0)
		a, b := o.add(0, true, 0), o.add(0, true, 0)
		o.turn()
		o.pass(10*time.Millisecond, time.Millisecond)
		o.ready(a, true)
		o.ready(b, true)
		o.pass(TurnLength-time.Millisecond, time.Millisecond)
		for !a.order.Hold {
			o.now = o.next
			o.turn()
		}
		wait := time.Duration(rapid.IntRange(1, 15000).Draw(t, "answer")) * time.Microsecond
		end := o.now + wait
		for o.next != 0 && o.next < end {
			o.now = o.next
			o.turn()
			if b.order.Open || !b.held && b.want == 0 {
				t.Fatalf("the next is let go before the answer: %+v", b.order)
			}
		}
		o.now = end
		o.obey(a)
		o.turn()
		if !b.order.Open || b.order.Hold {
			t.Fatalf("the next is kept out after the answer: %+v", b.order)
		}
	})
}
