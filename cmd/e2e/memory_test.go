package e2e

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// memoryWorld is a world whose daemon manages the memory of a simulated device that has
// a gibibyte of it.
func memoryWorld(t *testing.T, budget string, args ...string) (w *world, daemon *proc) {
	t.Helper()
	w = newWorld(t)
	// A busy machine may start the agent later than a program waits for it by itself.
	w.env = append(w.env, "XMSCHED_SIM_HBM=1G", "XMSCHED_MEMORY_WAIT=60000")
	daemon = w.daemon(append([]string{"--sim", "--hbm-budget", budget}, args...)...)
	eventually(t, "the device to be probed", func() bool {
		sheets, _ := filepath.Glob(filepath.Join(filepath.Dir(w.dir), "state", "devices", "*.json"))
		return len(sheets) > 0
	})
	return w, daemon
}

// passes starts a program with buffers of 32 MiB that it passes over and over.
func (w *world) passes(name string, buffers, passes int, flags ...string) *proc {
	w.t.Helper()
	return w.passesOver(name, buffers, 32, passes, flags...)
}

// passesOver is passes with buffers of so many MiB.
func (w *world) passesOver(name string, buffers, mib, passes int, flags ...string) *proc {
	w.t.Helper()
	argv := []string{filepath.Join(built, "passes"), filepath.Join(built, "kernels.ptx"),
		strconv.Itoa(buffers), strconv.Itoa(mib), strconv.Itoa(passes), strconv.Itoa(1000 * len(name))}
	return w.xrun(append([]string{"--name", name}, flags...), argv...)
}

// enough lets the program make no more passes.
func (p *proc) enough() { p.signal(syscall.SIGUSR1) }

// right waits until the program has ended, and checks that every word was right.
func (p *proc) right() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(5 * time.Minute):
		p.t.Fatalf("%s has not ended; it made %d passes and said: %s", p.name, p.count.Load(), p.said())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 { // 1: it printed which word is wrong
		p.t.Errorf("%s ended with code %d after %d passes; it said: %s", p.name, code, p.count.Load(), p.said())
	}
}

// memoryRow is a process in xcli memory stats --json.
type memoryRow struct {
	Task      uint64
	Name      string
	PID       int
	Limit     uint64
	Allocated uint64
	Resident  uint64
	Host      uint64
	Pinned    uint64
	Target    uint64
	In        uint64 `json:"moved_in"`
	Out       uint64 `json:"moved_out"`
	Spared    uint64
	Why       string

	PinnedBy map[string]uint64 `json:"pinned_by"`
}

// hostFigures is its host.
type hostFigures struct{ Used, Pool, Kept, Limit, Passing, Passed uint64 }

type memoryFigures struct {
	Managed bool
	Host    hostFigures
	Devices []struct {
		Budget, Committed, Resident, Pinned uint64

		Oversubscribed bool
		LeftBehind     uint64 `json:"left_behind"`
	}
	Processes []memoryRow
}

// memory asks xcli.
func (w *world) memory() (m memoryFigures) {
	w.t.Helper()
	eventually(w.t, "the daemon's figures", func() bool { // on a busy machine it may be asked in vain
		out, code := w.run("xcli", "memory", "stats", "--json")
		m = memoryFigures{}
		return code == 0 && json.Unmarshal([]byte(out), &m) == nil
	})
	return m
}

// overFor is how long more than the budget may be seen on the device: what a process
// claims while it takes an allocation back, for which a target was lowered meanwhile;
// and on a busy machine it takes its time.
const overFor = 3 * time.Second

// watchBudget checks that the budget holds, until the figures that each program had last
// are enough; then it lets the programs end.
func (w *world) watchBudget(budget uint64, enough func(last map[string]memoryRow) bool, programs ...*proc) {
	w.t.Helper()
	last := map[string]memoryRow{}
	within, beyond := time.Now(), 0 // and how often more was seen since
	w.t.Cleanup(func() { w.t.Logf("figures: %+v", last) })
	for begin, done := time.Now(), false; !done; time.Sleep(30 * time.Millisecond) {
		if time.Since(begin) > 5*time.Minute { // of those that are drained it seldom does
			w.t.Fatal("waited 5 minutes for memory to move")
		}
		m := w.memory()
		for _, d := range m.Devices {
			if d.Resident+d.Pinned <= budget && d.Committed <= budget {
				within, beyond = time.Now(), 0
			} else {
				beyond++
			}
			if time.Since(within) > overFor && beyond >= 10 {
				w.t.Fatalf("budget %d: %d committed, %d resident, %d pinned", budget, d.Committed, d.Resident, d.Pinned)
			}
		}
		for _, r := range m.Processes {
			last[r.Name] = r
		}
		done = enough(last)
	}
	for _, p := range programs {
		p.progress()
		p.enough()
	}
}

// levels runs a test of memory with tasks that are stopped hard, and with such that are
// drained.
func levels(t *testing.T, f func(t *testing.T, level string)) {
	for _, level := range []string{"3", "2"} {
		t.Run("level "+level, func(t *testing.T) { f(t, level) })
	}
}

// TestCase22TwoExceedTheDeviceTogether has two programs of 192 MiB under a budget of
// 256: both make all their passes, and every byte is right.
func TestCase22TwoExceedTheDeviceTogether(t *testing.T) {
	levels(t, func(t *testing.T, level string) {
		w, _ := memoryWorld(t, "256MiB", "--policy", "RR", "--memory-policy", "allocation")
		a := w.passes("a", 6, 10000, "--level", level)
		b := w.passes("bb", 6, 10000, "--level", level)
		w.watchBudget(256<<20, func(last map[string]memoryRow) bool {
			moved := last["a"].In + last["a"].Out + last["bb"].In + last["bb"].Out
			return moved > 0 && a.count.Load() >= 3 && b.count.Load() >= 3
		}, a, b)
		a.right()
		b.right()
	})
}

// TestCase22OneExceedsTheDevice has a program of one and a half times the budget.
func TestCase22OneExceedsTheDevice(t *testing.T) {
	levels(t, func(t *testing.T, level string) {
		w, _ := memoryWorld(t, "256MiB")
		p := w.passes("large", 12, 10000, "--level", level)
		w.watchBudget(256<<20, func(last map[string]memoryRow) bool {
			return last["large"].Host > 0 && last["large"].Resident > 0 && p.count.Load() >= 3
		}, p)
		p.right()
	})
}

// TestCase24KilledInMidMove kills one of two that do not fit together, again and again:
// the other is right, and in the end has the budget for itself.
func TestCase24KilledInMidMove(t *testing.T) {
	w, _ := memoryWorld(t, "256MiB", "--policy", "RR", "--memory-policy", "allocation")
	a := w.passes("stays", 6, 10000)
	for i := range 4 {
		b := w.passes("killed", 6, 1000)
		b.progress()
		time.Sleep(time.Duration(i) * 37 * time.Millisecond)
		b.end()
	}
	a.enough()
	a.right()
	eventually(t, "the memory to be free", func() bool {
		for _, d := range w.memory().Devices {
			if d.Committed != 0 || d.Resident != 0 || d.LeftBehind != 0 {
				return false
			}
		}
		return true
	})
}

// TestAutomaticBudgetOfASmallCard has a budget follow from the card that the probe found:
// all but an eighth of the simulated one's gibibyte, which programs then have.
func TestAutomaticBudgetOfASmallCard(t *testing.T) {
	w, _ := memoryWorld(t, "auto")
	p := w.passes("p", 8, 10000)
	p.progress()
	eventually(t, "the budget of a card of 1 GiB", func() bool {
		m := w.memory()
		return len(m.Devices) == 1 && m.Devices[0].Budget == 896<<20
	})
	eventually(t, "the program's memory on the device", func() bool {
		m := w.memory()
		return len(m.Processes) == 1 && m.Processes[0].Resident >= 256<<20
	})
	p.enough()
	p.right()
}

// TestCase31MemoryWithoutTheDaemon kills the daemon while two programs take turns that
// do not fit together: they go on, and when it is back it knows what they have.
func TestCase31MemoryWithoutTheDaemon(t *testing.T) {
	w, daemon := memoryWorld(t, "256MiB", "--policy", "RR")
	a, b := w.passes("a", 6, 10000), w.passes("bb", 6, 10000)
	a.progress()
	b.progress()
	daemon.signal(syscall.SIGKILL)
	a.progress()
	b.progress()
	w.daemon("--sim", "--hbm-budget", "256MiB", "--policy", "RR")
	a.progress()
	b.progress()
	a.enough()
	b.enough()
	a.right()
	b.right()
}

// TestCase25EachSeesItsLimit has a program told its limit and its own use, whatever its
// neighbour has.
func TestCase25EachSeesItsLimit(t *testing.T) {
	w, _ := memoryWorld(t, "512MiB")
	neighbour := w.passes("neighbour", 8, 1000)
	neighbour.progress()
	p := w.passes("limited", 2, 1, "--memory-limit", "128MiB")
	first := <-p.lines
	p.right()
	if first != "total 134217728 free 134217728" {
		t.Errorf("it was told %q of its memory", first)
	}
	over := w.passes("over", 5, 1, "--memory-limit", "128MiB")
	<-over.ended
	if !strings.Contains(over.said(), "cuMemAlloc_v2(&at[i], bytes): error 2") {
		t.Errorf("beyond its limit it said: %s", over.said())
	}
}

// TestMemorySetOverTheSocket changes what holds while programs run.
func TestMemorySetOverTheSocket(t *testing.T) {
	w, _ := memoryWorld(t, "512MiB")
	p := w.passes("p", 6, 200)
	p.progress()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--budget", "128MiB"}, 0, "budget 128 MiB, host budget none, policy predict"},
		{[]string{"--policy", "SWAP"}, 0, "policy swap"},
		{[]string{"--policy", "none"}, 2, "no memory policy"},
		{[]string{"--pid", strconv.Itoa(p.cmd.Process.Pid), "--limit", "64MiB"}, 2, "does not hold the"},
		{[]string{"--pid", strconv.Itoa(p.cmd.Process.Pid), "--limit", "1GiB"}, 0, "limit 1 GiB"},
		{[]string{"--budget", "1k"}, 2, "allowed are 2 MiB to"},
		{[]string{"--limit", "1GiB"}, 2, "a limit is a task's"},
	} {
		out, code := w.run("xcli", append([]string{"memory", "set"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d: %s", c.args, code, out)
		}
	}
	eventually(t, "the smaller budget to hold", func() bool {
		m := w.memory()
		return len(m.Devices) == 1 && m.Devices[0].Resident <= 128<<20 && len(m.Processes) == 1 && m.Processes[0].Limit == 1<<30
	})
	p.progress()
}
