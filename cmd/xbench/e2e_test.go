package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"xmsched/bench/bounds"
	"xmsched/bench/rows"
	"xmsched/hal/sim/simtest"
)

// These tests run the built programs as a user does, on the simulated device.
// They look at what is there and at wide ratios; a machine with two cores and
// other work gives no times.

// demoLimit is some ten times what the quick demonstration takes on an idle machine.
const demoLimit = 3 * time.Minute

var built struct {
	once sync.Once
	dir  string
	err  error
}

// build makes bin and lib in a folder of its own, so that what runs from there is
// this test's.
func build(t *testing.T) (bin string) {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "xbench-e2e-"); built.err == nil {
			built.err = simtest.Build(built.dir)
		}
	})
	if built.err != nil {
		t.Fatalf("build what the test runs: %v", built.err)
	}
	return filepath.Join(built.dir, "bin")
}

// command prepares the built command; its own folders go where the test's do.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(build(t), "xbench"), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	return cmd
}

// xbench runs the built command and gives its output; it must end well.
func xbench(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("xbench %s: %w\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

func measured(t *testing.T, out string) []rows.Row {
	t.Helper()
	r, err := rows.Read(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	for _, row := range r {
		if !row.Simulated || row.UUID == "" || row.Device == "" {
			t.Errorf("row %s %s does not say what it was measured on: %+v", row.Row, row.Mode, row)
		}
	}
	return r
}

func byMode(t *testing.T, r []rows.Row, mode string) rows.Row {
	t.Helper()
	for _, row := range r {
		if row.Mode == mode {
			return row
		}
	}
	t.Fatalf("no row of mode %s", mode)
	return rows.Row{}
}

// better says that the requests fare better under xmsched than beside the load
// without us, and that the load still got something. P90, not P99: of some
// hundred requests the worst few are the test machine's.
func better(t *testing.T, r []rows.Row) error {
	t.Helper()
	native, ours := byMode(t, r, rows.ModeNative), byMode(t, r, rows.ModeXmsched)
	if native.Metrics["background_per_s"] <= 0 || ours.Metrics["background_per_s"] <= 0 {
		t.Errorf("the background stood still: %v native, %v under xmsched", native.Metrics, ours.Metrics)
	}
	var wrong []error
	for _, metric := range []string{"p50_us", "p90_us"} {
		wrong = append(wrong, unless(ours.Metrics[metric] < native.Metrics[metric],
			"%s is %v under xmsched and %v without", metric, ours.Metrics[metric], native.Metrics[metric]))
	}
	return errors.Join(wrong...)
}

func TestDemo(t *testing.T) {
	quietly(t, func() error {
		out := filepath.Join(t.TempDir(), "results")
		begun := time.Now()
		text := xbench(t, "demo", "--sim", "--quick", "--out", out)
		took := time.Since(begun)
		for _, want := range []string{"simulated", "alone", "sharing without us", "under xmsched", "P99 us", "kernels/s", "all at once, under xmsched", "all are right"} {
			if !strings.Contains(text, want) {
				t.Errorf("the table does not say %q:\n%s", want, text)
			}
		}
		file, err := os.ReadFile(filepath.Join(out, "demo.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		r := measured(t, string(file))
		if len(r) != 5 {
			t.Fatalf("%d rows, want alone, native and xmsched, and two of memory", len(r))
		}
		if m := r[4]; m.Mode != rows.ModeXmsched || m.Params["part"] != "memory" || m.Metrics["moved_in_gib"] <= 0 || m.Metrics["moved_out_gib"] <= 0 {
			t.Errorf("memory did not move: %+v", m)
		}
		for _, name := range []string{"latency", "background"} {
			checkPicture(t, filepath.Join(out, name))
		}
		left(t)
		return errors.Join(better(t, r), unless(took <= demoLimit, "took %s", took))
	})
}

func checkPicture(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path + ".png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Errorf("%s: %v", f.Name(), err)
	}
	svg, err := os.ReadFile(path + ".svg")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(svg), "(simulated)") {
		t.Errorf("%s.svg does not say that it is simulated", path)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s.svg: %v", path, err)
		}
	}
}

func TestP99(t *testing.T) {
	quietly(t, func() error {
		dir := t.TempDir()
		out := xbench(t, "p99", "--sim", "--json", "--results", dir, "--plot", filepath.Join(dir, "p99"),
			"--request-us", "2000", "--count", "120", "--gap-us", "50", "--burst", "60", "--pause-us", "100000",
			"--background-us", "2000", "--backgrounds", "2", "--rounds", "2", "--level", "2")
		r := measured(t, out)
		ours := byMode(t, r, rows.ModeXmsched)
		if ours.N != 120 || ours.Params["level"] != 2.0 || ours.Params["backgrounds"] != 2.0 {
			t.Errorf("row %+v", ours)
		}
		kept, err := filepath.Glob(filepath.Join(dir, "p99-*.jsonl"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("kept in %v, %v, want one file", kept, err)
		}
		again, err := rows.ReadFile(kept[0])
		if err != nil || len(again) != len(r) {
			t.Errorf("%d rows kept, %v, want %d", len(again), err, len(r))
		}
		checkPicture(t, filepath.Join(dir, "p99"))
		left(t)
		// A kernel of each background runs on; then the rest of the burst is alone.
		n := ours.Metrics["gated_count"]
		return errors.Join(better(t, r), gatedAsAlone(t, r, ours),
			unless(n >= 40 && n <= 118, "%v of 120 requests were gated, want most of the bursts", n))
	})
}

// At Level 1 all that the background has queued runs on for most of the burst, while
// its launching thread waits: requests beside it are not said to be gated.
func TestP99GatedLevel1(t *testing.T) {
	quietly(t, func() error {
		r := measured(t, xbench(t, "p99", "--sim", "--json", "--request-us", "2000", "--count", "120", "--gap-us", "50", "--burst", "60",
			"--pause-us", "100000", "--background-us", "5000", "--in-flight", "16", "--rounds", "1", "--level", "1", "--modes", "alone,xmsched"))
		ours := byMode(t, r, rows.ModeXmsched)
		n := ours.Metrics["gated_count"]
		if n == 0 {
			return errors.New("no request was gated")
		}
		return errors.Join(gatedAsAlone(t, r, ours), unless(n <= 90, "%v of 120 requests were gated beside a queue of 80 ms", n))
	})
	left(t)
}

// gatedAsAlone says that requests which found the background gated take no longer
// than alone, widely.
func gatedAsAlone(t *testing.T, r []rows.Row, ours rows.Row) error {
	t.Helper()
	ratio := ours.Metrics["gated_p50_us"] / byMode(t, r, rows.ModeAlone).Metrics["p50_us"]
	return unless(ratio <= 2, "half of the gated requests take %v times what they take alone", ratio)
}

func TestLaunch(t *testing.T) {
	r := measured(t, xbench(t, "launch", "--sim", "--json", "--rounds", "2", "--reps", "2", "--rep-ms", "5", "--threads", "1,4"))
	if len(r) != 4 {
		t.Fatalf("%d rows, want free and bounded of 1 and 4 threads", len(r))
	}
	for _, row := range r {
		if row.Metrics["native_ns"] <= 0 || row.Metrics["preloaded_ns"] <= 0 {
			t.Errorf("%s: %v", row.Mode, row.Metrics)
		}
	}
	quietly(t, func() error {
		r := measured(t, xbench(t, "launch", "--sim", "--json", "--modes", "free", "--threads", "1", "--kernel-us", "500", "--sync-every", "1", "--rounds", "1", "--reps", "2", "--rep-ms", "40"))
		ns := r[0].Metrics["native_ns"]
		return unless(ns >= 450_000, "a launch of 500 us that is waited for took %v ns", ns)
	})
	left(t)
}

func TestStartup(t *testing.T) {
	quietly(t, func() error {
		r := measured(t, xbench(t, "startup", "--sim", "--json", "--init-pairs", "3", "--plain-pairs", "20"))
		for _, metric := range []string{"extra_us", "empty_preload_extra_us", "over_empty_us", "noise_us"} {
			if _, ok := byMode(t, r, rows.ModeNoCUDA).Metrics[metric]; !ok {
				t.Errorf("the program without CUDA has no %s", metric)
			}
		}
		first := byMode(t, r, rows.ModeFree).Metrics["first_init_extra_ms"]
		return unless(first <= 50, "the first cuInit is later by %v ms", first)
	})
	left(t)
}

func TestDecision(t *testing.T) {
	quietly(t, func() error {
		r := measured(t, xbench(t, "decision", "--sim", "--json", "--edges", "200", "--idle", "2s"))
		m := r[0].Metrics
		if r[0].N != 200 || m["p50_us"] <= 0 || m["floor_p50_us"] <= 0 {
			t.Errorf("%d edges, %v", r[0].N, m)
		}
		return errors.Join(
			unless(m["p50_us"] <= 1000, "a decision takes %v us", m["p50_us"]), // ten times the bound of P99
			unless(m["floor_p50_us"] <= 1000, "waking a process takes %v us", m["floor_p50_us"]),
			unless(m["daemon_idle_pct"] <= 10, "the daemon takes %v %% of a core while nothing changes", m["daemon_idle_pct"]))
	})
	left(t)
}

// Rows of the simulator are no evidence, whatever they say.
func TestSimulatedRowsReachNothing(t *testing.T) {
	dir := t.TempDir()
	xbench(t, "decision", "--sim", "--edges", "20", "--idle", "1s", "--results", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	r, err := rows.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	sets, err := bounds.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets {
		verdicts, err := bounds.Check(set.Bounds, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.Result != bounds.NotMeasured {
				t.Errorf("%s: %s by a simulated row", v.Bound, v.Result)
			}
		}
	}
}

func TestInterruptEndsEverything(t *testing.T) {
	cmd := command(t, "demo", "--sim", "--quick", "--out", t.TempDir())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	untilSaid(t, stderr, "under xmsched")
	time.Sleep(300 * time.Millisecond) // into the phase: daemon and two programs run
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(stderr)
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("ended with %v, want exit code 130", err)
	}
	if !strings.Contains(string(rest), "interrupted; what was started has been ended") {
		t.Errorf("it said %q", rest)
	}
	left(t)
}

// Nobody can clean up after SIGKILL: the children end by themselves.
func TestKilledBenchLeavesNothing(t *testing.T) {
	cmd := command(t, "demo", "--sim", "--quick", "--out", t.TempDir())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	untilSaid(t, stderr, "under xmsched")
	time.Sleep(300 * time.Millisecond)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	left(t)
}

// untilSaid reads until a line of progress begins with the words.
func untilSaid(t *testing.T, r io.Reader, words string) {
	t.Helper()
	var seen strings.Builder
	buf := make([]byte, 256)
	for !strings.Contains("\n"+seen.String(), "\n"+words) {
		n, err := r.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			t.Fatalf("it ended before it said %q: %q", words, seen.String())
		}
	}
}

// left fails when a program of the built folder still runs. The simulated device
// ends itself ten seconds after its last client when nobody ended it.
func left(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for {
		running := runningFrom(built.dir)
		if len(running) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running: %s", strings.Join(running, "; "))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// runningFrom lists the processes whose program lies in dir.
func runningFrom(dir string) []string {
	var out []string
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range exes {
		exe, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(exe, dir+"/") {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		out = append(out, strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")))
	}
	return out
}
