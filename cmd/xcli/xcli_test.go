package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"xmsched/cmd/internal/cli"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

func sampleTasks() []*xserverv1.Task {
	device := func(ready, open bool, mode string) *xserverv1.Device {
		return &xserverv1.Device{Uuid: "GPU-0a0b0c0d-0000-0000-0000-000000000000", Name: "NVIDIA H200", Ready: ready, Open: open, Mode: mode, Launches: 7, RunTimeNs: 1500e6}
	}
	settings := func(level string) *xserverv1.Settings {
		return &xserverv1.Settings{Level: level, Threshold: 16, Batch: 8}
	}
	level := func(now, most uint32, why string) []*xserverv1.ProcessDevice {
		return []*xserverv1.ProcessDevice{{Uuid: "GPU-0a0b0c0d-0000-0000-0000-000000000000", Level: now, LevelMax: most, LevelWhy: why}}
	}
	return []*xserverv1.Task{
		{Id: 1, Name: "llm", Hints: &xserverv1.Hints{Priority: 10, QuantumNs: 3e6}, Devices: []*xserverv1.Device{device(true, true, "top")},
			Processes: []*xserverv1.Process{{Pid: 100, Settings: settings("auto"), Devices: level(2, 2, ""), Uncovered: []string{"cuA", "cuB", "cuC", "cuD"}, UncoveredCount: 4}}},
		{Id: 2, Name: "train", Hints: &xserverv1.Hints{Priority: -3}, Devices: []*xserverv1.Device{device(true, false, "bounded")},
			Processes: []*xserverv1.Process{{Pid: 200, Settings: settings("2"), Devices: level(1, 1, "no stream waits")}, {Pid: 201, Settings: settings("1"), Devices: level(1, 2, ""), Stopped: true, QueuesOver: 3, OpenedByLease: 2}}},
		{Id: 3, Name: "early", Hints: &xserverv1.Hints{}, Processes: []*xserverv1.Process{{Pid: 300, Settings: settings("auto")}}},
	}
}

func TestListAsTable(t *testing.T) {
	var out bytes.Buffer
	if err := (&options{}).print(&out, scheduled(sampleTasks())); err != nil {
		t.Fatal(err)
	}
	want := `TASK  PID  NAME   DEV           PRIO  LEVEL  MODE     STATE    WAIT  LAUNCHES   RUN  WHY
   1  100  llm    GPU-0a0b0c0d    10  2      top      running     0         7  1.5s  calls not covered (4): cuA, cuB, cuC, …
   2  200  train  GPU-0a0b0c0d    -3  1      bounded  gated       0         7  1.5s  level 2 is not to be had: no stream waits
   2  201  train  GPU-0a0b0c0d    -3  1      bounded  stopped     0         7  1.5s  slot 0 shared by 3 queues; gate opened 2 times without the daemon
   3  300  early  -                0  auto   -        idle        0         0  0.0s
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestTaskThatIsNotToRun: who looks why nothing of it runs sees that it is off.
func TestTaskThatIsNotToRun(t *testing.T) {
	rows := scheduled([]*xserverv1.Task{{
		Id: 4, Name: "off", Hints: &xserverv1.Hints{NoExecute: true}, Processes: []*xserverv1.Process{{Pid: 400}},
	}})
	var text, lines bytes.Buffer
	if err := (&options{}).print(&text, rows); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(strings.Split(text.String(), "\n")[1])[4]; got != "off" {
		t.Errorf("its priority is listed as %q", got)
	}
	if err := (&options{json: true}).print(&lines, rows); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(lines.String(), `"no_execute":true`) {
		t.Errorf("as JSON: %s", lines.String())
	}
}

func TestListAsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := (&options{json: true}).print(&out, scheduled(sampleTasks())); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want 4", len(lines))
	}
	var r row
	if err := json.Unmarshal([]byte(lines[0]), &r); err != nil || r.Task != 1 || r.State != "running" || r.Level != 2 || r.Asked != "auto" || r.Threshold != 16 || r.QuantumUS != 3000 || len(r.Uncovered) != 4 || !strings.HasSuffix(r.Device, "000000000000") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNobodyScheduled(t *testing.T) {
	var out bytes.Buffer
	if err := (&options{}).print(&out, nil); err != nil || !strings.Contains(out.String(), "xrun -- COMMAND") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWhyUnscheduled(t *testing.T) {
	for want, s := range map[string]sighting{
		"static binary":        {xrun: true, static: true},
		"musl":                 {xrun: true, musl: true},
		"dropped":              {xrun: true, driver: true},
		"not started with":     {driver: true},
		"RTLD_DEEPBIND":        {driver: true, xrun: true, preload: true},
		"the daemon of /other": {driver: true, xrun: true, preload: true, agent: true, dir: "/other"},
		"not registered":       {driver: true, xrun: true, preload: true, agent: true, dir: "/run"},
	} {
		if have := s.why("/run", nil); !strings.Contains(have, want) {
			t.Errorf("%+v: %q, want %q in it", s, have, want)
		}
	}
	absent := sighting{driver: true, preload: true, agent: true}
	if have := absent.why("/run", &client.AbsentError{}); have != "daemon absent" {
		t.Errorf("%q", have)
	}
	if have := absent.why("/run", &client.SilentError{}); have != "daemon out of reach" {
		t.Errorf("%q", have)
	}
}

func TestMappedFiles(t *testing.T) {
	for file, want := range map[string]sighting{
		"/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04": {driver: true},
		"/dev/nvidiactl":         {driver: true},
		"/opt/lib/libxmsched.so": {preload: true},
		"/opt/lib/libxagent.so":  {agent: true},
		"/usr/lib/libcudart.so":  {},
		"/home/me/mylibcuda.so":  {},
	} {
		var s sighting
		if s.mapped(file); s != want {
			t.Errorf("%s: %+v, want %+v", file, s, want)
		}
	}
}

// TestScanFindsStaticProgramUnderXrun runs a static program in an environment as
// xrun makes it.
func TestScanFindsStaticProgramUnderXrun(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no C compiler on this machine")
	}
	dir := t.TempDir()
	src, exe := filepath.Join(dir, "still.c"), filepath.Join(dir, "still")
	if err := os.WriteFile(src, []byte("#include <unistd.h>\nint main(void) { char c; return write(1, \".\", 1) != 1 || read(0, &c, 1) < 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-static", "-o", exe, src).CombinedOutput(); err != nil {
		t.Skipf("no static C library here: %s", out)
	}
	cmd := exec.Command(exe)
	cmd.Env = []string{"XMSCHED_TASK=00", "XMSCHED_DIR=/run/here"}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // it runs
		t.Fatal(err)
	}
	for _, s := range scan(os.Geteuid(), nil) {
		if s.pid == cmd.Process.Pid {
			if !s.static || s.musl || s.dir != "/run/here" || s.name != "still" {
				t.Errorf("%+v", s)
			}
			return
		}
	}
	t.Error("the program is not seen")
}

func TestPrescription(t *testing.T) {
	good := check{OK: true}
	noGPU := check{Note: true, GPU: true}
	broken := check{next: "make build"}
	other := check{next: "xserver &"}
	for _, c := range []struct {
		name   string
		checks []check
		next   string
		failed bool
	}{
		{"all well", []check{good, good}, "xbench demo", false},
		{"no GPU", []check{noGPU, good}, "xbench demo --sim", false},
		{"another version", []check{good, {Note: true}}, "xbench demo", false},
		{"broken twice", []check{noGPU, broken, other}, "make build", true},
	} {
		if next, failed := prescribe(c.checks); next != c.next || failed != c.failed {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, next, failed, c.next, c.failed)
		}
	}
}

func TestGlibcVersions(t *testing.T) {
	have, err := glibcVersion()
	if err != nil || have.less(version{2, 17}) {
		t.Errorf("%v, %v", have, err)
	}
	if v, ok := parseVersion("2.34"); !ok || v != (version{2, 34}) || !(version{2, 9}).less(v) || v.less(version{2, 34}) {
		t.Errorf("%v, %v", v, ok)
	}
	if _, ok := parseVersion("PRIVATE"); ok {
		t.Error("PRIVATE is a version")
	}
}

func TestWithoutDaemon(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"status"}, {"policy", "get"}, {"policy", "set", "RR"}, {"hint", "--task", "1", "--priority", "1"}, {"config", "--task", "1", "--level", "2"}, {"top"}, {"top", "--snapshot"}, {"list"}, {"report"}, {"token"}, {"trace", "-o", "-"}} {
		var out, errs bytes.Buffer
		code := cli.Run(command(), append(args, "--dir", dir), &out, &errs)
		if code != cli.ExitFailure || !strings.Contains(errs.String(), "xserver --dir "+dir) {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
		if strings.Contains(out.String(), "no task") {
			t.Errorf("%v claims to know: %q", args, out.String())
		}
	}
}

// TestCase08LevelsByName has a level that there is none of refused by its name.
func TestCase08LevelsByName(t *testing.T) {
	for level, want := range map[string]string{"4": "unknown level \"4\"", "9": "unknown level \"9\""} {
		var out, errs bytes.Buffer
		code := cli.Run(command(), []string{"config", "--task", "1", "--level", level, "--dir", t.TempDir()}, &out, &errs)
		if code != cli.ExitUsage || !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), "auto, 1, 2, 3") {
			t.Errorf("%s: exit %d, %q", level, code, errs.String())
		}
	}
}

// TestRefusedWithoutDaemon holds that what nobody would accept is a usage error,
// whether a daemon is there or not.
func TestRefusedWithoutDaemon(t *testing.T) {
	for line, words := range map[string][]string{
		"policy set FOO":                   {`"FOO"`, "HPF, "},
		"policy set":                       {"HPF, "},
		"policy set RR HPF":                {"HPF, "},
		"hint --task x --priority 1":       {`--task "x"`, "whole number", "the tasks of"},
		"hint --task 1 --utilization 101":  {`--utilization "101"`, "1 to 100"},
		"hint --task 1":                    {"--min-share", "--gang"},
		"hint --task 1 --priority 1.5":     {`--priority "1.5"`, "-255 to 255"},
		"hint --task 1 --quantum 5":        {`--quantum "5"`, "such as 10ms", "100µs to 10s"},
		"config --task 1 --threshold 257":  {"threshold 257", "1 to 256"},
		"config --task 1 --threshold many": {`--threshold "many"`, "1 to 256"},
		"top --interval x":                 {`--interval "x"`, "100ms to 1h"},
		"help bogus":                       {`"bogus"`, "list"},
	} {
		var out, errs bytes.Buffer
		code := cli.Run(command(), append(strings.Fields(line), "--dir", t.TempDir()), &out, &errs)
		if code != cli.ExitUsage {
			t.Errorf("%s: exit %d, want %d: %s", line, code, cli.ExitUsage, errs.String())
		}
		for _, w := range words {
			if !strings.Contains(errs.String(), w) {
				t.Errorf("%s: %q does not name %q", line, errs.String(), w)
			}
		}
		if strings.Contains(errs.String(), "strconv") || strings.Contains(errs.String(), "time:") {
			t.Errorf("%s: %q speaks Go", line, errs.String())
		}
	}
}

// TestListsOfPolicies: what is listed is a line a policy, the present one marked.
func TestListsOfPolicies(t *testing.T) {
	var out bytes.Buffer
	err := (&options{}).printPolicies(&out, "RR", []*xserverv1.PolicyInfo{
		{Name: "HPF", Summary: "the highest first", Hints: []string{"priority", "min-share"}}, {Name: "RR", Summary: "in turns"},
	})
	want := "  HPF   the highest first [priority, min-share]\n* RR    in turns\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s, want\n%s", err, out.String(), want)
	}
	out.Reset()
	err = (&options{json: true}).printPolicies(&out, "RR", []*xserverv1.PolicyInfo{{Name: "RR", Summary: "in turns"}})
	want = `[{"hints":[],"name":"RR","present":true,"summary":"in turns"}]` + "\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s, want\n%s", err, out.String(), want)
	}
}

// TestDoctorNamesWhatCanBeTyped looks at the remedies for a daemon that cannot be
// asked.
func TestDoctorNamesWhatCanBeTyped(t *testing.T) {
	for want, err := range map[string]error{
		"kill -CONT 5":                        &client.SilentError{PID: 5, Stopped: true},
		"kill -9 5; xserver --dir /d &":       &client.SilentError{PID: 5},
		"kill 5; sleep 1; xserver --dir /d &": &client.StrandedError{PID: 5},
		"xserver --dir /d &":                  &client.AbsentError{Dir: "/d"},
	} {
		if have := remedy(err, "/d"); have != want {
			t.Errorf("%T: %q, want %q", err, have, want)
		}
	}
}

// TestDoctorAsJSON is one object a line, as everywhere.
func TestDoctorAsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := (&options{json: true}).report(&out, []check{{Name: "a", OK: true}, {Name: "b"}}, "do it"); err != nil {
		t.Fatal(err)
	}
	want := `{"name":"a","ok":true,"detail":""}
{"name":"b","ok":false,"detail":""}
{"next":"do it"}
`
	if out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}
