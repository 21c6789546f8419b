package preempt

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xmsched/compute"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hardware is a queue made of a goroutine: commands are done in their order
// when step lets them, or at once while it is free.
type hardware struct {
	device compute.Device

	mu       sync.Mutex
	moved    *sync.Cond
	free     bool
	launched int
	allowed  int
	marks    int
	fails    error
	order    []int
}

func newHardware(free bool) *hardware {
	h := &hardware{device: "test", free: free}
	h.moved = sync.NewCond(&h.mu)
	return h
}

func (h *hardware) Device() compute.Device { return h.device }

// launch returns a command's function.
func (h *hardware) launch(n int) func() error {
	return func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.launched++
		h.order = append(h.order, n)
		h.moved.Broadcast()
		return nil
	}
}

// step lets n more commands be done.
func (h *hardware) step(n int) {
	h.mu.Lock()
	h.allowed += n
	h.moved.Broadcast()
	h.mu.Unlock()
}

func (h *hardware) release() {
	h.mu.Lock()
	h.free = true
	h.moved.Broadcast()
	h.mu.Unlock()
}

func (h *hardware) fail(err error) {
	h.mu.Lock()
	h.fails = err
	h.moved.Broadcast()
	h.mu.Unlock()
}

func (h *hardware) count() (launched int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.launched
}

type point struct {
	h *hardware
	n int
}

func (h *hardware) Mark() (Marker, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.marks++
	return point{h, h.launched}, h.fails
}

func (p point) Wait() error {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	for !p.h.free && p.h.allowed < p.n && p.h.fails == nil {
		p.h.moved.Wait()
	}
	return p.h.fails
}

func (h *hardware) Synchronize() error { return point{h, h.count()}.Wait() }

// awaitLaunched waits until n commands have been launched.
func (h *hardware) awaitLaunched(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() bool { return h.count() >= n }, "%d commands launched", n)
}

// stays expects that no more than n commands are launched for a while.
func (h *hardware) stays(t *testing.T, n int) {
	t.Helper()
	time.Sleep(20 * time.Millisecond)
	if got := h.count(); got != n {
		t.Fatalf("%d commands launched, want %d", got, n)
	}
}

func eventually(t *testing.T, holds func() bool, what string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: "+what, args...)
		}
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func soon(t *testing.T) context.Context { return within(t, time.Minute) }

func newQueue(t *testing.T, h *hardware, o Options) *XQueue {
	t.Helper()
	q, err := New(h, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.release()
		if err := q.Close(soon(t)); err != nil && !errors.As(err, new(*HardwareError)) {
			t.Errorf("close: %v", err)
		}
	})
	return q
}

func submit(t *testing.T, q *XQueue, launch func() error, after ...*Command) *Command {
	t.Helper()
	c, err := q.SubmitAfter(launch, after...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
