package xserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xmsched/compute"
	"xmsched/preempt/board"
	"xmsched/xserver"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("XMSCHED_TEST_ROLE"); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// daemon is a server that a test started.
type daemon struct {
	dir  string
	stop func() // ends it and waits
}

// serve starts a daemon in dir.
func serve(t testing.TB, dir string, edit ...func(*xserver.Config)) *daemon {
	t.Helper()
	cfg := xserver.Config{Dir: dir, Version: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, e := range edit {
		e(&cfg)
	}
	s, err := xserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	d := &daemon{dir: dir, stop: func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("daemon: %v", err)
		}
	}}
	t.Cleanup(d.stop)
	return d
}

// rundir is a fresh run directory with a path short enough for a socket.
func rundir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "xm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func dial(t testing.TB, dir string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// player is a client that a test plays itself.
type player struct {
	*client.Attachment
	t     testing.TB
	board *board.Board
}

var gpu = board.Identity{UUID: board.UUID{1, 2, 3}, Name: "test GPU"}

// join registers a player and claims a device.
func join(t testing.TB, c *client.Client, r client.Registration) *player {
	t.Helper()
	p := attach(t, c, r)
	p.board.Device(0).Claim(gpu)
	p.ring()
	p.await("an answer", func(g board.Gate, _ board.Grant) bool { return g != 0 })
	return p
}

func attach(t testing.TB, c *client.Client, r client.Registration) *player {
	t.Helper()
	a, err := c.Attach(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	b, err := a.Map()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return &player{a, t, b}
}

func (p *player) ring() {
	p.t.Helper()
	if err := p.Ring(); err != nil {
		p.t.Fatal(err)
	}
}

// setPriority changes one hint of a task.
func setPriority(t testing.TB, c *client.Client, target client.Target, priority int) (uint64, error) {
	t.Helper()
	task, _, err := c.SetHints(t.Context(), target, client.Hints{Priority: &priority})
	return task, err
}

// ready makes a ready or idle edge.
func (p *player) ready(ready bool) {
	p.t.Helper()
	p.board.Device(0).SetReady(ready)
	p.ring()
}

// await waits for an answer on the board, and acknowledges as it goes.
func (p *player) await(what string, good func(board.Gate, board.Grant) bool) time.Duration {
	p.t.Helper()
	start := time.Now()
	for {
		gate, grant := p.board.Device(0).Grant()
		p.board.Device(0).Ack(gate)
		if good(gate, grant) {
			return time.Since(start)
		}
		if time.Since(start) > time.Minute {
			p.t.Fatalf("waited a minute for %s, the gate is %v with %+v", what, gate, grant)
		}
		if err := p.board.Device(0).WaitGate(gate, 50*time.Millisecond); err != nil {
			p.t.Fatal(err)
		}
	}
}

func open(g board.Gate, _ board.Grant) bool   { return g != 0 && g.Open() }
func closed(g board.Gate, _ board.Grant) bool { return !g.Open() }

func TestHighestPriorityRuns(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	low := join(t, c, client.Registration{Name: "low", TaskToken: "l"})
	low.await("free run", func(g board.Gate, gr board.Grant) bool { return g.Open() && gr.Mode == board.Free })
	high := join(t, c, client.Registration{Name: "high", TaskToken: "h", Priority: 10})
	low.await("bounds", func(g board.Gate, gr board.Grant) bool {
		return gr.Mode == board.Bounded && gr.Threshold == 16 && gr.Batch == 8
	})
	high.await("top", func(g board.Gate, gr board.Grant) bool { return g.Open() && gr.Mode == board.Top })

	low.ready(true)
	high.ready(true)
	low.await("a closed gate", closed)
	high.ready(false)
	low.await("an open gate", open)
	if err := high.Close(); err != nil {
		t.Fatal(err)
	}
	low.await("free run again", func(g board.Gate, gr board.Grant) bool { return g.Open() && gr.Mode == board.Free })
}

func TestSecondDaemonIsRefused(t *testing.T) {
	dir := rundir(t)
	first := spawn(t, part{Role: "daemon", Dir: dir})
	_, err := xserver.New(xserver.Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another xserver (pid %d) serves %s", first.PID, dir)) {
		t.Errorf("%v", err)
	}
	dial(t, dir) // the first one still serves
}

// TestCase31KilledDaemonIsReplaced kills the daemon under a running client and
// starts another one on what it left. The client registers again, keeps its
// task's number, and the hint that was set meanwhile.
func TestCase31KilledDaemonIsReplaced(t *testing.T) {
	dir := rundir(t)
	first := spawn(t, part{Role: "daemon", Dir: dir})
	c := dial(t, dir)
	r := client.Registration{Name: "x", TaskToken: "token", Priority: 1}
	join(t, c, client.Registration{Name: "other"})
	p := join(t, c, r)
	if _, err := setPriority(t, c, client.Target{Task: p.Task}, 42); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetPolicy(t.Context(), "rr"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the journal", func() bool {
		text, err := os.ReadFile(dir + "/" + client.JournalFile)
		return err == nil && strings.Contains(string(text), "42") && strings.Contains(string(text), "RR")
	})
	first.kill()
	p.Gone()
	var absent *client.AbsentError
	if _, err := client.Dial(t.Context(), dir); !errors.As(err, &absent) || !strings.Contains(err.Error(), "xserver --dir "+dir) {
		t.Errorf("with the daemon dead: %v, want an AbsentError that says what to type", err)
	}

	serve(t, dir)
	c = dial(t, dir)
	r.PreviousTask, r.Nonce = p.Task, p.Nonce // as drawn at the first attach
	again := join(t, c, r)
	if again.Task != p.Task {
		t.Errorf("task %d was %d before the restart", again.Task, p.Task)
	}
	if tasks := list(t, c); len(tasks) != 1 || tasks[0].Hints.Priority != 42 {
		t.Errorf("after the restart: %v, want priority 42", tasks)
	}
	if name, _, err := c.Policy(t.Context()); err != nil || name != "RR" {
		t.Errorf("policy %q, %v, want RR of the journal", name, err)
	}
	// Another program under the same pid is not meant by the hint.
	r.Nonce, r.TaskToken = p.Nonce+1, "another"
	join(t, c, r)
	if tasks := list(t, c); len(tasks) != 2 || tasks[1].Hints.Priority != 1 {
		t.Errorf("another nonce: %v, want priority 1", tasks)
	}
}

func TestHostileJournalIsIgnored(t *testing.T) {
	for name, text := range map[string]string{
		"cut off":         `{"version":2,"policy":"R`,
		"another version": `{"version":9,"policy":"RR"}`,
		"unknown policy":  `{"version":2,"policy":"EVIL"}`,
		"wild settings":   `{"version":2,"hints":[{"pid":5,"start":1,"nonce":"1","hints":{"priority":"1"},"settings":{"level":"7","threshold":1,"batch":1}}]}`,
		"wild hints":      `{"version":2,"hints":[{"pid":-5,"start":0,"nonce":"1","hints":{"priority":"100000"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := rundir(t)
			if err := os.WriteFile(dir+"/"+client.JournalFile, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			d := serve(t, dir)
			if policy, _, err := dial(t, dir).Policy(t.Context()); err != nil || policy != xserver.DefaultPolicy {
				t.Errorf("policy %q, %v", policy, err)
			}
			d.stop()
		})
	}
}

// TestCase34BadRequests holds that what is unknown is refused with the allowed
// values, changes nothing, and ends nobody.
func TestCase34BadRequests(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	p := join(t, c, client.Registration{Name: "x", TaskToken: "x", Priority: 3})
	pid := strconv.Itoa(os.Getpid())
	for name, bad := range map[string]struct {
		ask     func() error
		field   string
		allowed []string
	}{
		"policy": {func() error { _, err := c.SetPolicy(t.Context(), "FIFO"); return err }, "policy", compute.PolicyNames()},
		"priority": {func() error { _, err := setPriority(t, c, client.Target{Task: p.Task}, 256); return err },
			"priority", []string{"-255 to 255"}},
		"task": {func() error { _, err := setPriority(t, c, client.Target{Task: 999}, 1); return err },
			"task", []string{strconv.FormatUint(p.Task, 10)}},
		"pid":     {func() error { _, err := setPriority(t, c, client.Target{PID: 1}, 1); return err }, "pid", []string{pid}},
		"neither": {func() error { _, err := setPriority(t, c, client.Target{}, 1); return err }, "task", nil},
		"level": {func() error { _, err := c.Attach(t.Context(), client.Registration{Level: "9"}); return err },
			"level", []string{"auto", "1", "2", "3"}},
		"threshold": {func() error { _, err := c.Attach(t.Context(), client.Registration{Threshold: 5000}); return err },
			"threshold", []string{"1 to 256"}},
		"batch": {func() error { _, err := c.Attach(t.Context(), client.Registration{Threshold: 4, Batch: 5}); return err },
			"batch", []string{"1 to 4"}},
		"quantum": {func() error {
			d := 99 * time.Microsecond
			_, _, err := c.SetHints(t.Context(), client.Target{Task: p.Task}, client.Hints{Quantum: &d})
			return err
		}, "quantum", []string{"100µs to 10s"}},
		"long quantum": {func() error {
			d := 10*time.Second + 1
			_, _, err := c.SetHints(t.Context(), client.Target{Task: p.Task}, client.Hints{Quantum: &d})
			return err
		}, "quantum", []string{"100µs to 10s"}},
		"negative idle-after": {func() error {
			d := -time.Millisecond
			_, _, err := c.SetHints(t.Context(), client.Target{Task: p.Task}, client.Hints{IdleAfter: &d})
			return err
		}, "idle-after", []string{"1µs to 1s"}},
		"start quantum": {func() error { _, err := c.Attach(t.Context(), client.Registration{Quantum: time.Minute}); return err },
			"quantum", []string{"100µs to 10s"}},
		"config level": {func() error {
			_, _, err := c.SetConfig(t.Context(), client.Target{Task: p.Task}, client.Settings{Level: "4"})
			return err
		}, "level", []string{"auto", "1", "2", "3"}},
		"config threshold": {func() error {
			_, _, err := c.SetConfig(t.Context(), client.Target{Task: p.Task}, client.Settings{Threshold: new(uint32)})
			return err
		}, "threshold", []string{"1 to 256"}},
		"config batch": {func() error {
			batch := uint32(257)
			_, _, err := c.SetConfig(t.Context(), client.Target{PID: os.Getpid()}, client.Settings{Level: "1", Batch: &batch})
			return err
		}, "batch", []string{"1 to 256"}},
		"start priority": {func() error { _, err := c.Attach(t.Context(), client.Registration{Priority: -257}); return err },
			"priority", []string{"-255 to 255"}},
	} {
		var r *client.RejectedError
		err := bad.ask()
		if !errors.As(err, &r) {
			t.Errorf("%s: %v, want a RejectedError", name, err)
			continue
		}
		if r.Field != bad.field || !slices.Equal(r.Allowed, bad.allowed) {
			t.Errorf("%s: field %q, allowed %q, want %q, %q", name, r.Field, r.Allowed, bad.field, bad.allowed)
		}
		for _, v := range bad.allowed {
			if !strings.Contains(err.Error(), v) {
				t.Errorf("%s: %q does not name %q", name, err, v)
			}
		}
	}
	tasks := list(t, c)
	if len(tasks) != 1 || tasks[0].Hints.Priority != 3 || tasks[0].Hints.QuantumNs != 0 {
		t.Fatalf("something was changed: %v", tasks)
	}
	if got := tasks[0].Processes[0].Settings; got.Level != "auto" || got.Threshold != 16 || got.Batch != 8 {
		t.Errorf("something was changed: %v", got)
	}
}

// TestCase34SocketsAreLocal holds that there is nothing to reach but two Unix
// sockets that others cannot open.
func TestCase34SocketsAreLocal(t *testing.T) {
	dir := rundir(t)
	serve(t, dir)
	for name, want := range map[string]os.FileMode{".": 0o700, client.ControlSocket: 0o600, client.BoardSocket: 0o600, client.LockFile: 0o600} {
		info, err := os.Lstat(dir + "/" + name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode().Perm(), err, want)
		}
	}
}

func TestTicketsAreGoodOnceAndForTheirOwner(t *testing.T) {
	dir := rundir(t)
	serve(t, dir)
	for name, line := range map[string]string{
		"unknown":         `{"version":1,"ticket":"00"}` + "\n",
		"another version": `{"version":2,"ticket":"00"}` + "\n",
		"no JSON":         "GET / HTTP/1.1\n",
		"no end":          strings.Repeat("x", 5000),
	} {
		conn, err := net.Dial("unix", dir+"/"+client.BoardSocket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(answer, `"error"`) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		_ = conn.Close()
	}
}

func TestCleanEndOpensGatesAndRemovesSockets(t *testing.T) {
	dir := rundir(t)
	d := serve(t, dir)
	c := dial(t, dir)
	low := join(t, c, client.Registration{TaskToken: "low"})
	high := join(t, c, client.Registration{TaskToken: "high", Priority: 1})
	low.ready(true)
	high.ready(true)
	low.await("a closed gate", closed)
	d.stop()
	low.await("an open gate", func(g board.Gate, gr board.Grant) bool { return g.Open() && gr.Mode == board.Free })
	low.Gone()
	for _, name := range []string{client.ControlSocket, client.BoardSocket} {
		if _, err := os.Lstat(dir + "/" + name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

func TestHintsReachTheSessionAndThePolicy(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	a := join(t, c, client.Registration{TaskToken: "a"})
	b := join(t, c, client.Registration{TaskToken: "b"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := b.OpenSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Receive(); err != nil || r.Hints.Priority != 0 {
		t.Fatalf("%v, %v", r, err)
	}
	a.ready(true)
	b.ready(true)
	if _, err := setPriority(t, c, client.Target{Task: b.Task}, 5); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Receive(); err != nil || r.Hints.Priority != 5 {
		t.Errorf("%v, %v, want priority 5", r, err)
	}
	a.await("a closed gate", closed)
}

func TestStatusAndWatch(t *testing.T) {
	dir := rundir(t)
	c := dial(t, serve(t, dir).dir)
	p := join(t, c, client.Registration{Name: "wa\x1btcher"})
	s, err := c.Status(t.Context())
	if err != nil || s.Version != "test" || s.Directory != dir || s.Policy != "HPF" || s.Processes != 1 || s.Devices != 1 || s.Edges == 0 {
		t.Errorf("%v, %v", s, err)
	}
	enough := errors.New("enough")
	pictures := 0
	err = c.Watch(t.Context(), time.Millisecond, func(tasks []*xserverv1.Task) error {
		if len(tasks) != 1 || tasks[0].Id != p.Task || tasks[0].Name != "watcher" || tasks[0].Devices[0].Name != gpu.Name {
			t.Errorf("%v", tasks)
		}
		if pictures++; pictures == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}
