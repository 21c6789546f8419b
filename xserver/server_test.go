package xserver_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xmsched/preempt/board"
	"xmsched/xserver"
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
		if time.Since(start) > 10*time.Second {
			p.t.Fatalf("waited 10 s for %s, the gate is %v with %+v", what, gate, grant)
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
