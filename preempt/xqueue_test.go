package preempt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"xmsched/compute"
)

func TestCommandsRunInOrder(t *testing.T) {
	h := newHardware(true)
	q := newQueue(t, h, Options{})
	var want []int
	for n := range 1000 {
		submit(t, q, h.launch(n))
		want = append(want, n)
	}
	if err := q.WaitAll(soon(t)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.order, want) {
		t.Error("commands were launched in another order")
	}
	if i := q.Info(); i.Submitted != 1000 || i.Launched != 1000 || i.Completed != 1000 || i.State != Idle {
		t.Errorf("after all: %+v", i)
	}
	if h.marks > 1000/DefaultBatch+1000/2 {
		t.Errorf("%d markers for 1000 commands", h.marks)
	}
}

func TestThresholdBoundsTheHardware(t *testing.T) {
	h := newHardware(false)
	q := newQueue(t, h, Options{LaunchConfig: LaunchConfig{Threshold: 4, Batch: 2}})
	for n := range 10 {
		submit(t, q, h.launch(n))
	}
	h.awaitLaunched(t, 4)
	h.stays(t, 4)
	h.step(2)
	h.awaitLaunched(t, 5)
	if got := h.count(); got > 6 {
		t.Errorf("%d launched with 2 done and a threshold of 4", got)
	}
	h.release()
	if err := q.WaitAll(soon(t)); err != nil {
		t.Fatal(err)
	}
}

// Waiting for a command works any number of times, before and after its end, for
// several at once; XSched forgets the command at its submission.
func TestWaitingTwice(t *testing.T) {
	h := newHardware(false)
	q := newQueue(t, h, Options{})
	first, second := submit(t, q, h.launch(0)), submit(t, q, h.launch(1))
	var waiters sync.WaitGroup
	for range 4 {
		waiters.Go(func() {
			if err := q.Wait(soon(t), first); err != nil {
				t.Error(err)
			}
		})
	}
	if err := second.Wait(within(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait with a deadline: %v", err)
	}
	h.step(1)
	waiters.Wait()
	h.release()
	for range 3 {
		if err := first.Wait(soon(t)); err != nil {
			t.Error(err)
		}
		if err := second.Wait(soon(t)); err != nil {
			t.Error(err)
		}
	}
	other := newQueue(t, newHardware(true), Options{})
	if err := other.Wait(soon(t), first); err == nil {
		t.Error("another queue waited for the command")
	}
}

func TestSuspendKeepsCommands(t *testing.T) {
	h := newHardware(true)
	q := newQueue(t, h, Options{})
	c := submit(t, q, h.launch(0))
	if err := c.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing
		if err := q.Suspend(soon(t), SyncHardware); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n < 5; n++ {
		submit(t, q, h.launch(n))
	}
	h.stays(t, 1)
	if q.Query() != Ready || !q.Info().Suspended {
		t.Errorf("suspended with commands: %+v", q.Info())
	}
	if err := q.Resume(0); err != nil {
		t.Fatal(err)
	}
	if err := q.WaitAll(soon(t)); err != nil {
		t.Fatal(err)
	}
	if q.Query() != Idle {
		t.Error("not idle after WaitAll")
	}
}

func TestSuspendFlags(t *testing.T) {
	t.Run("sync hardware", func(t *testing.T) {
		h := newHardware(false)
		q := newQueue(t, h, Options{LaunchConfig: LaunchConfig{Threshold: 2, Batch: 1}})
		for n := range 4 {
			submit(t, q, h.launch(n))
		}
		h.awaitLaunched(t, 2)
		if err := q.Suspend(within(t, 20*time.Millisecond), SyncHardware); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("suspend returned with commands outstanding: %v", err)
		}
		h.step(2)
		if err := q.Suspend(soon(t), SyncHardware); err != nil {
			t.Fatal(err)
		}
		h.stays(t, 2)
	})
	for _, flag := range []SuspendFlags{WaitAll, WaitIdle, WaitAll | WaitIdle | SyncHardware} {
		t.Run(fmt.Sprint(flag), func(t *testing.T) {
			h := newHardware(false)
			q := newQueue(t, h, Options{})
			for n := range 3 {
				submit(t, q, h.launch(n))
			}
			h.step(2)
			if err := q.Suspend(within(t, 20*time.Millisecond), flag); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("suspend did not wait: %v", err)
			}
			if q.Info().Suspended {
				t.Fatal("suspended before the wait was over")
			}
			h.step(1)
			if err := q.Suspend(soon(t), flag); err != nil {
				t.Fatal(err)
			}
			if i := q.Info(); i.Completed != 3 || !i.Suspended {
				t.Errorf("after the suspension: %+v", i)
			}
		})
	}
}

func TestResumeDropsCommands(t *testing.T) {
	h := newHardware(true)
	q := newQueue(t, h, Options{})
	if err := q.Suspend(soon(t), 0); err != nil {
		t.Fatal(err)
	}
	var dropped []*Command
	for n := range 3 {
		dropped = append(dropped, submit(t, q, h.launch(n)))
	}
	if err := q.Resume(DropCommands); err != nil {
		t.Fatal(err)
	}
	for _, c := range dropped {
		if err := c.Wait(soon(t)); !errors.Is(err, ErrDropped) {
			t.Errorf("a dropped command ends with %v", err)
		}
	}
	if err := submit(t, q, h.launch(9)).Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.order, []int{9}) {
		t.Errorf("launched %v, want only the last", h.order)
	}
}

// In XSched configuring waits for all commands first: for ever, when the queue
// is suspended.
func TestCase35ConfiguringASuspendedQueue(t *testing.T) {
	h := newHardware(false)
	q := newQueue(t, h, Options{})
	if err := q.Suspend(soon(t), 0); err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		submit(t, q, h.launch(n))
	}
	if err := q.SetLaunchConfig(LaunchConfig{Batch: 1}); err != nil {
		t.Fatal(err)
	}
	if err := q.SetLaunchConfig(LaunchConfig{Threshold: 2}); err != nil {
		t.Fatal(err)
	}
	if got := q.Info().LaunchConfig; got != (LaunchConfig{2, 1}) {
		t.Errorf("configuration %+v", got)
	}
	if err := q.Resume(0); err != nil {
		t.Fatal(err)
	}
	h.awaitLaunched(t, 2)
	h.stays(t, 2)
}

// What is not named stays: a batch counts as a lower threshold while there is one.
func TestCase35PartialConfiguration(t *testing.T) {
	h := newHardware(false)
	q := newQueue(t, h, Options{})
	for _, c := range []struct{ set, want LaunchConfig }{
		{LaunchConfig{Threshold: 2}, LaunchConfig{2, 2}},
		{LaunchConfig{Threshold: 12}, LaunchConfig{12, DefaultBatch}},
		{LaunchConfig{Batch: 12}, LaunchConfig{12, 12}},
		{LaunchConfig{Threshold: 1}, LaunchConfig{1, 1}},
	} {
		if err := q.SetLaunchConfig(c.set); err != nil || q.Info().LaunchConfig != c.want {
			t.Errorf("%+v: %v, gives %+v, want %+v", c.set, err, q.Info().LaunchConfig, c.want)
		}
	}
	for n := range 3 {
		submit(t, q, h.launch(n))
	}
	for n := range 3 {
		h.awaitLaunched(t, n+1)
		h.stays(t, n+1)
		h.step(1)
	}
}

func TestConfigurationLimits(t *testing.T) {
	for _, test := range []struct {
		config LaunchConfig
		name   string
	}{
		{LaunchConfig{Threshold: MaxThreshold + 1}, "threshold"},
		{LaunchConfig{Threshold: 4, Batch: 5}, "batch"},
		{LaunchConfig{Batch: DefaultThreshold + 1}, "batch"},
	} {
		var bad *ConfigError
		if _, err := New(newHardware(true), Options{LaunchConfig: test.config}); !errors.As(err, &bad) || bad.Name != test.name {
			t.Errorf("%+v: %v, want an error about the %s", test.config, err, test.name)
		}
	}
	q := newQueue(t, newHardware(true), Options{LaunchConfig: LaunchConfig{Threshold: 4}})
	if got := q.Info().LaunchConfig; got != (LaunchConfig{4, 4}) {
		t.Errorf("threshold of 4 gives %+v", got)
	}
	var bad *ConfigError
	if err := q.SetLaunchConfig(LaunchConfig{Threshold: 2, Batch: 3}); !errors.As(err, &bad) || q.Info().Threshold != 4 {
		t.Errorf("threshold below the batch: %v, now %+v", err, q.Info().LaunchConfig)
	}
	var outside *compute.RangeError
	if err := q.SetHints(compute.Hints{Priority: 1000}); !errors.As(err, &outside) {
		t.Errorf("priority 1000: %v", err)
	}
}

// In XSched destroying can wait for a queue that is suspended.
func TestClosingASuspendedQueue(t *testing.T) {
	h := newHardware(true)
	q := newQueue(t, h, Options{})
	if err := q.Suspend(soon(t), 0); err != nil {
		t.Fatal(err)
	}
	c := submit(t, q, h.launch(0))
	if err := q.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(soon(t)); err != nil {
		t.Errorf("the command of the closed queue: %v", err)
	}
	if h.count() != 1 {
		t.Error("closing lost the command")
	}
	if _, err := q.Submit(h.launch(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("submit to a closed queue: %v", err)
	}
	if err := q.Suspend(soon(t), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("suspend a closed queue: %v", err)
	}
	if err := q.Resume(0); !errors.Is(err, ErrClosed) {
		t.Errorf("resume a closed queue: %v", err)
	}
	if err := q.Close(soon(t)); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func TestClosingGivesUp(t *testing.T) {
	h := newHardware(false)
	q := newQueue(t, h, Options{LaunchConfig: LaunchConfig{Threshold: 1}})
	first, second := submit(t, q, h.launch(0)), submit(t, q, h.launch(1))
	h.awaitLaunched(t, 1)
	if err := q.Close(within(t, 20*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("close: %v", err)
	}
	if err := second.Wait(soon(t)); !errors.Is(err, ErrDropped) {
		t.Errorf("what was not launched ends with %v", err)
	}
	h.release()
	if err := first.Wait(soon(t)); err != nil {
		t.Error(err)
	}
}

func TestErrorsBelongToTheirCommand(t *testing.T) {
	h := newHardware(true)
	q := newQueue(t, h, Options{})
	refused := errors.New("refused")
	bad := submit(t, q, func() error { return refused })
	panics := submit(t, q, func() error { panic("what a command") })
	good := submit(t, q, h.launch(0))
	if err := bad.Wait(soon(t)); !errors.Is(err, refused) {
		t.Errorf("the failed launch: %v", err)
	}
	var p *PanicError
	if err := panics.Wait(soon(t)); !errors.As(err, &p) || p.Value != "what a command" || len(p.Stack) == 0 {
		t.Errorf("the panic: %v", err)
	}
	if err := good.Wait(soon(t)); err != nil {
		t.Errorf("the command behind them: %v", err)
	}
	if err := q.WaitAll(soon(t)); err != nil {
		t.Errorf("all: %v", err)
	}
}

func TestBrokenHardwareEndsEverything(t *testing.T) {
	h := newHardware(false)
	q := newQueue(t, h, Options{LaunchConfig: LaunchConfig{Threshold: 2, Batch: 1}})
	var commands []*Command
	for n := range 5 {
		commands = append(commands, submit(t, q, h.launch(n)))
	}
	h.awaitLaunched(t, 2)
	burnt := errors.New("burnt")
	h.fail(burnt)
	for _, c := range commands {
		var broken *HardwareError
		if err := c.Wait(soon(t)); !errors.As(err, &broken) || !errors.Is(err, burnt) {
			t.Errorf("a command of the broken queue ends with %v", err)
		}
	}
	if _, err := q.Submit(h.launch(9)); !errors.Is(err, burnt) {
		t.Errorf("submit to a broken queue: %v", err)
	}
	if err := q.WaitAll(soon(t)); !errors.Is(err, burnt) {
		t.Errorf("wait for all: %v", err)
	}
	if err := q.Close(soon(t)); !errors.Is(err, burnt) {
		t.Errorf("close: %v", err)
	}
}

func TestDirectLaunches(t *testing.T) {
	h := newHardware(false)
	q := newQueue(t, h, Options{LaunchConfig: LaunchConfig{Threshold: 1}})
	var on atomic.Bool
	c, err := q.Do(soon(t), func() error { on.Store(true); return h.launch(0)() })
	if err != nil || !on.Load() {
		t.Fatalf("the first command was not launched at once: %v", err)
	}
	if q.launcher != nil {
		t.Error("a direct launch started a goroutine")
	}
	// The second has to wait its turn, and gives up; its place is passed over.
	if _, err := q.Begin(within(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("begin above the threshold: %v", err)
	}
	h.release()
	third, err := q.Begin(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	waiting := submit(t, q, h.launch(9)) // nothing is launched between Begin and End
	h.stays(t, 1)
	third.End(h.launch(1)())
	third.End(nil) // does nothing
	for _, c := range []*Command{c, third, waiting} {
		if err := c.Wait(soon(t)); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(h.order, []int{0, 1, 9}) {
		t.Errorf("launched %v", h.order)
	}
}

func TestDirectLaunchOfASuspendedQueue(t *testing.T) {
	h := newHardware(true)
	q := newQueue(t, h, Options{})
	if err := q.Suspend(soon(t), 0); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for range 2 {
		go func() {
			_, err := q.Do(soon(t), h.launch(0))
			ended <- err
		}()
	}
	eventually(t, func() bool { return q.Info().Submitted == 2 }, "both submitted")
	h.stays(t, 0)
	if err := q.Resume(DropCommands); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, ErrDropped) {
			t.Errorf("the dropped launch: %v", err)
		}
	}
}

// Many goroutines do everything at once; every command ends, in order.
func TestEverythingAtOnce(t *testing.T) {
	h := newHardware(true)
	s := NewScheduler(compute.HPF())
	defer s.Close()
	queues := make([]*XQueue, 3)
	for i := range queues {
		queues[i] = newQueue(t, h, Options{Scheduler: s, Hints: compute.Hints{Priority: i}})
	}
	var ended atomic.Int64
	var workers sync.WaitGroup
	for w := range 6 {
		workers.Go(func() {
			q := queues[w%3]
			var last *Command
			for n := range 300 {
				var after []*Command
				if last != nil && n%7 == 0 {
					after = append(after, last)
				}
				c, err := queues[(w+n)%3].SubmitAfter(func() error { return nil }, after...)
				if err != nil {
					t.Error(err)
					return
				}
				last = c
				switch n % 10 {
				case 1:
					_ = q.Suspend(soon(t), 0)
				case 3:
					_ = q.Resume(0)
				case 5:
					_ = q.SetLaunchConfig(LaunchConfig{Threshold: 1 + n%16, Batch: 1})
				case 7:
					_ = q.UpdateHints(func(h *compute.Hints) { h.Priority = n % 5 })
				}
			}
			_ = q.Resume(0)
			ended.Add(300)
		})
	}
	workers.Wait()
	for _, q := range queues {
		if err := q.Resume(0); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range queues {
		if err := q.WaitAll(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	total := uint64(0)
	for _, q := range queues {
		total += q.Info().Completed
	}
	if total != uint64(ended.Load()) {
		t.Errorf("%d commands ended, %d submitted", total, ended.Load())
	}
}
