package e2e

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// job is a running job.c, and the file in which its parts count.
type job struct {
	*proc
	w     *world
	file  string
	parts int
}

// job starts one of a shape; the letters are job.c's.
func (w *world) job(name, shape string, flags ...string) *job {
	w.t.Helper()
	j := &job{w: w, file: filepath.Join(filepath.Dir(w.dir), name)}
	for _, letter := range shape {
		if letter != 'u' && letter != 'w' {
			j.parts++
		}
	}
	if err := os.WriteFile(j.file, make([]byte, 4096), 0o644); err != nil {
		w.t.Fatal(err)
	}
	j.proc = w.xrun(append([]string{"--name", name}, flags...), filepath.Join(built, "job"), filepath.Join(built, "kernels.ptx"), "20000", j.file, shape)
	return j
}

// counts are how many kernels each part has completed.
func (j *job) counts() []uint64 {
	j.t.Helper()
	text, err := os.ReadFile(j.file)
	if err != nil || len(text) < 8*j.parts {
		j.t.Fatalf("%d bytes of %s: %v", len(text), j.file, err)
	}
	counts := make([]uint64, j.parts)
	for i := range counts {
		counts[i] = binary.NativeEndian.Uint64(text[8*i:])
	}
	return counts
}

func (j *job) total() (sum uint64) {
	j.t.Helper()
	for _, n := range j.counts() {
		sum += n
	}
	return sum
}

// getOn waits until so many parts have got on.
func (j *job) getOn(parts int) {
	j.t.Helper()
	before := j.counts()
	eventually(j.t, j.name+": its parts to get on", func() bool {
		n := 0
		for i, now := range j.counts() {
			if now > before[i] {
				n++
			}
		}
		return n == parts
	})
}

func (j *job) allGetOn() {
	j.t.Helper()
	j.getOn(j.parts)
}

// allStand waits until the parts together get on no more.
func (j *job) allStand() {
	j.t.Helper()
	eventually(j.t, j.name+" to stand", func() bool {
		before := j.total()
		time.Sleep(300 * time.Millisecond)
		return j.total()-before <= slack
	})
}

// processes waits until so many of the job are scheduled, and says which: they are
// of one task. Others of its processes, which do not use the GPU, may be listed as
// unscheduled.
func (j *job) processes(n int, name string) (pids []int) {
	j.t.Helper()
	eventually(j.t, name+" to have its processes", func() bool {
		pids = pids[:0]
		tasks := map[uint64]bool{}
		for _, r := range j.w.list(name) {
			if r.Task != 0 && r.Mode != "" {
				tasks[r.Task] = true
				pids = append(pids, r.PID)
			}
		}
		return len(pids) == n && len(tasks) == 1
	})
	return pids
}

// TestJobStopsAndGoesOnAsOne has a job of forked, spawned and orphaned processes
// beside a more important program: it stops and goes on as a whole, whoever of it is
// killed meanwhile, and is gone with its last process.
func TestJobStopsAndGoesOnAsOne(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	j := w.job("job", "fgss")
	pids := j.processes(4, "job")
	j.allGetOn()
	high := w.spin("high", 5)
	w.scheduled("high")
	high.progress()
	j.allStand()
	kill := func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	kill(pids[0]) // at its closed gate
	left := j.processes(3, "job")
	j.allStand()
	high.progress()
	high.end()
	j.getOn(3)
	kill(left[0]) // while it computes
	j.processes(2, "job")
	j.end()
	eventually(t, "the job to be gone", func() bool { return len(w.list("job")) == 0 })
}

// TestProcessesForkedAfterUse has a program that uses the GPU fork one that does
// not, and spawn one that does: the first is none of the task's, and listed so, the
// second is.
func TestProcessesForkedAfterUse(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	j := w.job("job", "uwts")
	j.processes(2, "job")
	j.allGetOn()
	high := w.spin("high", 5)
	w.scheduled("high")
	high.progress()
	j.allStand()
	high.end()
	j.allGetOn()
	j.processes(2, "job")
	eventually(t, "the forked process to be named", func() bool {
		for _, r := range w.list("job") {
			if r.Task == 0 && strings.Contains(r.Why, "forked from a process that used CUDA") {
				return true
			}
		}
		return false
	})
}

// TestContextsOfOneProcess has one process compute in its primary context, in one of
// its own, and in two by turns, on created and legacy streams.
func TestContextsOfOneProcess(t *testing.T) {
	for _, level := range []string{"1", "auto"} {
		t.Run("level "+level, func(t *testing.T) {
			w := newWorld(t)
			w.daemon()
			j := w.job("contexts", "tcp", "--level", level)
			j.processes(1, "contexts")
			j.allGetOn()
			high := w.spin("high", 5)
			w.scheduled("high")
			high.progress()
			j.allStand()
			high.end()
			j.allGetOn()
		})
	}
}

// TestJobIsReadyWhileAnyOfItIs stops the processes of an important job one by one:
// the other program gets the device when the last of them has stopped.
func TestJobIsReadyWhileAnyOfItIs(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	low := w.spin("low", 0)
	w.scheduled("low")
	high := w.job("high", "fs", "--priority", "5", "--idle-after", "100ms")
	pids := high.processes(2, "high")
	high.allGetOn()
	low.stands()
	tell := func(pid int, s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	tell(pids[0], syscall.SIGSTOP)
	low.stands()
	tell(pids[1], syscall.SIGSTOP)
	low.progress()
	low.progress()
	tell(pids[1], syscall.SIGCONT)
	low.stands()
	tell(pids[0], syscall.SIGCONT)
	high.allGetOn()
	low.stands()
}

// TestJobSharesAsOne has a job of three processes and a single one take turns: the
// job gets as much of the device as the other, and not three times as much.
func TestJobSharesAsOne(t *testing.T) {
	w := newWorld(t)
	w.daemon("--policy", "RR")
	many := w.job("many", "fff", "--quantum", "50ms", "--idle-after", "500ms")
	one := w.job("one", "f", "--quantum", "50ms", "--idle-after", "500ms")
	many.processes(3, "many")
	one.processes(1, "one")
	many.allGetOn()
	one.allGetOn()
	// Turns are alike, and so is what is computed in one; three processes lose less of
	// theirs between kernels, and on a busy machine any of them does for a while.
	a, b := many.total(), one.total()
	eventually(t, "a job of three to get as much as a job of one", func() bool {
		time.Sleep(time.Second)
		three, single := many.total()-a, one.total()-b
		t.Logf("three processes completed %d kernels, one %d", three, single)
		ratio := float64(three) / float64(single)
		return three+single > 5000 && ratio > 0.5 && ratio < 2
	})
}
