package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"xmsched/compute"
	"xmsched/preempt/board"
	"xmsched/xserver"
	"xmsched/xserver/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHost is the C library of a test.
type fakeHost struct {
	t    *testing.T
	news chan News

	mu        sync.Mutex
	board     *board.Board // protected by mu; nil: detached
	bell      int          // protected by mu
	attaches  int          // protected by mu
	uncovered []string     // protected by mu
	warnings  []string     // protected by mu
	said      map[Warning]bool
	refuse    error
	panics    bool
}

func newHost(t *testing.T) *fakeHost {
	h := &fakeHost{t: t, news: make(chan News, 8), said: map[Warning]bool{}, bell: -1}
	t.Cleanup(h.Detach)
	return h
}

func (h *fakeHost) Attach(boardFD, bellFD int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.panics {
		panic("the host is broken")
	}
	if h.refuse != nil {
		_ = unix.Close(boardFD)
		_ = unix.Close(bellFD)
		return h.refuse
	}
	b, err := board.Open(boardFD)
	if err != nil {
		_ = unix.Close(bellFD)
		return err
	}
	h.board, h.bell = b, bellFD
	h.attaches++
	b.Device(0).Claim(board.Identity{UUID: board.UUID{9}, Name: "test GPU"})
	h.ring()
	return nil
}

func (h *fakeHost) ring() {
	one := [8]byte{0: 1}
	_, _ = unix.Write(h.bell, one[:])
}

func (h *fakeHost) Detach() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.board != nil {
		_ = h.board.Close()
		_ = unix.Close(h.bell)
		h.board = nil
	}
}

func (h *fakeHost) WaitNews(limit time.Duration) News {
	select {
	case n := <-h.news:
		return n
	case <-time.After(min(limit, 50*time.Millisecond)):
		return 0
	}
}

func (h *fakeHost) Uncovered() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.uncovered...)
}

func (h *fakeHost) Left() {}

func (h *fakeHost) WarnOnce(code Warning, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.said[code] {
		h.said[code] = true
		h.warnings = append(h.warnings, text)
	}
}

func (h *fakeHost) warned() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.warnings...)
}

// gate is the gate word of the attached board.
func (h *fakeHost) gate() (board.Gate, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.board == nil {
		return 0, false
	}
	return h.board.Device(0).Gate(), true
}

func eventually(t *testing.T, what string, good func() bool) {
	t.Helper()
	for start := time.Now(); !good(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func rundir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "xm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func serve(t *testing.T, dir string) (stop func()) {
	t.Helper()
	s, err := xserver.New(xserver.Config{Dir: dir, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func start(t *testing.T, h *fakeHost, dir string, r client.Registration) *Agent {
	t.Helper()
	a := Start(h, Config{Dir: dir, Registration: r})
	t.Cleanup(a.Close)
	return a
}

func tasks(t *testing.T, dir string) int {
	t.Helper()
	c, err := client.Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListTasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestAttachesAndIsAnswered(t *testing.T) {
	dir := rundir(t)
	serve(t, dir)
	h := newHost(t)
	start(t, h, dir, client.Registration{Name: "x"})
	eventually(t, "a gate word", func() bool { g, ok := h.gate(); return ok && g != 0 && g.Open() })
	if w := h.warned(); len(w) != 0 {
		t.Errorf("warned %q", w)
	}
	eventually(t, "a heartbeat", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.board.Health().Beat > 0
	})
}

// quietHost has no news until the test ends, so that nothing but attaching beats the
// heart.
type quietHost struct {
	*fakeHost
	ended chan struct{}
}

func (h *quietHost) WaitNews(time.Duration) News { <-h.ended; return 0 }

// TestCase31AttachedIsAlive: a daemon that restarted waits for the hearts of those that
// come back, and none has to wait for its second to be over.
func TestCase31AttachedIsAlive(t *testing.T) {
	dir := rundir(t)
	stop := serve(t, dir)
	h := &quietHost{newHost(t), make(chan struct{})}
	a := Start(h, Config{Dir: dir, Registration: client.Registration{Name: "x"}})
	t.Cleanup(func() { close(h.ended); a.Close() })
	beats := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.board != nil && h.board.Health().Beat > 0
	}
	eventually(t, "a heartbeat", beats)
	stop()
	eventually(t, "detachment", func() bool { _, ok := h.gate(); return !ok })
	serve(t, dir)
	eventually(t, "a heartbeat on the new board", beats)
}

// TestCase40DaemonAfterProgram starts the daemon after the program, and again
// later: the program is picked up each time, and was warned once.
func TestCase40DaemonAfterProgram(t *testing.T) {
	dir := rundir(t)
	h := newHost(t)
	start(t, h, dir, client.Registration{Name: "x"})
	eventually(t, "a warning", func() bool { return len(h.warned()) > 0 })
	stop := serve(t, dir)
	eventually(t, "the board", func() bool { g, ok := h.gate(); return ok && g != 0 })
	stop()
	eventually(t, "detachment", func() bool { _, ok := h.gate(); return !ok })
	serve(t, dir)
	eventually(t, "the board again", func() bool { g, ok := h.gate(); return ok && g != 0 })
	w := h.warned()
	if len(w) != 2 || !strings.Contains(w[0], "no daemon answers in "+dir) || !strings.Contains(w[1], "went away") {
		t.Errorf("warned %q", w)
	}
}

// TestCase31HintOutlivesTheDaemon changes a hint while the program runs, and ends
// the daemon. The agent that comes back is known by its nonce.
func TestCase31HintOutlivesTheDaemon(t *testing.T) {
	dir := rundir(t)
	stop := serve(t, dir)
	h := newHost(t)
	start(t, h, dir, client.Registration{Name: "x", Priority: 1})
	priority := func() int32 {
		c, err := client.Dial(t.Context(), dir)
		if err != nil {
			return 0
		}
		defer c.Close()
		list, err := c.ListTasks(t.Context())
		if err != nil || len(list) != 1 {
			return 0
		}
		return list[0].Hints.Priority
	}
	eventually(t, "its own priority", func() bool { return priority() == 1 })
	c, err := client.Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	wanted := 42
	if _, _, err := c.SetHints(t.Context(), client.Target{PID: os.Getpid()}, client.Hints{Priority: &wanted}); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	for range 2 {
		stop()
		eventually(t, "detachment", func() bool { _, ok := h.gate(); return !ok })
		stop = serve(t, dir)
		eventually(t, "the changed priority", func() bool { return priority() != 0 })
		if have := priority(); have != 42 {
			t.Fatalf("priority %d after the restart, want 42", have)
		}
	}
}

// TestStoppedDaemonIsNotCalledAbsent has an agent find a daemon that says nothing.
func TestStoppedDaemonIsNotCalledAbsent(t *testing.T) {
	dir := rundir(t)
	l, err := net.Listen("unix", dir+"/"+client.ControlSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := newHost(t)
	start(t, h, dir, client.Registration{Name: "x"})
	eventually(t, "a warning", func() bool { return len(h.warned()) > 0 })
	if w := h.warned(); len(w) != 1 || strings.Contains(w[0], "no daemon") || !strings.Contains(w[0], "does not answer: it is overloaded or hangs") {
		t.Errorf("warned %q", w)
	}
}

// TestWhatXrunSaidIsNotSaidAgain holds the agent's tongue about an absent daemon,
// and no longer than that.
func TestWhatXrunSaidIsNotSaidAgain(t *testing.T) {
	dir := rundir(t)
	h := newHost(t)
	a := Start(h, Config{Dir: dir, Warned: true})
	t.Cleanup(a.Close)
	time.Sleep(50 * time.Millisecond) // it has had its first try
	stop := serve(t, dir)
	eventually(t, "the board", func() bool { g, ok := h.gate(); return ok && g != 0 })
	stop()
	eventually(t, "a warning", func() bool { return len(h.warned()) > 0 })
	if w := h.warned(); len(w) != 1 || !strings.Contains(w[0], "went away") {
		t.Errorf("warned %q", w)
	}
}

func TestUncoveredNamesReachTheDaemon(t *testing.T) {
	dir := rundir(t)
	serve(t, dir)
	h := newHost(t)
	h.uncovered = []string{"cuFirst"}
	start(t, h, dir, client.Registration{Name: "x"})
	names := func() []string {
		c, err := client.Dial(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		list, err := c.ListTasks(t.Context())
		if err != nil || len(list) != 1 || len(list[0].Processes) != 1 {
			return nil
		}
		return list[0].Processes[0].Uncovered
	}
	eventually(t, "the first name", func() bool { return strings.Join(names(), " ") == "cuFirst" })
	h.mu.Lock()
	h.uncovered = append(h.uncovered, "cuSecond")
	h.mu.Unlock()
	h.news <- Uncovered
	eventually(t, "the second name", func() bool { return strings.Join(names(), " ") == "cuFirst cuSecond" })
}

// TestCase08RefusedLevelIsSaidOnce holds that a level that is not there is
// refused by name, and the program left alone.
func TestCase08RefusedLevelIsSaidOnce(t *testing.T) {
	dir := rundir(t)
	serve(t, dir)
	h := newHost(t)
	a := start(t, h, dir, client.Registration{Name: "x", Level: "4"})
	a.Wait()
	if w := h.warned(); len(w) != 1 || !strings.Contains(w[0], `unknown level "4"`) {
		t.Errorf("warned %q", w)
	}
	if tasks(t, dir) != 0 {
		t.Error("the process is registered all the same")
	}
}

// TestCase08LevelThatTheDeviceLacks has a process ask for a level that turns out
// not to be had: it is told once, and is scheduled at the one below.
func TestCase08LevelThatTheDeviceLacks(t *testing.T) {
	for _, c := range []struct {
		asked string
		can   uint32
		why   board.LevelWhy
		said  string
		level uint32
	}{
		{"2", 1, board.NoStreamWaits, "level 2 is not to be had on test GPU: the device has no stream waits; the program is scheduled at level 1", 1},
		{"3", 1, board.NoStreamWaits, "level 3 is not to be had on test GPU: the device has no stream waits; the program is scheduled at level 1", 1},
		{"3", 2, board.ClientOfMPS, "level 3 is not to be had on test GPU: a client of MPS", 2},
		// Nobody has probed the device: the daemon knows no more than the program.
		{"3", 3, board.NothingInTheWay, "level 3 is not to be had on test GPU: the daemon does not offer it there", 2},
	} {
		dir := rundir(t)
		serve(t, dir)
		h := newHost(t)
		start(t, h, dir, client.Registration{Name: "x", Level: c.asked})
		eventually(t, "the board", func() bool { _, ok := h.gate(); return ok })
		h.mu.Lock()
		h.board.Device(0).SetLevelMax(c.can, c.why)
		h.ring()
		h.mu.Unlock()
		eventually(t, "a warning", func() bool { return len(h.warned()) > 0 })
		time.Sleep(200 * time.Millisecond) // some more looks
		if w := h.warned(); len(w) != 1 || !strings.Contains(w[0], c.said) {
			t.Errorf("%+v: warned %q", c, w)
		}
		h.mu.Lock()
		if _, g := h.board.Device(0).Grant(); g.Level != c.level {
			t.Errorf("%+v: governed at level %d", c, g.Level)
		}
		h.mu.Unlock()
	}
}

func TestLeavingEndsTheAgent(t *testing.T) {
	dir := rundir(t)
	serve(t, dir)
	h := newHost(t)
	a := start(t, h, dir, client.Registration{Name: "x"})
	eventually(t, "the board", func() bool { _, ok := h.gate(); return ok })
	h.news <- Leaving
	a.Wait()
	if _, ok := h.gate(); ok {
		t.Error("still attached")
	}
	eventually(t, "the daemon to notice", func() bool { return tasks(t, dir) == 0 })
}

func TestHostThatRefusesTheBoardIsTriedAgain(t *testing.T) {
	dir := rundir(t)
	serve(t, dir)
	h := newHost(t)
	h.refuse = unix.EBUSY
	start(t, h, dir, client.Registration{Name: "x"})
	eventually(t, "a warning", func() bool { return len(h.warned()) > 0 })
	if w := h.warned(); !strings.Contains(w[0], unix.EBUSY.Error()) {
		t.Errorf("warned %q", w)
	}
	h.mu.Lock()
	h.refuse = nil
	h.mu.Unlock()
	eventually(t, "the board", func() bool { _, ok := h.gate(); return ok })
}

func TestPanicIsSaidOnceAndEndsTheAgentAlone(t *testing.T) {
	dir := rundir(t)
	serve(t, dir)
	h := newHost(t)
	h.panics = true
	a := start(t, h, dir, client.Registration{Name: "x"})
	a.Wait()
	if w := h.warned(); len(w) != 1 || !strings.Contains(w[0], "the host is broken") || !strings.Contains(w[0], "goes on unscheduled") {
		t.Errorf("warned %q", w)
	}
}

func TestFromEnvironment(t *testing.T) {
	t.Setenv("XMSCHED_DIR", "/tmp/somewhere")
	t.Setenv("XMSCHED_NAME", "train")
	t.Setenv("XMSCHED_PRIORITY", "-7")
	t.Setenv("XMSCHED_THRESHOLD", "32")
	t.Setenv("XMSCHED_GANG", "ranks")
	t.Setenv("XMSCHED_LAXITY", "20ms:1:9")
	t.Setenv("XMSCHED_MEMORY", "1")
	t.Setenv("XMSCHED_MEMORY_LIMIT", "17179869184")
	c, err := FromEnvironment()
	want := client.Registration{Name: "train", Threshold: 32, MemoryLimit: 16 << 30, Hints: compute.Hints{
		Priority: -7, Gang: "ranks", Laxity: compute.Laxity{After: 20 * time.Millisecond, Low: 1, High: 9},
	}}
	if err != nil || c.Dir != "/tmp/somewhere" || c.Registration != want || !c.MovesMemory {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("XMSCHED_WARNED", "1")
	if c, err := FromEnvironment(); err != nil || !c.Warned {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("XMSCHED_PRIORITY", "high")
	if _, err := FromEnvironment(); err == nil || err.Error() != `XMSCHED_PRIORITY="high" is not a number from -255 to 255, or off` {
		t.Errorf("%v", err)
	}
	t.Setenv("XMSCHED_DIR", "relative")
	if _, err := FromEnvironment(); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
