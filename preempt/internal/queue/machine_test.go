package queue

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// history drives a machine as its owner does, with everything that can come in
// between, and knows by itself what must hold.
type history struct {
	t   *rapid.T
	m   *Machine
	now time.Duration
	out Outcome

	buffered []uint64 // what the model has submitted and not launched
	markers  []uint64 // in the hardware
	ready    bool
	empty    time.Duration // since when nothing is in, where nothing is
	launches []uint64
	dropped  int
	begun    bool
	marking  bool
	broken   bool
	closed   bool
}

func newHistory(t *rapid.T) *history {
	threshold := rapid.IntRange(1, 9).Draw(t, "threshold")
	return &history{t: t, m: New(Config{
		Threshold: threshold,
		Batch:     rapid.IntRange(1, threshold).Draw(t, "batch"),
		IdleAfter: time.Duration(rapid.IntRange(0, 3).Draw(t, "idle after")) * 10,
	})}
}

func (h *history) apply(e Event) {
	h.out = h.m.Apply(h.now, e)
	switch h.out.Edge {
	case Ready:
		if h.ready {
			h.t.Fatalf("%T: ready twice", e)
		}
		h.ready = true
	case Idle:
		if !h.ready {
			h.t.Fatalf("%T: idle twice", e)
		}
		if !h.m.Drained() || h.now < h.empty+h.m.Config().IdleAfter {
			h.t.Fatalf("%T at %d: idle too early", e, h.now)
		}
		h.ready = false
	}
	if !h.m.Drained() {
		h.empty = h.now
	}
	h.check(e)
}

func (h *history) check(e Event) {
	m := h.m
	if !(m.completed <= m.marked && m.marked <= m.launched && m.launched <= m.submitted) {
		h.t.Fatalf("%T: counters %d <= %d <= %d <= %d", e, m.completed, m.marked, m.launched, m.submitted)
	}
	if h.ready != m.Ready() {
		h.t.Fatalf("%T: edges say ready is %v, the machine %v", e, h.ready, m.Ready())
	}
	if !m.Drained() && !m.Ready() {
		h.t.Fatalf("%T: work in the queue and not ready", e)
	}
	if h.out.Launch != 0 {
		if h.out.Mark || m.work != resting {
			h.t.Fatalf("%T: a launch beside something else", e)
		}
		if !m.closed && (m.held || m.shut && h.out.Launch > m.until) {
			h.t.Fatalf("%T: a launch from a stopped queue", e)
		}
		if m.launched-m.completed >= uint64(m.config.Threshold) {
			h.t.Fatalf("%T: a launch above the threshold", e)
		}
	}
	// Whatever is outstanding will be seen to end.
	if m.work == resting && !h.broken && m.launched > m.completed && len(h.markers) == 0 && !h.out.Mark {
		h.t.Fatalf("%T: %d commands outstanding and no marker", e, m.launched-m.completed)
	}
	// Nothing is left lying that could go.
	if m.work == resting && !h.broken && h.out.Launch == 0 && !h.out.Mark && m.launched < m.submitted {
		stopped := !m.closed && (m.held || m.shut && m.launched+1 > m.until)
		full := m.launched-m.completed >= uint64(m.config.Threshold)
		if !stopped && !full && !m.Blocked() {
			h.t.Fatalf("%T: a command lies in an open queue", e)
		}
	}
}

func (h *history) submit(blockers int) {
	if h.closed || h.broken {
		return
	}
	h.apply(Submitted{blockers})
	h.buffered = append(h.buffered, h.m.Submitted())
}

func (h *history) launch() {
	if h.out.Launch == 0 {
		return
	}
	if h.out.Launch != h.buffered[0] {
		h.t.Fatalf("launch of %d, the oldest is %d", h.out.Launch, h.buffered[0])
	}
	h.buffered = h.buffered[1:]
	h.begun = true
	h.apply(Begun{})
}

func (h *history) launched() {
	if h.begun {
		h.begun = false
		h.apply(Launched{})
		h.launches = append(h.launches, h.m.Launched())
	}
}

func (h *history) mark() {
	if h.out.Mark {
		h.marking = true
		h.apply(Marking{})
	}
}

func (h *history) marked() {
	if h.marking {
		h.marking = false
		if !h.broken {
			h.markers = append(h.markers, h.m.Launched())
		}
		h.apply(Marked{})
	}
}

func (h *history) complete() {
	if len(h.markers) > 0 {
		n := h.markers[0]
		h.markers = h.markers[1:]
		h.apply(Completed{n})
	}
}

func (h *history) drop() {
	h.apply(Dropped{})
	h.dropped += len(h.buffered)
	h.buffered = nil
}

// finish lets everything go and expects the queue to end idle.
func (h *history) finish() {
	h.apply(Held{false})
	h.apply(Gated{Open: true})
	for command := h.m.launched + 1; command <= h.m.submitted; command++ {
		for h.m.blocked[command] > 0 {
			h.apply(Unblocked{command})
		}
	}
	for range 10_000 {
		h.launched()
		h.marked()
		h.mark()
		h.marked()
		h.launch()
		h.launched()
		h.complete()
		if h.m.Drained() {
			break
		}
	}
	if !h.m.Drained() {
		h.t.Fatalf("does not drain: %+v", *h.m)
	}
	h.now += time.Second
	h.apply(Tick{})
	if h.ready {
		h.t.Fatal("drained and still ready")
	}
}

func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {},
			"submit": func(t *rapid.T) {
				h.submit(0)
			},
			"submit blocked": func(t *rapid.T) { h.submit(rapid.IntRange(1, 3).Draw(t, "blockers")) },
			"unblock": func(t *rapid.T) {
				h.apply(Unblocked{rapid.Uint64Range(0, h.m.Submitted()+1).Draw(t, "command")})
			},
			"launch":   func(*rapid.T) { h.launch() },
			"launched": func(*rapid.T) { h.launched() },
			"mark":     func(*rapid.T) { h.mark() },
			"marked":   func(*rapid.T) { h.marked() },
			"complete": func(*rapid.T) { h.complete() },
			"await": func(t *rapid.T) {
				h.apply(Awaited{rapid.Uint64Range(0, h.m.Submitted()).Draw(t, "command")})
			},
			"hold": func(t *rapid.T) { h.apply(Held{rapid.Bool().Draw(t, "held")}) },
			"gate": func(t *rapid.T) {
				h.apply(Gated{Open: rapid.Bool().Draw(t, "open"), Until: rapid.Uint64Range(0, h.m.Submitted()).Draw(t, "until")})
			},
			"drop": func(*rapid.T) { h.drop() },
			"configure": func(t *rapid.T) {
				c := h.m.Config()
				c.Threshold = rapid.IntRange(1, 9).Draw(t, "threshold")
				c.Batch = rapid.IntRange(1, c.Threshold).Draw(t, "batch")
				h.apply(Configured{c})
			},
			"time": func(t *rapid.T) {
				h.now += time.Duration(rapid.IntRange(1, 40).Draw(t, "passed"))
				h.apply(Tick{})
			},
		})
		if rapid.Bool().Draw(t, "breaks") {
			h.broken = true
			h.apply(Broken{})
			h.dropped += len(h.buffered)
			h.buffered = nil
			if h.out.Launch != 0 || h.out.Mark {
				t.Fatal("a broken queue launches")
			}
		} else if rapid.Bool().Draw(t, "closes") {
			h.closed = true
			h.apply(Closed{})
		}
		h.finish()
		for i, n := range h.launches {
			if n != uint64(i+1) {
				t.Fatalf("launch %d was of command %d", i+1, n)
			}
		}
	})
}

func run(m *Machine, events ...Event) Outcome {
	var out Outcome
	for _, e := range events {
		out = m.Apply(0, e)
	}
	return out
}

func TestMarkersStandBehindBatches(t *testing.T) {
	m := New(Config{Threshold: 16, Batch: 4})
	markers := 0
	for range 16 {
		out := run(m, Submitted{}, Begun{}, Launched{})
		for out.Mark {
			out = run(m, Marking{}, Marked{})
			markers++
		}
	}
	// The first command gets one at once; after that, one each batch.
	if want := 1 + 15/4; markers != want {
		t.Errorf("%d markers behind 16 commands, want %d", markers, want)
	}
	if out := run(m, Submitted{}); out.Launch != 0 {
		t.Error("a 17th command above a threshold of 16")
	}
	if out := run(m, Completed{1}); out.Launch != 17 {
		t.Errorf("after a completion command %d may go, want 17", out.Launch)
	}
}

// A command somebody waits for does not wait for its batch.
func TestAwaitedCommandGetsItsMarker(t *testing.T) {
	m := New(Config{Threshold: 16, Batch: 8})
	run(m, Submitted{}, Begun{}, Launched{}, Marking{}, Marked{})
	if out := run(m, Submitted{}, Begun{}, Launched{}); out.Mark {
		t.Fatal("a marker behind each command")
	}
	if out := run(m, Awaited{2}); !out.Mark {
		t.Error("no marker behind the awaited command")
	}
}

func TestStopBetweenOutcomeAndLaunchWins(t *testing.T) {
	m := New(Config{Threshold: 2, Batch: 1})
	if out := run(m, Submitted{}); out.Launch != 1 {
		t.Fatalf("launch %d, want 1", out.Launch)
	}
	if out := run(m, Held{true}); out.Launch != 0 {
		t.Error("a held queue launches")
	}
	if out := run(m, Gated{}, Held{false}); out.Launch != 0 {
		t.Error("letting go of a queue opened the scheduler's gate")
	}
	if out := run(m, Gated{Open: true}); out.Launch != 1 {
		t.Error("an open queue does not launch")
	}
}

func TestClosedGateLetsThroughWhatIsWaitedFor(t *testing.T) {
	m := New(Config{Threshold: 8, Batch: 8})
	run(m, Gated{}, Submitted{}, Submitted{}, Submitted{})
	if out := run(m, Gated{Until: 2}); out.Launch != 1 {
		t.Fatalf("launch %d, want 1", out.Launch)
	}
	run(m, Begun{}, Launched{}, Marking{}, Marked{})
	if out := run(m, Begun{}, Launched{}); out.Launch != 0 {
		t.Errorf("command %d went as well", out.Launch)
	}
}

func TestIdleAfter(t *testing.T) {
	m := New(Config{Threshold: 2, Batch: 1, IdleAfter: 100})
	if out := m.Apply(0, Submitted{}); out.Edge != Ready {
		t.Fatal("no ready edge")
	}
	run(m, Begun{}, Launched{}, Marking{}, Marked{})
	if out := m.Apply(50, Completed{1}); out.Edge != NoEdge || out.Next != 150 {
		t.Fatalf("outcome %+v, want a timer at 150", out)
	}
	// A command in time: the task was never idle.
	m.Apply(149, Submitted{})
	run(m, Begun{}, Launched{}, Marking{}, Marked{})
	m.Apply(200, Completed{2})
	if out := m.Apply(299, Tick{}); out.Edge != NoEdge {
		t.Fatal("idle too early")
	}
	if out := m.Apply(300, Tick{}); out.Edge != Idle || out.Next != 0 {
		t.Fatalf("outcome %+v, want the idle edge and no timer", out)
	}
}

func BenchmarkCommand(b *testing.B) {
	m := New(Config{Threshold: 16, Batch: 8})
	b.ReportAllocs()
	for b.Loop() {
		m.Apply(0, Submitted{})
		m.Apply(0, Begun{})
		if out := m.Apply(0, Launched{}); out.Mark {
			m.Apply(0, Marking{})
			m.Apply(0, Marked{})
			m.Apply(0, Completed{m.Marked()})
		}
	}
}
