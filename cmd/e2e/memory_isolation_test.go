package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// mark is a word that the programs of a test write and that nothing else writes.
const mark = 0x5ec2e7a1

var remainsOnce = sync.OnceValues(func() ([]byte, error) {
	step := program(built, "remains")
	return exec.Command(step[0], step[1:]...).CombinedOutput()
})

// remains starts a program that writes the mark into so many buffers of 16 MiB, or looks
// for it in what it was given.
func (w *world) remains(name, how string, buffers int) *proc {
	w.t.Helper()
	if out, err := remainsOnce(); err != nil {
		w.t.Fatalf("build remains: %v\n%s", err, out)
	}
	return w.xrun([]string{"--name", name}, filepath.Join(built, "remains"), how, strconv.Itoa(buffers), "16", strconv.Itoa(mark))
}

// foundNothing waits until a program that looks has looked, and checks that it saw none of
// the marks.
func (p *proc) foundNothing() {
	p.t.Helper()
	select {
	case line := <-p.lines:
		if line != "found 0" {
			p.t.Errorf("%s %s words of what somebody else wrote", p.name, line)
		}
	case <-p.ended:
		p.t.Fatalf("%s ended: %s", p.name, p.said())
	case <-time.After(time.Minute):
		p.t.Fatalf("%s has not looked; it said: %s", p.name, p.said())
	}
}

// moved waits until memory of a program has gone to the host. It does not ask often: on
// a busy machine the asking would be what keeps it from going.
func (w *world) moved(name string) {
	w.t.Helper()
	eventually(w.t, name+"'s memory to move", func() bool {
		time.Sleep(50 * time.Millisecond)
		var m memoryFigures
		out, code := w.run("xcli", "memory", "stats", "--json")
		if code != 0 || json.Unmarshal([]byte(out), &m) != nil {
			return false // it did not answer in time
		}
		for _, r := range m.Processes {
			if r.Name == name && r.Out+r.Spared > 0 { // what is clean goes without a copy
				return true
			}
		}
		return false
	})
}

// TestMemoryNeverShowsWhatWasThere has programs fill the device and the host's slots with
// marks, and end in the one way or the other, or live on; who is given that memory sees
// none of them. Who looks has more memory than the budget, so part of it is the host's.
func TestMemoryNeverShowsWhatWasThere(t *testing.T) {
	w, _ := memoryWorld(t, "64MiB", "--policy", "RR", "--memory-policy", "allocation")
	first, second := w.remains("first", "write", 3), w.remains("second", "write", 3)
	w.moved("first")
	w.moved("second")
	first.end() // in the middle of whatever moves
	// Beside one that lives, whose memory goes where the dead one's was.
	w.remains("beside", "look", 5).foundNothing()
	second.signal(syscall.SIGTERM) // ends by itself
	<-second.ended
	w.remains("after", "look", 5).foundNothing()
}

// TestMemoryNeverShowsTheOthers has one who looks again and again while two programs and it
// take turns on the same memory.
func TestMemoryNeverShowsTheOthers(t *testing.T) {
	w, _ := memoryWorld(t, "48MiB", "--policy", "RR", "--memory-policy", "allocation")
	looks := w.remainsFed("looks", 100)
	w.remains("first", "write", 2)
	w.remains("second", "write", 2)
	w.moved("looks")
	for range 3 {
		looks.foundNothing()
	}
}

// remainsFed starts a program that looks once, and then so many times more.
func (w *world) remainsFed(name string, times int) *proc {
	w.t.Helper()
	if out, err := remainsOnce(); err != nil {
		w.t.Fatalf("build remains: %v\n%s", err, out)
	}
	line := strings.Join([]string{filepath.Join(built, "remains"), "look", "2", "16", strconv.Itoa(mark)}, " ")
	feed := "for i in $(seq " + strconv.Itoa(times) + "); do sleep 0.1; echo; done | " + bin("xrun") + " --sim --name " + name + " -- " + line
	return w.start(name, "/bin/sh", "-c", feed)
}

// TestCase26BooksAreRightWhileMemoryMoves looks at the figures of two programs that do not
// fit together: at every moment what each has allocated is on the device or on the host,
// also that of which a tool of the driver knows nothing.
func TestCase26BooksAreRightWhileMemoryMoves(t *testing.T) {
	w, _ := memoryWorld(t, "128MiB", "--policy", "RR", "--memory-policy", "allocation")
	a, b := w.passes("a", 3, 10_000), w.passes("bb", 3, 10_000)
	a.progress()
	b.progress()
	const all = 3 * 32 << 20 // of each
	both, onHost := 0, 0     // looks that found both programs, and memory on the host
	begun := time.Now()
	for looks := 0; looks < 25 || onHost == 0 && time.Since(begun) < 20*time.Second; looks++ {
		m := w.memory()
		var resident uint64
		for _, r := range m.Processes {
			if r.Allocated < all {
				t.Fatalf("%s has allocated %d, want %d at least", r.Name, r.Allocated, all)
			}
			// The figures are read while they change: a batch under way may count twice.
			if sum := r.Resident + r.Host; sum > r.Allocated || sum+64<<20 < r.Allocated {
				t.Errorf("%s has allocated %d, and %d on the device and %d on the host", r.Name, r.Allocated, r.Resident, r.Host)
			}
			if r.Host > 0 {
				onHost++
			}
			resident += r.Resident
		}
		if len(m.Processes) == 2 {
			both++
		}
		for _, d := range m.Devices {
			if d.Resident > resident+64<<20 {
				t.Errorf("%d on the device, of which the programs have %d", d.Resident, resident)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if both == 0 || onHost == 0 {
		t.Errorf("%d looks found both programs, %d memory on the host: %+v", both, onHost, w.memory())
	}
}
