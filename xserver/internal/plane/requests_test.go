package plane

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xmsched/compute"
	"xmsched/memory"
)

// TestHistogram compares quantiles and limits with those of the sorted values.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int64 {
			return rapid.Int64Range(0, 1<<rapid.IntRange(1, 45).Draw(t, "bits")).Draw(t, "ns")
		}), 1, 300).Draw(t, "values")
		var h, other histogram
		for i, v := range values {
			if i%2 == 0 {
				h.record(time.Duration(v))
			} else {
				other.record(time.Duration(v))
			}
		}
		r := h.summary(&other)
		slices.Sort(values)
		at := func(percent int) time.Duration { return time.Duration(values[(len(values)*percent+99)/100-1]) }
		for percent, have := range map[int]time.Duration{50: r.P50, 90: r.P90, 99: r.P99} {
			want := min(at(percent), (1<<longestBits)*time.Microsecond)
			if off := (have - want).Abs(); off > want/32+time.Microsecond {
				t.Fatalf("P%d of %v: %v, want %v", percent, values, have, want)
			}
		}
		if r.Max != at(100) || r.N != uint64(len(values)) {
			t.Fatalf("%+v", r)
		}
		for i, have := range r.Within {
			n, _ := slices.BinarySearch(values, int64(Limit(i)))
			if have != uint64(n) {
				t.Fatalf("%d below %v, want %d of %v", have, Limit(i), n, values)
			}
		}
	})
}

func TestRecentForgets(t *testing.T) {
	var r recent
	r.record(time.Second, 0)
	r.record(time.Millisecond, 40*time.Second)
	if s := r.summary(59 * time.Second); s.N != 2 || s.Max != time.Second {
		t.Errorf("after 59 s: %+v", s)
	}
	if s := r.summary(61 * time.Second); s.N != 1 || s.Max != time.Millisecond {
		t.Errorf("after 61 s: %+v", s)
	}
	if s := r.summary(200 * time.Second); s.N != 0 {
		t.Errorf("after 200 s: %+v", s)
	}
}

// state is what became of a task.
func (r *rig) state(id compute.TaskID) TaskState {
	r.t.Helper()
	t, ok := r.plane.tasks[id]
	if !ok {
		r.t.Fatalf("there is no task %d", id)
	}
	r.plane.Begin(r.now)
	return r.plane.account(id, t)
}

// request has a guest work for a while, and waits until that it is over counts.
func (g *guest) request(d time.Duration) {
	g.ready(true)
	g.r.pass(d)
	g.ready(false)
	g.r.pass(time.Millisecond)
}

func TestRequestsAreCounted(t *testing.T) {
	r := newRig(t)
	g := r.guest(1, 0)
	g.request(10 * time.Millisecond) // before there is an SLO
	r.turn(func(p *Plane) {
		p.SetHints(1, compute.Hints{SLO: 20 * time.Millisecond, Deadline: 10 * time.Millisecond})
	})
	for _, ms := range []time.Duration{5, 15, 25} {
		g.request(ms * time.Millisecond)
	}
	g.ready(true)
	r.pass(time.Second)
	s := r.state(1)
	if s.Requests.N != 4 || s.SLORequests != 3 || s.SLOMet != 2 || s.Met != 1 || s.Missed != 2 {
		t.Errorf("%+v", s)
	}
	if s.Requests.Max != 25*time.Millisecond || s.Recent.N != 4 {
		t.Errorf("%+v", s.Requests)
	}
	if want := 1055 * time.Millisecond; s.Ran < want || s.Ran > want+4*time.Millisecond {
		t.Errorf("ran for %v, want %v", s.Ran, want)
	}
	// A request that is cut short is none.
	r.turn(func(p *Plane) { p.SetStopped(g.id, true) })
	r.turn(func(p *Plane) { p.SetStopped(g.id, false) })
	r.turn(func(p *Plane) { p.Remove(g.id) })
	if len(r.plane.ended) != 1 || r.plane.ended[0].Task != 1 || r.plane.ended[0].Requests.N != 4 || r.plane.ended[0].Ran != s.Ran {
		t.Errorf("ended: %+v", r.plane.ended)
	}
}

// TestWaitAndPreemption: what one runs the other waits, and each stop is counted for
// both.
func TestWaitAndPreemption(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	low.ready(true)
	r.pass(10 * time.Millisecond)
	for range 3 {
		high.request(10 * time.Millisecond)
	}
	l, h := r.state(1), r.state(2)
	if l.Taken != 3 || h.Given != 3 || h.Taken != 0 {
		t.Errorf("taken %d, given %d", l.Taken, h.Given)
	}
	if l.Stopped < 30*time.Millisecond || l.Stopped > 31*time.Millisecond {
		t.Errorf("waited for %v, want 30 ms and what an idle edge has to last", l.Stopped)
	}
	if total := l.Ran + l.Stopped; total != r.now {
		t.Errorf("ran %v and waited %v of %v", l.Ran, l.Stopped, r.now)
	}
}

func TestLastEndedAreKept(t *testing.T) {
	r := newRig(t)
	for id := compute.TaskID(1); id <= keepEnded+5; id++ {
		g := r.guest(id, 0)
		r.turn(func(p *Plane) { p.Remove(g.id) })
	}
	if n := len(r.plane.ended); n != keepEnded || r.plane.ended[0].Task != 6 || r.plane.ended[n-1].Task != keepEnded+5 {
		t.Errorf("%d, from %d on", n, r.plane.ended[0].Task)
	}
}

// TestShares has one alone, two together, and one beside one who is stopped.
func TestShares(t *testing.T) {
	r := newRig(t)
	a, b := r.guest(1, 0), r.guest(2, 0)
	r.guest(3, 5)
	second := func() {
		r.t.Helper()
		r.pass(5 * r.plane.cfg.Heartbeat)
	}
	last := func(id compute.TaskID) uint32 {
		list := r.state(id).Shares[0].Permille
		return list[len(list)-1]
	}
	check := func(when string, want ...uint32) {
		t.Helper()
		for i, w := range want {
			if have := last(compute.TaskID(i + 1)); have+3 < w || have > w+3 {
				t.Errorf("%s: task %d had %d/1000, want %d", when, i+1, have, w)
			}
		}
	}
	second()
	check("idle", 0, 0, 0)
	a.ready(true)
	second()
	check("alone", 1000, 0, 0)
	b.ready(true)
	second()
	check("two together", 500, 500, 0)
	a.ready(false)
	r.pass(time.Millisecond)
	r.turn(func(p *Plane) { p.SetStopped(b.id, true) })
	second()
	check("stopped", 0, 0, 0)
	for range 2 * shareSpan {
		second()
	}
	if n := len(r.state(1).Shares[0].Permille); n != shareSpan {
		t.Errorf("%d samples, want %d", n, shareSpan)
	}
}

// TestTrace follows two tasks, and then what nobody traces.
func TestTrace(t *testing.T) {
	r := newRig(t)
	low, high := r.guest(1, 0), r.guest(2, 5)
	var next uint64
	r.turn(func(p *Plane) { next = p.startTrace() })
	low.ready(true)
	r.pass(time.Millisecond)
	high.ready(true)
	r.pass(time.Millisecond)
	r.turn(func(p *Plane) { p.SetPolicy(compute.RR()) })
	r.turn(func(p *Plane) { p.Remove(high.id) })
	events, _, lost := r.plane.trace.read(next, 100, nil)
	var have []string
	for _, e := range events {
		if e.Task == 0 {
			have = append(have, e.Policy)
			continue
		}
		have = append(have, string(rune('0'+e.Task))+" "+e.State.String())
	}
	want := []string{"HPF", "1 idle", "2 idle", "1 running", "2 running", "1 gated", "RR", "2 gated", "1 running", "2 idle", "2 gone"}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) || lost != 0 {
		t.Errorf("%d lost, %q, want %q", lost, have, want)
	}
	r.turn(func(p *Plane) { p.stopTrace() })
	if r.plane.trace != nil {
		t.Error("there is a trace that nobody reads")
	}
}

func TestTraceSaysWhatIsLost(t *testing.T) {
	tr := new(tracer)
	for i := range traceRoom + 10 {
		tr.add(TraceEvent{At: time.Duration(i)})
	}
	events, next, lost := tr.read(3, 5, nil)
	if lost != 7 || len(events) != 5 || events[0].At != 10 || next != 15 {
		t.Errorf("%d lost, from %v on, next %d", lost, events[0].At, next)
	}
}

// TestAccountsAllocateNothing on the way from an edge to gate words, traced or not.
func TestAccountsAllocateNothing(t *testing.T) {
	for _, traced := range []bool{false, true} {
		r := newRig(t)
		low, high := r.guest(1, 0), r.guest(2, 5)
		low.ready(true)
		if traced {
			r.turn(func(p *Plane) { p.startTrace() })
		}
		edge := func(ready bool) {
			r.now += time.Millisecond
			high.device.SetReady(ready)
			r.plane.Begin(r.now)
			r.plane.Edge(high.id)
			r.plane.Finish()
		}
		n := testing.AllocsPerRun(200, func() {
			edge(true)
			edge(false)
			r.now += time.Millisecond
			r.plane.Begin(r.now)
			r.plane.Finish()
		})
		if n != 0 {
			t.Errorf("traced %v: %v allocations a request", traced, n)
		}
	}
}

// TestTimeOfMemoryIsCounted: of two that do not fit together each waits for its memory
// at its turn, and the trace says so.
func TestTimeOfMemoryIsCounted(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	var next uint64
	r.turn(func(p *Plane) { next = p.startTrace() })
	for id := compute.TaskID(1); id <= 2; id++ {
		c := r.tenant(id, 0, 3)
		c.ready(true)
		for range 10 {
			c.allocate(gib)
		}
	}
	r.live(4 * time.Second)
	for id := compute.TaskID(1); id <= 2; id++ {
		s := r.state(id)
		if s.Memory <= 0 || s.Memory > s.Stopped || s.Ran+s.Stopped < 3900*time.Millisecond || s.Ran+s.Stopped > r.now {
			t.Errorf("task %d ran %v, waited %v, of that %v for its memory, in %v", id, s.Ran, s.Stopped, s.Memory, r.now)
		}
	}
	events, _, _ := r.plane.trace.read(next, traceRoom, nil)
	if !slices.ContainsFunc(events, func(e TraceEvent) bool { return e.State == TraceMoving }) {
		t.Error("nothing moves in the trace")
	}
}
