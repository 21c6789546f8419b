package experiment

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"xmsched/bench/rows"
)

func TestPairEdges(t *testing.T) {
	us, err := pairEdges([]int64{1000, 5000, 9000}, []int64{500, 3000, 6500, 9100, 9200})
	if err != nil || !slices.Equal(us, []float64{2, 1.5, 0.1}) {
		t.Errorf("%v, %v", us, err)
	}
	for name, closed := range map[string][]int64{
		"none after the last": {1100, 5100},
		"one missed":          {1100, 9100},
		"none at all":         nil,
	} {
		if _, err := pairEdges([]int64{1000, 5000, 9000}, closed); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCPUTime: what a process works is seen in steps that are a small part of a second.
func TestCPUTime(t *testing.T) {
	const step = 5 * time.Millisecond
	before, err := cpuTime(os.Getpid())
	after := before
	for begun := time.Now(); err == nil && after == before; {
		if after, err = cpuTime(os.Getpid()); time.Since(begun) > 10*time.Second {
			t.Fatal("the clock stands still")
		}
	}
	if err != nil || after < before || after > before+step {
		t.Errorf("after %v comes %v, %v", before, after, err)
	}
	if _, err := cpuTime(1 << 28); err == nil {
		t.Error("a process that is not there has a CPU time")
	}
}

func TestCountsBetween(t *testing.T) {
	b := &background{counts: []count{{100, 0}, {200, 10}, {300, 10}, {400, 30}}}
	for _, c := range []struct {
		from, to int64
		want     float64
	}{{100, 400, 30}, {150, 200, 5}, {200, 300, 0}, {350, 400, 10}, {0, 150, 5}, {350, 900, 10}} {
		if got := b.between(c.from, c.to); got != c.want {
			t.Errorf("between %d and %d: %v kernels, want %v", c.from, c.to, got, c.want)
		}
	}
	if got := (&background{}).between(0, 1); got != 0 {
		t.Errorf("no counts: %v", got)
	}
}

func TestOverheadIsOfPairs(t *testing.T) {
	// The second half drifts by 1,000 ns: medians of the sides would differ by
	// far more than any pair does.
	m, err := overhead([]float64{4000, 4010, 5000}, []float64{4040, 4050, 5040})
	if err != nil {
		t.Fatal(err)
	}
	if m["overhead_ns"] != 40 || m["native_ns"] != 4010 || m["preloaded_ns"] != 4050 {
		t.Errorf("%v", m)
	}
	if pct := m["overhead_pct"]; pct < 0.99 || pct > 1.0 {
		t.Errorf("overhead %v %%", pct)
	}
	if _, err := overhead(nil, nil); err == nil {
		t.Error("nothing was compared")
	}
}

func TestImagesPerS(t *testing.T) {
	r := trainResult{Batch: 64, StepEndS: []float64{9.9, 10.5, 11, 12, 13}}
	if got := r.imagesPerS(10, 12); got != 96 {
		t.Errorf("%v img/s in 10..12, want 3 steps of 64 in 2 s", got)
	}
}

func TestP99Validate(t *testing.T) {
	good := P99{
		Requests: Requests{RequestUS: 450, Kernels: 1, Count: 10}, Load: Load{Programs: 1, KernelUS: 4700, InFlight: 16},
		Rounds: 2, Modes: []string{rows.ModeAlone, rows.ModeXmsched}, Levels: []Level{1},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*P99){
		"rounds is 0":                         func(p *P99) { p.Rounds = 0 },
		"do not fill":                         func(p *P99) { p.Rounds = 11 },
		"backgrounds is 0":                    func(p *P99) { p.Load.Programs = 0 },
		"no modes":                            func(p *P99) { p.Modes = nil },
		`mode "tsg"`:                          func(p *P99) { p.Modes = []string{"tsg"} },
		"no level":                            func(p *P99) { p.Levels = nil },
		"backgrounds is 100000, want 1 to 64": func(p *P99) { p.Load.Programs = 100_000 },
		"count is 2000000, want 1 to 1000000": func(p *P99) { p.Requests.Count = 2_000_000 },
		"background-us is NaN":                func(p *P99) { p.Load.KernelUS = math.NaN() },
		"in-flight is 513, want 1 to 512":     func(p *P99) { p.Load.InFlight = 513 },
		"threshold is -1, want 0 to 256":      func(p *P99) { p.Load.Threshold = -1 },
		"priority is 256, want -255 to 255":   func(p *P99) { p.Requests.Priority = 256 },
	} {
		p := good
		spoil(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}

func TestDemoParamsMakeRows(t *testing.T) {
	for _, quick := range []bool{false, true} {
		d := DefaultDemo(quick)
		for _, mode := range []string{rows.ModeAlone, rows.ModeXmsched} {
			params := d.Params(mode, 2)
			if _, ok := params["level"]; ok != (mode == rows.ModeXmsched) {
				t.Errorf("%s: level is there: %v", mode, ok)
			}
			r := rows.Row{Schema: rows.Schema, Row: "demo", Mode: mode, Commit: "c", Time: rows.Time{Time: time.Unix(1, 0)}, N: 1, Params: params, Metrics: rows.Metrics{"p99_us": 1}}
			if _, err := rows.Encode(r); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XMSCHED_LIB", dir)
	p, err := FindPlaces()
	if err != nil || p.Lib != dir {
		t.Fatalf("lib %q, %v, want what XMSCHED_LIB says", p.Lib, err)
	}
	_, err = p.Library("libxmsched.so")
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v, want the next step", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "libxmsched.so"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Complete(); err == nil {
		t.Error("one library of all is called complete")
	}
	if got, err := p.Library("libxmsched.so"); err != nil || got != filepath.Join(dir, "libxmsched.so") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCommit(t *testing.T) {
	if got := Commit("8e1cfefe-dirty"); got != "8e1cfefe-dirty" {
		t.Errorf("the Makefile's stamp became %q", got)
	}
	if got := Commit("dev"); got == "" {
		t.Error("no commit at all: rows without one are refused")
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "8e1cfefe0123456789abcdef0123456789abcdef"}
	for want, settings := range map[string][]debug.BuildSetting{
		"8e1cfefe":       {revision, {Key: "vcs.modified", Value: "false"}},
		"8e1cfefe-dirty": {{Key: "vcs.modified", Value: "true"}, revision},
		"":               {{Key: "vcs.modified", Value: "true"}},
	} {
		if got := stampedByGo(settings); got != want {
			t.Errorf("%v gives %q, want %q", settings, got, want)
		}
	}
}

func TestCleanEnv(t *testing.T) {
	t.Setenv("XMSCHED_DIR", "/x")
	t.Setenv("XSCHED_AUTO_XQUEUE_LEVEL", "1")
	t.Setenv("LD_PRELOAD", "/lib/libxmsched.so")
	t.Setenv("BENCH_OTHER", "kept")
	env := cleanEnv()
	for _, kv := range env {
		if strings.HasPrefix(kv, "XMSCHED_") || strings.HasPrefix(kv, "XSCHED_") || strings.HasPrefix(kv, "LD_PRELOAD=") {
			t.Errorf("%s is left", kv)
		}
	}
	if !slices.Contains(env, "BENCH_OTHER=kept") {
		t.Error("other variables are gone")
	}
}

func TestPrivateDirLeavesRoomForSockets(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 90))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	dir, err := privateDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if n := len(filepath.Join(dir, "run", "xserver.sock")); n > 107 {
		t.Errorf("the socket's path has %d bytes", n)
	}
}

func TestPairWakes(t *testing.T) {
	// The second write came while the waiter still slept, the last one after its end.
	got := pairWakes([]int64{1000, 5000, 6000, 20000}, []int64{900, 3000, 9000})
	if want := []float64{2, 4, 3}; !slices.Equal(got, want) {
		t.Errorf("pairWakes gives %v, want %v", got, want)
	}
	if got := pairWakes([]int64{1000}, nil); len(got) != 0 {
		t.Errorf("pairWakes without a return gives %v", got)
	}
}
