package e2e

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// simWorld is a world whose daemon has probed the simulated device; programs in it
// have the variables.
func simWorld(t *testing.T, env ...string) (w *world, daemon *proc) {
	t.Helper()
	w = newWorld(t)
	daemon = w.daemon("--sim")
	eventually(t, "the device to be probed", func() bool {
		sheets, _ := filepath.Glob(filepath.Join(filepath.Dir(w.dir), "state", "devices", "*.json"))
		return len(sheets) > 0
	})
	w.env = append(w.env, env...)
	return w, daemon
}

// level waits until a program is governed at a level.
func (w *world) level(name string, level uint32) row {
	w.t.Helper()
	var r row
	eventually(w.t, name+" to be governed at level "+strconv.Itoa(int(level)), func() bool {
		rows := w.list(name)
		if len(rows) == 1 {
			r = rows[0]
		}
		return len(rows) == 1 && r.Level == level
	})
	return r
}

// foreground starts a program of high priority that computes for 3 ms, waits for it,
// and begins again. One of short kernels would be bound by the CPU on a busy
// machine, and have others run beside it.
func (w *world) foreground(name string) *proc {
	w.t.Helper()
	const iterations = 20000 * 30
	p := w.xrun([]string{"--name", name, "--priority", "10", "--idle-after", "200ms"}, // its gaps are long on a busy machine
		filepath.Join(built, "spinner"), filepath.Join(built, "kernels.ptx"), strconv.Itoa(iterations), "1")
	w.scheduled(name)
	p.progress()
	return p
}

// background starts a queue of kernels of that length at a level, and waits until
// it is governed at it.
func (w *world) background(name, level string, kernel time.Duration) *queue {
	w.t.Helper()
	q := w.queueAt(name, 0, level, kernel)
	w.scheduled(name)
	if level == "auto" {
		level = "3"
	}
	n, _ := strconv.Atoi(level)
	w.level(name, uint32(n))
	return q
}

// atLevel3 starts a foreground that is stopped, so that it competes and has no work,
// and a background.
func atLevel3(t *testing.T, kernel time.Duration) (w *world, low *queue, high *proc) {
	t.Helper()
	w, _ = simWorld(t)
	high = w.foreground("high")
	high.signal(syscall.SIGSTOP)
	return w, w.background("low", "3", kernel), high
}

// suspended waits until a program is listed as suspended.
func (w *world) suspended(name string) {
	w.t.Helper()
	eventually(w.t, name+" to be suspended", func() bool {
		rows := w.list(name)
		return len(rows) == 1 && rows[0].State == "suspended"
	})
}

// TestLevel3StopsInsideAKernel has a background in a kernel that would end, were it
// only kept from its next one: it stands still for as long as the foreground works,
// and goes on where it stopped.
func TestLevel3StopsInsideAKernel(t *testing.T) {
	const kernel = time.Second
	w, low, high := atLevel3(t, kernel)
	low.advances() // a kernel has just begun
	high.signal(syscall.SIGCONT)
	took := high.progress()
	w.suspended("low")
	before := low.count()
	time.Sleep(3 * kernel) // sharing the device it would be through in two
	high.progress()
	if low.count() != before {
		t.Errorf("the background got on from kernel %d to %d while the foreground worked", before, low.count())
	}
	high.signal(syscall.SIGSTOP)
	took2 := low.advances()
	t.Logf("the foreground got on after %v; the background's kernel ended %v after it was let go", took, took2)
	if limit := kernel + 30*time.Second; took2 > limit {
		t.Errorf("the background's kernel took %v more, limit %v", took2, limit)
	}
	var r row
	eventually(t, "the books", func() bool {
		if rows := w.list("low"); len(rows) == 1 {
			r = rows[0]
		}
		return len(r.Preemption) > 0
	})
	last := r.Preemption[len(r.Preemption)-1]
	if last.Level != 3 || last.Taken == 0 || r.StoppedMS < 2500 || r.Holds == 0 || r.HoldUS <= 0 {
		t.Errorf("the background's books: %+v", r)
	}
	for _, r := range w.list("high") {
		if n := len(r.Preemption); n == 0 || r.Preemption[n-1].Level != 3 || r.Preemption[n-1].Given == 0 {
			t.Errorf("the foreground's books: %+v", r)
		}
	}
}

// TestLevel3KilledWhileSuspended kills a program that is suspended: nothing of it is
// in the others' way, and the next one is suspended as well.
func TestLevel3KilledWhileSuspended(t *testing.T) {
	w, low, high := atLevel3(t, queueKernel)
	high.signal(syscall.SIGCONT)
	high.progress()
	w.suspended("low")
	low.end()
	high.progress()
	next := w.queueAt("next", 0, "3", queueKernel)
	w.scheduled("next")
	next.standing()
	high.progress()
	high.end()
	next.advances()
	next.progress()
}

// TestLevel3StoppedWhileSuspended stops the program itself while it is suspended. It
// goes on when both are over.
func TestLevel3StoppedWhileSuspended(t *testing.T) {
	w, low, high := atLevel3(t, queueKernel)
	high.signal(syscall.SIGCONT)
	high.progress()
	w.suspended("low")
	low.signal(syscall.SIGSTOP)
	high.progress()
	high.signal(syscall.SIGSTOP)
	time.Sleep(300 * time.Millisecond)
	other := w.background("other", "3", queueKernel) // runs though it is left suspended
	other.advances()
	low.signal(syscall.SIGCONT)
	low.advances()
	other.advances()
	high.signal(syscall.SIGCONT)
	high.progress()
	low.standing()
	other.standing()
}

// TestLevel3BackgroundsTakeTurns has several busy backgrounds, all armed: each gets
// on, and stops with the foreground.
func TestLevel3BackgroundsTakeTurns(t *testing.T) {
	w, low, high := atLevel3(t, queueKernel)
	all := []*queue{low, w.background("two", "3", queueKernel), w.background("three", "auto", queueKernel)}
	for range 3 {
		for _, q := range all {
			q.advances()
		}
	}
	before := make([]uint32, len(all))
	for i, q := range all {
		before[i] = q.count()
	}
	eventually(t, "each to make as many kernels as the others, widely", func() bool {
		made := make([]uint32, len(all))
		for i, q := range all {
			made[i] = q.count() - before[i]
		}
		return slices.Min(made) >= 40 && slices.Max(made) < 4*slices.Min(made)
	})
	high.signal(syscall.SIGCONT)
	high.progress()
	for _, q := range all {
		q.standing()
	}
	high.end()
	for _, q := range all {
		q.advances()
	}
}

// TestCase35LevelOfASuspendedProgram takes level 3 away from a program while it is
// suspended, gives it back, and does so again: it stands all the time, and goes on
// in the end.
func TestCase35LevelOfASuspendedProgram(t *testing.T) {
	w, low, high := atLevel3(t, queueKernel)
	high.signal(syscall.SIGCONT)
	high.progress()
	w.suspended("low")
	pid := strconv.Itoa(low.cmd.Process.Pid)
	for _, level := range []string{"2", "3", "1", "3", "3"} {
		if out, code := w.run("xcli", "config", "--pid", pid, "--level", level); code != 0 {
			t.Fatalf("exit %d: %s", code, out)
		}
		n, _ := strconv.Atoi(level)
		w.level("low", uint32(n))
		low.standing()
	}
	high.end()
	low.advances()
	low.progress()
}

// TestCase31SuspendedGoesOnWithoutTheDaemon kills the daemon, and in another run
// stops it, while a program is suspended: within a second it goes on.
func TestCase31SuspendedGoesOnWithoutTheDaemon(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			w, daemon := simWorld(t)
			high := w.foreground("high")
			high.signal(syscall.SIGSTOP)
			low := w.background("low", "3", queueKernel)
			low.advances()
			high.signal(syscall.SIGCONT)
			high.progress()
			w.suspended("low")
			low.standing()
			daemon.signal(sig)
			if took := low.advances(); took > leaseLimit {
				t.Errorf("suspended for %v after the daemon was %s, limit %v", took, name, leaseLimit)
			} else {
				t.Logf("it got on %v after the daemon was %s", took, name)
			}
			high.progress()
			if sig == syscall.SIGSTOP {
				daemon.signal(syscall.SIGCONT)
			} else {
				w.daemon("--sim")
			}
			w.level("low", 3)
			low.standing() // it is asked again
			high.progress()
			high.end()
			low.advances()
		})
	}
}

// TestCase08Level3ThatIsNotToBeHad starts programs whose driver gives no level 3, in
// each of the ways there are: they are governed at level 2, which works, and it is
// said why, by the program, in the list, and when it is asked for.
func TestCase08Level3ThatIsNotToBeHad(t *testing.T) {
	for how, why := range map[string]string{
		"refuse": "refused", "unknown": "not recognised", "mps": "MPS", "none": "not recognised",
	} {
		t.Run(how, func(t *testing.T) {
			w, _ := simWorld(t, "XMSCHED_SIM_RM="+how)
			low := w.queueAt("low", 0, "3", queueKernel)
			w.scheduled("low")
			r := w.level("low", 2)
			eventually(t, "the reason", func() bool { r = w.level("low", 2); return strings.Contains(r.Why, why) })
			if !strings.Contains(r.Why, "level 3 is not to be had") {
				t.Errorf("listed with %q", r.Why)
			}
			eventually(t, "a warning", func() bool { return strings.Contains(low.said(), "level 3 is not to be had") })
			if !strings.Contains(low.said(), why) || !strings.Contains(low.said(), "scheduled at level 2") {
				t.Errorf("it said %q", low.said())
			}
			out, code := w.run("xcli", "config", "--task", strconv.FormatUint(r.Task, 10), "--level", "3")
			if code == 0 || !strings.Contains(out, "level 3 (interrupt)") || !strings.Contains(out, why) || !strings.Contains(out, "use level 2") {
				t.Errorf("exit %d: %s", code, out)
			}
			high := w.foreground("high")
			low.standing()
			high.end()
			low.advances()
		})
	}
}

// TestUnprobedDeviceOffersNoLevel3 starts a daemon that does not probe, and one whose
// probe finds that the driver refuses.
func TestUnprobedDeviceOffersNoLevel3(t *testing.T) {
	for _, c := range []struct {
		flag, env, why string
	}{
		{"--no-probe", "XMSCHED_SIM_RM=", "not probed yet"},
		{"--sim", "XMSCHED_SIM_RM=refuse", "refused"},
	} {
		w := newWorld(t)
		plain := w.env
		w.env = append(w.env, c.env)
		args := []string{"--sim"}
		if c.flag != "--sim" {
			args = append(args, c.flag)
		}
		w.daemon(args...)
		w.env = plain
		w.queueAt("low", 0, "3", queueKernel)
		w.scheduled("low")
		eventually(t, "level 2, as "+c.why, func() bool {
			rows := w.list("low")
			return len(rows) == 1 && rows[0].Level == 2 && strings.Contains(rows[0].Why, c.why)
		})
	}
}
