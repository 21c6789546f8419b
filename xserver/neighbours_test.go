package xserver_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// Whoever waits for a neighbour that does not answer waits for ever, or for the seconds
// of some timeout; what a machine with other work makes of a decision is less than that,
// for half of them by far.
const (
	decisionLimit = 5 * time.Second
	medianLimit   = 200 * time.Millisecond
)

func eventually(t testing.TB, what string, good func() bool) {
	t.Helper()
	for start := time.Now(); !good(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func list(t testing.TB, c *client.Client) []*xserverv1.Task {
	t.Helper()
	tasks, err := c.ListTasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// decide measures the decisions of two honest clients: ready edge to closed gate.
func decide(t testing.TB, low, high *player, n int) []time.Duration {
	t.Helper()
	var took []time.Duration
	for range n {
		low.await("an open gate", open)
		start := time.Now()
		high.ready(true)
		low.await("a closed gate", closed)
		took = append(took, time.Since(start))
		high.ready(false)
	}
	slices.Sort(took)
	return took
}

// honest is a pair of clients, the lower of which always has work.
func honest(t testing.TB, c *client.Client) (low, high *player) {
	t.Helper()
	low = join(t, c, client.Registration{Name: "low", TaskToken: "low", Priority: 50})
	high = join(t, c, client.Registration{Name: "high", TaskToken: "high", Priority: 100})
	low.ready(true)
	high.await("an open gate", open)
	return low, high
}

func within(t *testing.T, took []time.Duration) {
	t.Helper()
	median, worst := took[len(took)/2], took[len(took)-1]
	t.Logf("decisions: median %v, worst %v", median, worst)
	if worst > decisionLimit || median > medianLimit {
		t.Errorf("a decision took %v, limit %v; median %v, limit %v", worst, decisionLimit, median, medianLimit)
	}
}

// TestCase32NeighboursDelayNobody has stopped, killed, flooding and
// garbage-writing processes on the same device.
func TestCase32NeighboursDelayNobody(t *testing.T) {
	dir := serve(t, rundir(t)).dir
	c := dial(t, dir)
	low, high := honest(t, c)
	t.Run("alone", func(t *testing.T) { within(t, decide(t, low, high, 100)) })
	t.Run("stopped", func(t *testing.T) {
		for range 3 {
			s := spawn(t, part{Role: "player", Dir: dir})
			s.tell("ready")
			s.signal(syscall.SIGSTOP)
		}
		within(t, decide(t, low, high, 100))
	})
	t.Run("killed", func(t *testing.T) {
		for range 5 {
			s := spawn(t, part{Role: "player", Dir: dir})
			s.tell("ready")
			go func() { _ = s.cmd.Process.Kill() }()
			within(t, decide(t, low, high, 10))
		}
	})
	t.Run("noise", func(t *testing.T) {
		s := spawn(t, part{Role: "noise", Dir: dir})
		within(t, decide(t, low, high, 100))
		s.kill()
	})
	t.Run("flood", func(t *testing.T) {
		s := spawn(t, part{Role: "flood", Dir: dir})
		awaitFlood(t, c)
		within(t, decide(t, low, high, 100))
		s.kill()
	})
}

// TestCase32StoppedForegroundGivesWay stops a process that keeps another one out.
func TestCase32StoppedForegroundGivesWay(t *testing.T) {
	dir := serve(t, rundir(t)).dir
	c := dial(t, dir)
	low := join(t, c, client.Registration{TaskToken: "low"})
	low.ready(true)
	high := spawn(t, part{Role: "player", Dir: dir, Registration: client.Registration{Priority: 10}})
	for range 3 {
		high.tell("ready")
		low.await("a closed gate", closed)
		high.signal(syscall.SIGSTOP)
		if took := low.await("an open gate", open); took > decisionLimit {
			t.Errorf("a stopped foreground kept the other out for %v, limit %v", took, decisionLimit)
		}
		high.signal(syscall.SIGCONT)
		low.await("a closed gate again", closed)
	}
	high.signal(syscall.SIGKILL)
	if took := low.await("an open gate", open); took > decisionLimit {
		t.Errorf("a killed foreground kept the other out for %v, limit %v", took, decisionLimit)
	}
}

// TestCase33ShortLivedClients come and go between any two steps of the daemon.
func TestCase33ShortLivedClients(t *testing.T) {
	dir := serve(t, rundir(t)).dir
	c := dial(t, dir)
	low, high := honest(t, c)
	var brief []*child
	for range 8 {
		brief = append(brief, start(t, part{Role: "vanish", Dir: dir}))
	}
	within(t, decide(t, low, high, 50))
	for i := range 50 { // within this process: leave after each step
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		a, err := c.Attach(ctx, client.Registration{})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		b, err := a.Map()
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			b.Device(0).Claim(gpu)
			b.Device(0).SetReady(true)
		}
		if i%3 > 1 {
			_ = a.Ring()
		}
		_ = b.Close()
		_ = a.Close()
	}
	for _, s := range brief {
		_ = s.cmd.Wait()
	}
	within(t, decide(t, low, high, 50))
	eventually(t, "only the two to be left", func() bool { return len(list(t, c)) == 2 })
}

// TestCase07ExecUnderOnePid registers a program and the one that it becomes: the
// same pid and start time, two nonces, never two entries.
func TestCase07ExecUnderOnePid(t *testing.T) {
	dir := serve(t, rundir(t)).dir
	c := dial(t, dir)
	s := spawn(t, part{Role: "player", Dir: dir, Registration: client.Registration{Name: "one", Nonce: 11}})
	before := list(t, c)
	if len(before) != 1 || before[0].Processes[0].Pid != int32(s.PID) {
		t.Fatalf("%v", before)
	}
	if _, err := s.in.Write([]byte("exec\n")); err != nil {
		t.Fatal(err)
	}
	if !s.out.Scan() || !strings.Contains(s.out.Text(), "pid") {
		t.Fatalf("after exec the child said %q", s.out.Text())
	}
	eventually(t, "one entry of the new program", func() bool {
		now := list(t, c)
		return len(now) == 1 && len(now[0].Processes) == 1 && now[0].Id != before[0].Id &&
			now[0].Processes[0].Pid == before[0].Processes[0].Pid &&
			now[0].Processes[0].StartTime == before[0].Processes[0].StartTime
	})
}

// TestCase07SameKeyReplaces registers the same agent twice: the later
// registration holds.
func TestCase07SameKeyReplaces(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	first := join(t, c, client.Registration{Nonce: 5, TaskToken: "x"})
	join(t, c, client.Registration{Nonce: 5, TaskToken: "x"})
	eventually(t, "one process", func() bool {
		tasks := list(t, c)
		return len(tasks) == 1 && len(tasks[0].Processes) == 1
	})
	first.Gone() // its connection was closed by the daemon
}

// TestCase38Container has a client with namespaces of its own for processes,
// System V and POSIX memory and the network, and another user, to whom nothing
// but the run directory is common.
func TestCase38Container(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	dir := rundir(t)
	if err := os.Chmod(dir, 0o711); err != nil { // opened to other users, as an administrator does
		t.Fatal(err)
	}
	c := dial(t, serve(t, dir).dir)
	low := join(t, c, client.Registration{TaskToken: "low"})
	low.ready(true)
	const nobody = 65534
	s := spawn(t, part{Role: "player", Dir: dir, Registration: client.Registration{Priority: 9}}, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
			Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		}
	})
	if s.PID != 1 {
		t.Fatalf("the child calls itself pid %d, want 1 in its namespace", s.PID)
	}
	s.tell("ready")
	low.await("a closed gate", closed)
	tasks := list(t, c)
	if len(tasks) != 2 || tasks[1].Uid != nobody || tasks[1].Processes[0].Pid != int32(s.cmd.Process.Pid) {
		t.Errorf("the daemon lists %v, want uid %d and pid %d", tasks, nobody, s.cmd.Process.Pid)
	}
	s.signal(syscall.SIGKILL)
	low.await("an open gate", open)
}

// TestCase34OthersTasks has another user look at and steer root's task.
func TestCase34OthersTasks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a second user needs root")
	}
	dir := rundir(t)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, dir).dir)
	mine := join(t, c, client.Registration{TaskToken: "mine"})
	const nobody = 65534
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAsAnotherUser$", "-test.v")
	cmd.Env = append(os.Environ(), "XMSCHED_OTHER_DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestAsAnotherUser") {
		t.Fatalf("%v\n%s", err, out)
	}
	if tasks := list(t, c); len(tasks) != 1 || tasks[0].Id != mine.Task || tasks[0].Hints.Priority != 0 {
		t.Errorf("after the attempts: %v", tasks)
	}
}

// TestAsAnotherUser is the other user's part of TestCase34OthersTasks.
func TestAsAnotherUser(t *testing.T) {
	dir := os.Getenv("XMSCHED_OTHER_DIR")
	if dir == "" {
		t.Skip("runs in a child of TestCase34OthersTasks")
	}
	c := dial(t, dir)
	if tasks := list(t, c); len(tasks) != 0 {
		t.Errorf("sees %v", tasks)
	}
	var denied *client.DeniedError
	if _, err := setPriority(t, c, client.Target{Task: 1}, 9); !errors.As(err, &denied) {
		t.Errorf("hint: %v, want a DeniedError", err)
	}
	if _, err := c.SetPolicy(t.Context(), "RR"); !errors.As(err, &denied) {
		t.Errorf("policy: %v, want a DeniedError", err)
	}
	own := join(t, c, client.Registration{TaskToken: "mine"}) // the same token
	if own.Task == 1 {
		t.Error("joined another user's task by its token")
	}
	if _, err := setPriority(t, c, client.Target{Task: own.Task}, 9); err != nil {
		t.Errorf("own task: %v", err)
	}
}

// BenchmarkDecision measures ready edge to gate word of another process. The
// waiting one spins, so that no wake-up of its own is in the figure.
func BenchmarkDecision(b *testing.B) {
	dir := serve(b, rundir(b)).dir
	c := dial(b, dir)
	low, high := honest(b, c)
	var took []time.Duration
	for b.Loop() {
		for low.board.Device(0).Gate() != 0 && !low.board.Device(0).Gate().Open() {
		}
		start := time.Now()
		high.ready(true)
		for low.board.Device(0).Gate().Open() {
		}
		took = append(took, time.Since(start))
		low.board.Device(0).Ack(low.board.Device(0).Gate())
		high.ready(false)
		time.Sleep(time.Millisecond)
	}
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3 }
	b.ReportMetric(0, "ns/op") // would count the pauses
	b.ReportMetric(at(0.5), "p50-us")
	b.ReportMetric(at(0.99), "p99-us")
}
