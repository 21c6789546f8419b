package library

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"xmsched/compute"
	"xmsched/preempt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type instant struct{}

func (instant) Device() compute.Device        { return "instant" }
func (instant) Mark() (preempt.Marker, error) { return instant{}, nil }
func (instant) Wait() error                   { return nil }
func (instant) Synchronize() error            { return nil }

func TestCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want Result
	}{
		{nil, Success},
		{errors.New("anything"), Unknown},
		{&preempt.HardwareError{Op: "x", Err: errors.New("burnt")}, Hardware},
		{&preempt.ConfigError{}, InvalidValue},
		{&compute.RangeError{}, InvalidValue},
		{&compute.UnknownPolicyError{}, InvalidValue},
		{&preempt.UnsupportedError{}, NotSupported},
		{fmt.Errorf("wait: %w", preempt.ErrDropped), Dropped},
		{preempt.ErrClosed, NotAllowed},
		{context.DeadlineExceeded, Timeout},
		{fmt.Errorf("launch: %w", BadResponse), BadResponse},
		{refuse(NotFound, "x"), NotFound},
	} {
		if got := Code(test.err); got != test.want {
			t.Errorf("%v is %v, want %v", test.err, got, test.want)
		}
	}
}

func TestPanicsStayInside(t *testing.T) {
	err := Guard(func() error { panic("a defect") })
	if Code(err) != Unknown || !strings.Contains(err.Error(), "a defect") {
		t.Errorf("a panic gives %v", err)
	}
	l := New()
	q := newQueue(t, l)
	cmd := l.CreateCommand(func(uint64) error { panic("the caller's") })
	if err := l.Submit(q, cmd); err != nil {
		t.Fatal(err)
	}
	var p *preempt.PanicError
	if err := l.Wait(q, cmd, time.Minute); !errors.As(err, &p) {
		t.Errorf("a callback that panics: %v", err)
	}
}

func newQueue(t *testing.T, l *Library) uint64 {
	t.Helper()
	hw := l.CreateHardware(instant{})
	q, err := l.CreateQueue(hw, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.DestroyQueue(q); err != nil {
			t.Error(err)
		}
		if err := l.DestroyHardware(hw); err != nil {
			t.Error(err)
		}
	})
	return q
}

// Commands that are over are forgotten in the end, those in a queue never.
func TestOldCommandsAreForgotten(t *testing.T) {
	l := New()
	q := newQueue(t, l)
	queue, err := l.Queue(q)
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(uint64) error { return nil }
	if err := queue.Suspend(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	const many = 3 * keep
	first := l.CreateCommand(nothing)
	if err := l.Submit(q, first); err != nil {
		t.Fatal(err)
	}
	for range many {
		if err := l.Submit(q, l.CreateCommand(nothing)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.commands.of); n != many+1 {
		t.Errorf("%d commands known of %d that are in a queue", n, many+1)
	}
	if err := queue.Resume(0); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(q, first, time.Minute); err != nil {
		t.Errorf("the first of many: %v", err)
	}
	if err := l.Wait(q, 0, time.Minute); err != nil {
		t.Fatal(err)
	}
	for range many {
		if err := l.Submit(q, l.CreateCommand(nothing)); err != nil {
			t.Fatal(err)
		}
		if err := l.Wait(q, 0, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.commands.of); n > keep+2 {
		t.Errorf("%d commands known, want %d", n, keep)
	}
	if err := l.Wait(q, first, 0); Code(err) != NotFound {
		t.Errorf("a forgotten command: %v", err)
	}
}

func TestSchedulersComeAndGo(t *testing.T) {
	l := New()
	q := newQueue(t, l)
	for number, name := range policyNames {
		if err := l.SetScheduler(local, number); err != nil {
			t.Errorf("policy %d, %s: %v", number, name, err)
		}
	}
	if err := l.HintAll(func(h *compute.Hints) { h.Quantum = time.Millisecond }); err != nil {
		t.Fatal(err)
	}
	queue, err := l.Queue(q)
	if err != nil {
		t.Fatal(err)
	}
	if got := queue.Info().Hints.Quantum; got != time.Millisecond {
		t.Errorf("quantum %v of a queue that was there", got)
	}
	later, err := l.Queue(newQueue(t, l))
	if err != nil {
		t.Fatal(err)
	}
	if got := later.Info().Hints.Quantum; got != time.Millisecond {
		t.Errorf("quantum %v of a queue that came later", got)
	}
	if err := l.SetScheduler(appManaged, 0); err != nil {
		t.Fatal(err)
	}
}
