package admission

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Sources of admission. The unit tests bring a clock and kernel calls of their own, and no watchdog.
var (
	core = []string{"admission.c", "bound.c", "boardmap.c", "device.c", "edge.c", "gate.c", "guard.c", "lease.c", "mark.c", "queue.c", "stream.c", "thread.c",
		"admission_test/testdata/channels_none.c", "admission_test/testdata/memory_none.c"}
	linux = []string{"sys.c", "tail.c", "watchdog.c"}
)

const (
	asan = "-fsanitize=address,undefined"
	tsan = "-fsanitize=thread"
)

// program is one C test program, built once and on demand.
type program struct {
	name    string
	sources []string
	flags   []string

	once sync.Once
	path string
	err  error
}

var (
	dir string // holds what is built; made and removed by TestMain

	unit = &program{
		name:    "unit",
		sources: append([]string{"admission_test/testdata/unit.c", "admission_test/testdata/fake.c", "admission_test/testdata/sys_fake.c"}, core...),
		flags:   []string{"-O1", asan, "-fno-sanitize-recover=undefined"},
	}
	stress = &program{
		name:    "stress",
		sources: append(append([]string{"admission_test/testdata/stress.c", "admission_test/testdata/fake.c"}, core...), linux...),
		flags:   []string{"-O1", asan, "-fno-sanitize-recover=undefined"},
	}
	// stressRaces is stress for the race detector. It does not know fences; no
	// order here rests on one that it would have to know.
	stressRaces = &program{
		name:    "stress-tsan",
		sources: stress.sources,
		flags:   []string{"-O1", tsan, "-Wno-tsan"},
	}
	bench = &program{
		name:    "bench",
		sources: append(append([]string{"admission_test/testdata/bench.c", "admission_test/testdata/fake.c"}, core...), linux...),
		flags:   []string{"-O2", "-fPIC"},
	}
)

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "xmsched-admission-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func (p *program) build(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		for _, pattern := range []string{"../*.[ch]", "../gen/*.h", "testdata/*"} { // so that the test's result is not taken from before they changed
			files, _ := filepath.Glob(pattern)
			for _, f := range files {
				_, _ = os.Stat(f)
			}
		}
		p.path = filepath.Join(dir, p.name)
		args := append([]string{"-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-ftls-model=initial-exec"}, p.flags...)
		args = append(append(args, p.sources...), "-lpthread", "-o", p.path)
		cmd := exec.Command("gcc", args...)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			p.err = fmt.Errorf("build %s: %w\n%s", p.name, err, out)
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.path
}

// run runs one test of the program; it must end well, and soon enough.
func (p *program) run(t testing.TB, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.build(t), args...)
	// The fake driver keeps what it made until the process ends, and allocates in
	// the handlers that launch.
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0", "UBSAN_OPTIONS=print_stacktrace=1", "TSAN_OPTIONS=report_signal_unsafe=0")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v (%v)\n%s", p.name, strings.Join(args, " "), err, ctx.Err(), errs.Bytes())
	}
	return out.Bytes()
}

// names asks the program for its tests.
func (p *program) names(t testing.TB) []string {
	t.Helper()
	names := strings.Fields(string(p.run(t)))
	if len(names) == 0 {
		t.Fatalf("%s has no tests", p.name)
	}
	return names
}

// TestUnit: leases, bounds, marks, gates, edges, slots, boards, on one thread
// and a clock that only the test moves.
func TestUnit(t *testing.T) {
	for _, name := range unit.names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unit.run(t, name)
		})
	}
}

// TestStress: the same with threads; the fake driver finds every command that
// enters while its device is told idle, and every idle edge with a command
// outstanding.
func TestStress(t *testing.T) {
	for _, name := range stress.names(t) {
		for _, threads := range []string{"1", "2", "8"} {
			t.Run(name+"/"+threads, func(t *testing.T) {
				t.Parallel()
				stress.run(t, name, threads)
			})
		}
	}
}

// TestRaces: under the race detector.
func TestRaces(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: the race detector's build and runs")
	}
	for _, name := range stressRaces.names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stressRaces.run(t, name, "4")
		})
	}
}

// TestCase17CapturingStreamUntouched: a capturing stream is neither bounded,
// gated, marked nor asked, and other threads go on being scheduled.
func TestCase17CapturingStreamUntouched(t *testing.T) {
	unit.run(t, "captures")
	unit.run(t, "capture_ends")
	stress.run(t, "captures", "4")
}

// TestCase20SignalsDuringWaits: handlers of the program run in the middle of
// waits at the gate and at the bound, synchronise and launch there, and change
// neither errno nor what the wait is for; and in the middle of a command, whose
// counts they leave right.
func TestCase20SignalsDuringWaits(t *testing.T) {
	unit.run(t, "handler_in_wait")
	unit.run(t, "handler_in_driver_1")
	unit.run(t, "handler_in_driver_2")
	stress.run(t, "signals", "4")
	stress.run(t, "signals_launch", "4")
}

// TestCase31DaemonGoesWhileThreadsWait: threads at a closed gate go on when the
// session ends, and are governed again when the next begins.
func TestCase31DaemonGoesWhileThreadsWait(t *testing.T) {
	unit.run(t, "detach_and_return")
	stress.run(t, "detach", "4")
}

// TestCase32HungDaemonFreezesNobody: a daemon that hangs with a gate closed is
// given 1 s by its heartbeat.
func TestCase32HungDaemonFreezesNobody(t *testing.T) {
	unit.run(t, "gate_lease")
	stress.run(t, "gate_lease", "4")
}

// TestCase37ManyQueues: 5,000 queues in one process, more than the board has
// slots for; all are bounded, and the slots come back. In free run those beyond
// hold nobody up.
func TestCase37ManyQueues(t *testing.T) {
	unit.run(t, "many_queues")
	unit.run(t, "many_queues_free")
	unit.run(t, "many_queues_slow")
}

// TestCase39DevicesByUUID: a section is claimed by UUID, whatever the device's
// number in this process.
func TestCase39DevicesByUUID(t *testing.T) { unit.run(t, "devices") }

// TestCase40DaemonComesLate: the daemon comes after the first commands, goes and
// comes back 40 times.
func TestCase40DaemonComesLate(t *testing.T) { unit.run(t, "many_boards") }

// TestCase10HotPath: a command with a lease left must not pay more than a tenth
// of a microsecond for admission, at ten times the target (10 ns) since this
// machine may be busy.
func TestCase10HotPath(t *testing.T) {
	native, admitted := measure(t, "1", "free")
	if cost := admitted - native; cost > 100 {
		t.Errorf("admission costs %.1f ns a command, want at most 100", cost)
	}
}

func measure(t testing.TB, threads, mode string) (native, admitted float64) {
	t.Helper()
	out := bench.run(t, threads, mode)
	if n, err := fmt.Sscan(string(out), &native, &admitted); n != 2 {
		t.Fatalf("bench printed %q: %v", out, err)
	}
	return native, admitted
}

// BenchmarkAdmit gives ns a command of admission alone, marks of no cost: without
// a daemon, in free run, bounded, and gated: bounded at level 2, where the wait costs
// the call.
func BenchmarkAdmit(b *testing.B) {
	for _, mode := range []string{"absent", "free", "bounded", "gated"} {
		for _, threads := range []string{"1", "2"} {
			b.Run(mode+"/threads="+threads, func(b *testing.B) {
				var native, admitted float64
				for b.Loop() {
					native, admitted = measure(b, threads, mode)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(native, "native-ns/cmd")
				b.ReportMetric(admitted-native, "added-ns/cmd")
			})
		}
	}
}
