package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/cmd/internal/cli"
	"xmsched/preempt/board"
	"xmsched/xserver"
	"xmsched/xserver/client"
)

// player is a client that a test plays itself, of a daemon of its own.
type player struct {
	t      *testing.T
	dir    string
	attach *client.Attachment
	device board.Device
	end    func() // the daemon
}

// play starts a daemon in this process and a client with one device.
func play(t *testing.T, r client.Registration) *player {
	t.Helper()
	dir, err := os.MkdirTemp("", "xm") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := xserver.New(xserver.Config{Dir: dir, HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	p := &player{t: t, dir: dir, end: sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(p.end)
	p.join(r)
	return p
}

func (p *player) join(r client.Registration) {
	p.t.Helper()
	conn, err := client.Dial(p.t.Context(), p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	if p.attach, err = conn.Attach(p.t.Context(), r); err != nil {
		p.t.Fatal(err)
	}
	b, err := p.attach.Map()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = p.attach.Close(); _ = b.Close() })
	p.device = b.Device(0)
	p.device.Claim(board.Identity{UUID: board.UUID{1, 2, 3}, Name: "test GPU"})
	p.ring()
}

func (p *player) ring() {
	p.t.Helper()
	if err := p.attach.Ring(); err != nil {
		p.t.Fatal(err)
	}
}

// xcli runs a command line and returns what it wrote and its exit code.
func (p *player) xcli(args ...string) (out, errs string, code int) {
	p.t.Helper()
	var o, e bytes.Buffer
	code = cli.Run(command(), append(args, "--dir", p.dir), &o, &e)
	return o.String(), e.String(), code
}

// eventually waits for a line of words in what a command prints.
func (p *player) eventually(what string, words ...string) string {
	p.t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		out, errs, code := p.xcli(strings.Fields(what)...)
		good := code == 0
		for _, w := range words {
			good = good && strings.Contains(out, w)
		}
		if good {
			return out
		}
		if time.Since(begin) > time.Minute {
			p.t.Fatalf("xcli %s: exit %d\n%s%s\nwant %q", what, code, out, errs, words)
		}
	}
}

// request has the player work for a moment.
func (p *player) request() {
	p.t.Helper()
	p.device.SetReady(true)
	p.ring()
	p.eventually("list --json", `"state":"running"`)
	p.device.SetReady(false)
	p.ring()
	p.eventually("list --json", `"state":"idle"`)
}

func TestReport(t *testing.T) {
	p := play(t, client.Registration{Name: "one", TaskToken: "one"})
	if out, errs, code := p.xcli("hint", "--task", "1", "--slo", "10m", "--deadline", "10m"); code != 0 || !strings.Contains(out, "slo 10m") {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	p.request()
	p.eventually("report", "TASK", "one", "lives", "100.0%", "1 of 1")
	var e entry
	if err := json.Unmarshal([]byte(p.eventually("report --json", `"requests":1,`)), &e); err != nil {
		t.Fatal(err)
	}
	if e.Latency == nil || e.Latency.Max <= 0 || e.Latency.P99 > e.Latency.Max || e.RunMS < e.Latency.Max/2 || e.SLOShare == nil || *e.SLOShare != 1 || time.Since(e.Began) > time.Hour || e.Ended != nil {
		t.Errorf("%+v", e)
	}
	if err := p.attach.Close(); err != nil {
		t.Fatal(err)
	}
	p.eventually("report", "one", "ended", "100.0%")
}

// TestCase34UnknownHandles are not found: exit code 2, with what there is.
func TestCase34UnknownHandles(t *testing.T) {
	p := play(t, client.Registration{Name: "one"})
	for _, line := range []string{
		"hint --task 99 --priority 3", "hint --pid 1 --priority 3", "config --task 99 --threshold 4", "config --pid 1 --level 1", "config --task 99 --level 3",
	} {
		out, errs, code := p.xcli(strings.Fields(line)...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, "allowed is") {
			t.Errorf("%s: exit %d, %s%s", line, code, out, errs)
		}
	}
}

func TestToken(t *testing.T) {
	p := play(t, client.Registration{})
	out, _, code := p.xcli("token")
	file, err := os.ReadFile(filepath.Join(p.dir, client.TokenFile))
	if err != nil || code != 0 || out != string(file) {
		t.Errorf("exit %d, %q, the file has %q, %v", code, out, file, err)
	}
	var at struct{ Token, HTTP string }
	text, _, _ := p.xcli("token", "--json")
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+at.HTTP+"/policy", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(out))
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

func TestTrace(t *testing.T) {
	p := play(t, client.Registration{Name: "one", TaskToken: "one"})
	p.request()
	file := filepath.Join(t.TempDir(), "trace.json")
	type result struct {
		errs string
		code int
	}
	done := make(chan result, 1)
	go func() {
		var o, e bytes.Buffer
		code := cli.Run(command(), []string{"trace", "-o", file, "--for", "1500ms", "--dir", p.dir}, &o, &e)
		done <- result{e.String(), code}
	}()
	var r result
	for going := true; going; { // it may begin late: something happens all the time
		p.request()
		p.eventually("policy set RR", "RR")
		p.eventually("policy set HPF", "HPF")
		select {
		case r = <-done:
			going = false
		default:
		}
	}
	if r.code != 0 || !strings.Contains(r.errs, "events in "+file) {
		t.Fatalf("exit %d, %s", r.code, r.errs)
	}
	text, err := os.ReadFile(file)
	if err != nil || !json.Valid(text) {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, w := range []string{`"policy HPF"`, `"policy RR"`, `"name":"request"`, `"name":"running"`, `"task 1 one"`, "test GPU"} {
		if !strings.Contains(string(text), w) {
			t.Errorf("no %s in\n%s", w, text)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); err != nil || len(left) != 1 {
		t.Errorf("%v, %v are left", left, err)
	}
	out, _, code := p.xcli("trace", "-o", "-", "--for", "20ms")
	if code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestTraceOfADaemonThatEnds: what was recorded until then is written, with the tasks' names.
func TestTraceOfADaemonThatEnds(t *testing.T) {
	p := play(t, client.Registration{Name: "one", TaskToken: "one"})
	file := filepath.Join(t.TempDir(), "trace.json")
	var o, e bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(command(), []string{"trace", "-o", file, "--for", "1m", "--dir", p.dir}, &o, &e)
	}()
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		p.request()
		p.eventually("policy set RR", "RR")
		p.eventually("policy set HPF", "HPF")
	}
	p.end()
	if c := <-code; c != cli.ExitFailure || !strings.Contains(e.String(), "until then is in "+file) {
		t.Errorf("exit %d, %s", c, e.String())
	}
	text, err := os.ReadFile(file)
	if err != nil || !json.Valid(text) || !strings.Contains(string(text), `"task 1 one"`) || !strings.Contains(string(text), `"policy RR"`) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestTraceBadInput(t *testing.T) {
	for line, want := range map[string]string{
		"trace":                                "-o FILE",
		"trace -o x --for 1ms":                 "10ms to 10m0s",
		"trace -o x --for long":                "10ms to 10m0s",
		"top --snapshot --width 10":            "40 to 500",
		"top --snapshot --height 1000":         "6 to 200",
		"trace -o /nowhere/x --dir /tmp":       "",
		"top --snapshot --interval 1ns":        "100ms",
		"hint --task 1 --slo 1us --dir /tmp/x": "100µs",
	} {
		var o, e bytes.Buffer
		code := cli.Run(command(), strings.Fields(line), &o, &e)
		if (want != "" && code != cli.ExitUsage) || code == 0 || !strings.Contains(e.String(), want) {
			t.Errorf("%s: exit %d, %s", line, code, e.String())
		}
	}
	p := play(t, client.Registration{})
	if _, errs, code := p.xcli("trace", "-o", "/nowhere/x"); code != cli.ExitFailure || !strings.Contains(errs, "/nowhere") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func TestTopSnapshot(t *testing.T) {
	p := play(t, client.Registration{Name: "one", TaskToken: "one", Priority: 7})
	p.request()
	out := p.eventually("top --snapshot --width 100 --height 10", "HPF", "1 task,", "one", "test GPU", "idle")
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if len(lines) != 10 || strings.Contains(out, "\x1b") {
		t.Errorf("%d lines:\n%s", len(lines), out)
	}
}

// TestTopLive runs the view in a terminal: keys change the priority and the policy, q
// ends it and leaves the terminal as it was.
func TestTopLive(t *testing.T) {
	p := play(t, client.Registration{Name: "one", TaskToken: "one", Priority: 7})
	p.request()
	master, slave := terminal(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"xcli", "top", "--interval", "100ms", "--dir", p.dir} // as testscript has it
	cmd.Env = append(os.Environ(), "TERM=xterm", "LC_ALL=C.UTF-8")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	screen := make(chan string, 1)
	go func() {
		var all bytes.Buffer
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				screen <- all.String()
				return
			}
		}
	}()
	p.eventually("list --json", `"priority":7`)
	press := func(keys string) {
		t.Helper()
		if _, err := io.WriteString(master, keys); err != nil {
			t.Fatal(err)
		}
	}
	// A slow machine looks when the keys have done it more than once.
	until := func(keys, what string, done func(out string) bool) {
		t.Helper()
		for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			press(keys)
			out, _, _ := p.xcli(strings.Fields(what)...)
			if done(out) {
				return
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("%q is without effect: %s", keys, out)
			}
		}
	}
	until("]", "list --json", func(out string) bool {
		return regexp.MustCompile(`"name":"one",.*"priority":([1-9]7|[12]\d\d)`).MatchString(out)
	})
	until("pl\r", "policy get", func(out string) bool { return out != "" && !strings.HasPrefix(out, "HPF ") })
	press("q")
	if err := cmd.Wait(); err != nil {
		t.Errorf("ends with %v", err)
	}
	_ = slave.Close()
	text := <-screen
	for _, w := range []string{"\x1b[?1049h", "one", "test GPU", "\x1b[?1049l"} {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in what was drawn: %q", w, text)
		}
	}
}

// terminal opens a pair of which one end is a terminal of 80 by 24.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no terminals here")
	}
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}
