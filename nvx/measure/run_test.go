package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"xmsched/nvx/sheet"
)

const (
	workerArg = "measure-worker"
	fakeArg   = "measure-fake"
	fakeUUID  = "GPU-01234567-89ab-cdef-0123-456789abcdef"
)

// TestMain makes the test binary the program of the children, too: the real
// worker, and fakes that misbehave.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == workerArg {
		err := Worker(os.Args[2:], func(role, uuid string) *exec.Cmd { return exec.Command(os.Args[0], workerArg, role, uuid) })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 5 && os.Args[1] == fakeArg {
		fake(os.Args[2])
	}
	os.Exit(m.Run())
}

// fake is a worker that gets as far as its name says, and then what follows the
// slash happens.
func fake(what string) {
	tell := json.NewEncoder(os.NewFile(eventsFD, "events"))
	far, end, _ := strings.Cut(what, "/")
	s := &sheet.Sheet{Schema: sheet.Schema, Device: sheet.Device{UUID: fakeUUID}, Driver: sheet.Driver{Version: "580.159.04"}}
	if far != "nowhere" {
		_ = tell.Encode(event{Sheet: s})
		_ = tell.Encode(event{Step: "probe", Total: 2, Level3: true})
	}
	if far == "copies" || far == "suspended" {
		s.Probe = &sheet.Probe{Level3: true, Channels: 8}
		s.Measured = &sheet.Measured{Levels: levels()}
		_ = tell.Encode(event{Sheet: s})
		_ = tell.Encode(event{Step: far, Done: 1, Total: 2, Level3: far == "suspended"})
	}
	switch end {
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		select {}
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "hang":
		time.Sleep(time.Hour)
	case "exit":
		fmt.Fprint(os.Stderr, "something\nawful\nxmsched: no daemon\n")
		os.Exit(3)
	case "nonsense":
		_, _ = os.NewFile(eventsFD, "events").WriteString("\x00\x01 not JSON")
		time.Sleep(time.Hour)
	case "refuses":
		_ = tell.Encode(event{Error: "no device for you"})
	case "lies":
		s.Device.Name = "evil\x1b[2J"
		_ = tell.Encode(event{Sheet: s})
		_ = tell.Encode(event{End: true})
	}
	os.Exit(0)
}

func fakeConfig(what string) Config {
	return Config{Program: os.Args[0], Args: []string{fakeArg, what}, Env: os.Environ(), Tool: "test", silence: 3 * time.Second}
}

// TestAWorkerThatDiesIsANo: the verdict on level 3 is no, with what happened, as
// long as the probe has not passed or level 3 was in use.
func TestAWorkerThatDiesIsANo(t *testing.T) {
	for what, c := range map[string]struct {
		level3  bool
		says    string // in the probe's reason, or in what is missing
		missing bool
	}{
		"probe/crash":        {says: `SIGSEGV: segmentation violation" during "probe"`},
		"probe/hang":         {says: `said nothing for 3s and was killed during "probe"`},
		"probe/exit":         {says: `ended with exit code 3 after saying "awful" during "probe"`},
		"probe/nonsense":     {says: `during "probe"`},
		"probe/silent":       {says: `ended early during "probe"`},
		"probe/killed":       {says: `was ended by signal 9 (killed) during "probe"`},
		"suspended/crash":    {says: `SIGSEGV`, missing: true},
		"suspended/hang":     {says: `was killed during "suspended"`, missing: true},
		"copies/crash":       {level3: true, says: `SIGSEGV`, missing: true},
		"copies/refuses":     {level3: true, says: "no device for you", missing: true},
		"suspended/nonsense": {says: "suspended", missing: true},
	} {
		t.Run(strings.ReplaceAll(what, "/", "_"), func(t *testing.T) {
			t.Parallel()
			s, err := Measure(context.Background(), fakeConfig(what), fakeUUID)
			if err != nil {
				t.Fatal(err)
			}
			offered, why := s.Level3()
			if offered != c.level3 || !offered && !strings.Contains(why, c.says) {
				t.Errorf("offered %v, why %q", offered, why)
			}
			if c.missing != (s.Measured != nil && len(s.Measured.Missing) == 1 && strings.Contains(s.Measured.Missing[0].Why, c.says)) {
				t.Errorf("measured %+v", s.Measured)
			}
			if s.Tool != "test" {
				t.Errorf("tool %q", s.Tool)
			}
			if _, err := s.Encode(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAWorkerWithoutADeviceIsAnError(t *testing.T) {
	for what, says := range map[string]string{
		"nowhere/refuses":  "no device for you",
		"nowhere/crash":    "SIGSEGV",
		"nowhere/silent":   "ended early",
		"nowhere/hang":     "was killed",
		"nowhere/nonsense": "ended",
		"probe/lies":       "device.name",
	} {
		t.Run(strings.ReplaceAll(what, "/", "_"), func(t *testing.T) {
			t.Parallel()
			s, err := Probe(context.Background(), fakeConfig(what), fakeUUID)
			if err == nil || !strings.Contains(err.Error(), says) || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	cfg := fakeConfig("probe/silent")
	cfg.Program = "/nonexistent/program"
	if _, err := Probe(context.Background(), cfg, fakeUUID); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
}

// TestInterruptedMeasuring leaves no process and no sheet behind.
func TestInterruptedMeasuring(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	cfg := fakeConfig("copies/hang")
	cfg.silence = 10 * time.Minute
	begin := time.Now()
	if s, err := Measure(ctx, cfg, fakeUUID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%+v, %v", s, err)
	}
	if took := time.Since(begin); took > 40*time.Second {
		t.Errorf("it took %v to stop", took)
	}
}

func TestEnvironmentOfChildren(t *testing.T) {
	c := conversation{cfg: Config{Preload: "/l/libxmsched.so", Env: []string{"A=1", "LD_PRELOAD=/old.so", "XMSCHED_DIR=/run", "XMSCHED_LIB=/l", "XMSCHED_SIM_SOCKET=/s"}}}
	have := strings.Join(c.environment("/quiet"), " ")
	if want := "A=1 XMSCHED_SIM_SOCKET=/s XMSCHED_DIR=/quiet XMSCHED_LIB=/quiet LD_PRELOAD=/l/libxmsched.so"; have != want {
		t.Errorf("%q, want %q", have, want)
	}
}

func TestWorkerKnowsItsRoles(t *testing.T) {
	for _, args := range [][]string{nil, {"probe"}, {"probe", "x", "y"}} {
		if err := Worker(args, nil); err == nil {
			t.Errorf("%q: taken", args)
		}
	}
}

func TestTimes(t *testing.T) {
	if times(nil) != nil {
		t.Error("no samples have times")
	}
	have := times([]time.Duration{5 * time.Microsecond, time.Microsecond, 9500 * time.Nanosecond})
	if *have != (sheet.Times{MedianUS: 5, WorstUS: 9.5, Samples: 3}) {
		t.Errorf("%+v", have)
	}
}

func TestResultsOfTheLibrary(t *testing.T) {
	if err := result("x", 0); err != nil {
		t.Error(err)
	}
	if err := result("x", uintptr(uint32(0xffffffed))); !errors.Is(err, syscall.ENODEV) { // -19
		t.Errorf("-ENODEV is %v", err)
	}
	err := result("suspend", 0x1b)
	if err == nil || !strings.Contains(err.Error(), "NV_ERR_INSUFFICIENT_PERMISSIONS (0x1b)") || refusal(err) != "NV_ERR_INSUFFICIENT_PERMISSIONS" {
		t.Errorf("0x1b is %v", err)
	}
	if got := refusal(result("x", 0x7777)); got != "0x7777" {
		t.Errorf("an unknown status is %q", got)
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine(errors.New("a\nb\x1b" + strings.Repeat("ü", 400))); strings.ContainsAny(got, "\n\x1b") || len(got) > 420 {
		t.Errorf("%q", got)
	}
}
