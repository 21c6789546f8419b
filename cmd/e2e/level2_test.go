package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// queueKernel is how long a kernel of queue lasts on the simulated device.
const queueKernel = 10 * time.Millisecond

// queue is a program whose GPU says itself how far it has got.
type queue struct {
	*proc
	done *uint32 // written by the device
}

// queue starts one at Level 2, bounded so that one can see when all that it has
// launched is gated: by itself the bound there is as wide as in free run.
func (w *world) queue(name string, priority int) *queue {
	w.t.Helper()
	return w.queueAt(name, priority, "2", queueKernel, "--threshold", "16")
}

// queueAt starts one at a level, of kernels that last so long.
func (w *world) queueAt(name string, priority int, level string, kernel time.Duration, flags ...string) *queue {
	w.t.Helper()
	path := filepath.Join(filepath.Dir(w.dir), name)
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		w.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	page, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = unix.Munmap(page) })
	iterations := strconv.Itoa(int(20000 * (kernel / (100 * time.Microsecond))))
	p := w.xrun(append([]string{"--name", name, "--priority", strconv.Itoa(priority), "--level", level}, flags...),
		filepath.Join(built, "queue"), filepath.Join(built, "kernels.ptx"), iterations, path)
	return &queue{proc: p, done: (*uint32)(unsafe.Pointer(&page[0]))}
}

func (q *queue) count() uint32 { return atomic.LoadUint32(q.done) }

// advances waits until the device gets on with the program's kernels.
func (q *queue) advances() time.Duration {
	q.t.Helper()
	before := q.count()
	return eventually(q.t, "the device to get on with "+q.name, func() bool { return q.count() != before })
}

// standing waits until the device gets on with them no more: for as long as many
// of them would take.
func (q *queue) standing() {
	q.t.Helper()
	eventually(q.t, "the device to stop "+q.name, func() bool {
		before := q.count()
		time.Sleep(20 * queueKernel)
		return q.count() == before
	})
}

// atLevel2 starts a daemon, a foreground that is stopped, so that it competes and
// has no work, and a background that is governed at Level 2 and has as much
// queued as it may.
func atLevel2(t *testing.T) (w *world, daemon *proc, low *queue, high *proc) {
	t.Helper()
	w = newWorld(t)
	daemon = w.daemon()
	// On a busy machine its gaps are long; nothing is to slip into them here.
	high = w.spin("high", 10, "--idle-after", "200ms")
	w.scheduled("high")
	high.progress()
	high.signal(syscall.SIGSTOP)
	low = w.queue("low", 0)
	w.scheduled("low")
	eventually(t, "level 2", func() bool { rows := w.list("low"); return len(rows) == 1 && rows[0].Level == 2 })
	// What it launched before it was governed has no gate before it.
	eventually(t, "a short queue", func() bool { return low.proc.count.Load()-uint64(low.count()) <= 17 })
	low.advances()
	return w, daemon, low, high
}

// TestLevel2StopsAQueueOfAStoppedProgram has no thread of the background run while
// its gate closes, stays closed and opens.
func TestLevel2StopsAQueueOfAStoppedProgram(t *testing.T) {
	w, _, low, high := atLevel2(t)
	eventually(t, "its queue to fill", func() bool { return uint32(low.proc.count.Load())-low.count() >= 7 })
	low.signal(syscall.SIGSTOP)
	before := low.count()
	high.signal(syscall.SIGCONT)
	high.progress()
	low.standing()
	launched := uint32(low.proc.count.Load())
	t.Logf("of %d kernels %d were left when the background was stopped, and %d are with its gate closed", launched, launched-before, launched-low.count())
	if low.count() == launched {
		t.Fatal("nothing was left in its queue: the device did not wait at the gate")
	}
	high.signal(syscall.SIGSTOP)
	t.Logf("the device got on with the background %v after the foreground was stopped", low.advances())
	low.signal(syscall.SIGCONT)
	low.progress()
	high.signal(syscall.SIGCONT)
	high.progress()
	low.standing()
	if rows := w.list("low"); len(rows) != 1 || rows[0].Level != 2 || rows[0].Why != "" {
		t.Errorf("%+v", rows)
	}
}

// TestCase31Level2GatesOpenWithoutTheDaemon kills the daemon while the device waits
// at a closed gate.
func TestCase31Level2GatesOpenWithoutTheDaemon(t *testing.T) {
	_, daemon, low, high := atLevel2(t)
	high.signal(syscall.SIGCONT)
	high.progress()
	low.standing()
	daemon.signal(syscall.SIGKILL)
	if took := low.advances(); took > leaseLimit {
		t.Errorf("the device stood for %v after the daemon was killed, limit %v", took, leaseLimit)
	} else {
		t.Logf("the device got on %v after the daemon was killed", took)
	}
	low.progress()
	high.progress()
}

// TestCase31Level2GatesOpenBesideAHungDaemon stops the daemon instead: nothing tells
// the program, but that the daemon's heart stands still.
func TestCase31Level2GatesOpenBesideAHungDaemon(t *testing.T) {
	_, daemon, low, high := atLevel2(t)
	high.signal(syscall.SIGCONT)
	high.progress()
	low.standing()
	daemon.signal(syscall.SIGSTOP)
	if took := low.advances(); took > leaseLimit {
		t.Errorf("the device stood for %v after the daemon was stopped, limit %v", took, leaseLimit)
	} else {
		t.Logf("the device got on %v after the daemon was stopped", took)
	}
	low.progress()
	daemon.signal(syscall.SIGCONT)
	low.standing()
	high.progress()
}

// TestCase32KilledAtAClosedGate kills a program whose queue stands at its gate. The
// others use the device as before.
func TestCase32KilledAtAClosedGate(t *testing.T) {
	w, _, low, high := atLevel2(t)
	high.signal(syscall.SIGCONT)
	high.progress()
	low.standing()
	low.end()
	high.progress()
	next := w.queue("next", 0)
	w.scheduled("next")
	next.standing()
	high.end()
	next.advances()
	next.progress()
}

// TestCase35LevelOfASuspendedTask changes the level of a program whose queue stands
// at its gate: it stands on, and goes on when its time has come.
func TestCase35LevelOfASuspendedTask(t *testing.T) {
	w, _, low, high := atLevel2(t)
	high.signal(syscall.SIGCONT)
	high.progress()
	low.standing()
	pid := strconv.Itoa(low.cmd.Process.Pid)
	for _, level := range []string{"1", "2", "1"} {
		if out, code := w.run("xcli", "config", "--pid", pid, "--level", level); code != 0 {
			t.Fatalf("exit %d: %s", code, out)
		}
		low.standing()
		if rows := w.list("low"); len(rows) != 1 || strconv.Itoa(int(rows[0].Level)) != level {
			t.Errorf("level %s: %+v", level, rows)
		}
	}
	high.end()
	low.advances()
	low.progress()
}
