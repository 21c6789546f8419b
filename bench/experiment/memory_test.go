package experiment

import (
	"math"
	"slices"
	"testing"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/memory"
)

// TestLeastIn compares with Belady's rule itself, played over whole units in turns.
func TestLeastIn(t *testing.T) {
	for _, c := range []struct {
		tasks, footprint, budget int
	}{{3, 8, 16}, {4, 8, 16}, {6, 8, 16}, {2, 10, 15}, {5, 4, 7}, {3, 8, 24}, {2, 8, 8}} {
		const cycles = 200
		var uses []page
		for range cycles {
			for task := range c.tasks {
				for piece := range c.footprint {
					uses = append(uses, page{task, piece})
				}
			}
		}
		missed := float64(beladyMisses(uses, c.budget)) / float64(cycles*c.tasks)
		want := turns{tasks: c.tasks, footprint: float64(c.footprint), touched: float64(c.footprint), budget: float64(c.budget)}.leastIn()
		// The formula takes that a turn's own memory stays for all of it, as that of a
		// program that goes over it again and again must: it is never below the play.
		if want < missed-0.1 {
			t.Errorf("%+v: %v units have to come in for a turn, and %v are enough", c, want, missed)
		}
		if want > float64(c.footprint) || want < 0 {
			t.Errorf("%+v: %v units for a turn of %d", c, want, c.footprint)
		}
	}
}

func beladyMisses(uses []page, keep int) (missed int) {
	next := make([]int, len(uses))
	last := map[page]int{}
	for i := len(uses) - 1; i >= 0; i-- {
		next[i] = len(uses)
		if at, ok := last[uses[i]]; ok {
			next[i] = at
		}
		last[uses[i]] = i
	}
	held := map[page]int{} // when each is used again
	for i, u := range uses {
		if _, ok := held[u]; !ok {
			missed++
			if len(held) == keep {
				var latest page
				for p, at := range held {
					if at > held[latest] || held[latest] == 0 {
						latest = p
					}
				}
				delete(held, latest)
			}
		}
		held[u] = next[i]
	}
	return missed
}

func TestCeiling(t *testing.T) {
	const gib = float64(memory.GiB)
	for _, c := range []struct {
		tasks int
		slice time.Duration
		want  float64
	}{{2, time.Millisecond, 1}, {3, time.Second, 1}, {3, 50 * time.Millisecond, 0.591}, {4, 100 * time.Millisecond, 0.887}, {6, 50 * time.Millisecond, 0.370}} {
		got := turns{tasks: c.tasks, footprint: 8 * gib, touched: 8 * gib, budget: 16 * gib, slice: c.slice}.ceiling(50.8e9)
		if math.Abs(got-c.want) > 0.001 {
			t.Errorf("%d tasks, %s: %.4f, want %v", c.tasks, c.slice, got, c.want)
		}
	}
}

func TestCourse(t *testing.T) {
	c := course{at: []int64{1000, 2000, 4000}, steps: []float64{0, 10, 12}}
	for at, want := range map[int64]float64{0: 0, 999: 0, 1500: 5, 2000: 10, 3000: 11, 4000: 12, 9000: 12} {
		if got := c.by(at); got != want {
			t.Errorf("by %d: %v steps, want %v", at, got, want)
		}
	}
	if got := c.perS(1000, 2000); got != 10/1e-6 {
		t.Errorf("%v steps a second", got)
	}
	if got := c.perS(2000, 2000); got != 0 {
		t.Errorf("%v steps a second in no time", got)
	}
}

// TestPages plays a card that holds four pieces of two programs.
func TestPages(t *testing.T) {
	var p pages
	use := func(task int, pieces ...int) int {
		return p.used(task, func(f func(int)) {
			for _, i := range pieces {
				f(i)
			}
		})
	}
	if n := use(0, 0, 1, 2); n != 3 {
		t.Errorf("%d pieces were not there at first", n)
	}
	use(1, 0, 1, 2)
	use(0, 1)
	if got := p.excess(4, 2); !slices.Equal(got, []int{2, 0}) { // 0 and 2 of the first
		t.Errorf("%v pieces go", got)
	}
	if n := use(0, 1, 0); n != 1 {
		t.Errorf("%d pieces were not there, want one", n)
	}
	if got := p.excess(4, 2); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("%v pieces go", got)
	}
	if got := p.excess(4, 2); !slices.Equal(got, []int{0, 0}) {
		t.Errorf("%v pieces go though there is room", got)
	}
}

// TestTransfers reads two swaps, the first of them cold.
func TestTransfers(t *testing.T) {
	const ms = int64(time.Millisecond)
	const size = uint64(800)
	var moves []workloads.Move
	add := func(who int, at int64, target, in, out uint64) {
		moves = append(moves, workloads.Move{Who: who, AtNS: at * ms, Target: target, In: in, Out: out})
	}
	add(0, 0, 800, 0, 0)
	add(1, 0, 0, 0, 0)
	swap := func(at, step int64, from, to int) {
		add(from, at, 0, 800*uint64(from), 0)
		add(to, at+1, 800, 0, 800*uint64(from))
		for i := int64(1); i <= 4; i++ {
			add(from, at+i*step, 0, 800*uint64(from), uint64(200*i))
			add(to, at+1+i*step, 800, uint64(200*i), 800*uint64(from))
		}
	}
	swap(100, 40, 0, 1)  // 160 ms each way
	swap(1000, 10, 1, 0) // 40 ms
	slices.SortStableFunc(moves, func(a, b workloads.Move) int { return int(a.AtNS - b.AtNS) })
	got := transfers(moves, true, nil)
	if len(got) != 2 || got[0].who != 0 || got[0].bytes != size || got[0].ended-got[0].begun != 160*ms || got[1].ended-got[1].begun != 40*ms {
		t.Errorf("to the host: %+v", got)
	}
	if got := transfers(moves, false, nil); len(got) != 2 || got[0].who != 1 || got[0].ended-got[0].begun != 160*ms || got[1].ended-got[1].begun != 40*ms {
		t.Errorf("to the device: %+v", got)
	}
	m, n, err := swapMetrics(moves, size)
	if err == nil {
		t.Errorf("the first swap of each process is cold, and %d were measured: %v", n, m)
	}
	swap2 := func(at int64, from, to int) { // warm, 20 ms
		add(from, at, 0, size, size)
		add(to, at, size, size, size)
		add(from, at+20, 0, size, 2*size)
		add(to, at+20, size, 2*size, size)
	}
	swap2(2000, 0, 1)
	m, n, err = swapMetrics(moves, size)
	if err != nil || n != 1 || m["out_gb_per_s"] != float64(size)/0.02/1e9 || m["cold_out_gb_per_s"] != 2*float64(size)/0.2/1e9 {
		t.Errorf("%d swaps: %v, %v", n, m, err)
	}
}

// TestTransfersBeginWhenTold has an order be taken back before anything moved: the transfer
// begins with the one that was carried out.
func TestTransfersBeginWhenTold(t *testing.T) {
	const ms = int64(time.Millisecond)
	moves := []workloads.Move{
		{AtNS: 0}, {AtNS: 10 * ms, Target: 100}, {AtNS: 20 * ms}, {AtNS: 500 * ms, Target: 100}, {AtNS: 510 * ms, Target: 100, In: 100},
	}
	if got := transfers(moves, false, nil); len(got) != 1 || got[0].begun != 500*ms || got[0].bytes != 100 {
		t.Errorf("%+v", got)
	}
}

// TestWhatCameBeforeIsNoPartOfTheSwap: a process that took what room there was, a little before
// another began to make some, is timed from then on.
func TestWhatCameBeforeIsNoPartOfTheSwap(t *testing.T) {
	const ms = int64(time.Millisecond)
	moves := []workloads.Move{
		{AtNS: 0, Target: 20}, {AtNS: 10 * ms, Target: 120}, {AtNS: 20 * ms, Target: 120, In: 100},
		{AtNS: 205 * ms, Target: 420, In: 100}, {AtNS: 210 * ms, Target: 420, In: 400}, {AtNS: 240 * ms, Target: 1000, In: 900},
	}
	cuts := []transfer{{who: 0, begun: 100 * ms}, {who: 1, begun: 200 * ms}}
	if got := transfers(moves, false, cuts); len(got) != 2 || got[1].begun != 200*ms || got[1].ended != 240*ms || got[1].bytes != 800 {
		t.Errorf("%+v", got)
	}
}

func TestSwapMetricsWantsWholeSwaps(t *testing.T) {
	if _, _, err := swapMetrics([]workloads.Move{{AtNS: 1, Out: 0}, {AtNS: 2, Out: 5}}, 1000); err == nil {
		t.Error("a transfer of a part is taken for a swap")
	}
}

func TestCompareOversub(t *testing.T) {
	row := func(mode, policy string, pct, moved float64) rows.Row {
		return rows.Row{Mode: mode, Params: rows.Params{"workload": "read", "footprint_pct": 150, "slice_ms": 100.0, "tasks": 3, "policy": policy},
			Metrics: rows.Metrics{"of_in_memory_pct": pct, "moved_gib": moved, "span_s": 3}}
	}
	all := []rows.Row{row(rows.ModeXmsched, "predict", 60, 10), row(rows.ModeXmsched, "serial", 20, 20), row(rows.ModeNative, PolicyPaging, 5, 0)}
	other := row(rows.ModeXmsched, "swap", 30, 10)
	other.Params["slice_ms"] = 50.0
	compareOversub(append(all, other))
	m := all[0].Metrics
	if m["over_serial_ratio"] != 3 || m["over_paging_ratio"] != 12 || math.Abs(m["moved_under_serial_ratio"]-6) > 1e-9 {
		t.Errorf("%v", m)
	}
	if _, ok := m["over_swap_ratio"]; ok {
		t.Error("rows of different turns are compared")
	}
	if _, ok := all[2].Metrics["over_predict_ratio"]; ok {
		t.Error("a row that is not ours is compared")
	}
}

func TestMemoryExperimentsRefuse(t *testing.T) {
	good := Oversub{
		Workloads: []string{"read"}, Footprints: []int{150}, Budget: memory.GiB, Task: 512 * memory.MiB, Piece: 8 * memory.MiB, Policies: []string{"predict"},
		Slices: []time.Duration{time.Second}, Span: time.Second, Cycles: 1, Rounds: 1, Layers: 1, Batch: 1,
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Oversub){
		"no workload":       func(o *Oversub) { o.Workloads = nil },
		"unknown workload":  func(o *Oversub) { o.Workloads = []string{"write"} },
		"unknown policy":    func(o *Oversub) { o.Policies = []string{"fifo"} },
		"no turns":          func(o *Oversub) { o.Slices = nil },
		"long turns":        func(o *Oversub) { o.Slices = []time.Duration{time.Hour} },
		"percent of what":   func(o *Oversub) { o.Budget = 0 },
		"neither":           func(o *Oversub) { o.Footprints = nil },
		"too many tasks":    func(o *Oversub) { o.Tasks = 1000 },
		"footprint of 1 %":  func(o *Oversub) { o.Footprints = []int{1} },
		"pieces of nothing": func(o *Oversub) { o.Piece = -1 },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	byNumber := good
	byNumber.Budget, byNumber.Footprints, byNumber.Tasks = 0, nil, 3
	if err := byNumber.Validate(); err != nil {
		t.Error(err)
	}
	if n := good.counts()[0].tasks; n != 3 {
		t.Errorf("150 %% of two tasks' memory are %d tasks", n)
	}
}
