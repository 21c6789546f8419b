package plane

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/compute"
	"xmsched/preempt/board"
)

// BenchmarkLoopEdges is what an edge costs the loop's thread of processor time, all
// system calls and both ends of its sleep included, where 50 of so many processes ring
// 100 us one after the other; where nobody's gate depends on them, and where those of
// one who never has work do.
func BenchmarkLoopEdges(b *testing.B) {
	for _, clients := range []int{51, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) { benchLoopEdges(b, clients, false) })
		b.Run(fmt.Sprintf("clients=%d/heeded", clients), func(b *testing.B) { benchLoopEdges(b, clients, true) })
	}
}

func benchLoopEdges(b *testing.B, clients int, heeded bool) {
	l, err := NewLoop(New(Config{}, compute.HPF()), func(ProcessID) {})
	if err != nil {
		b.Fatal(err)
	}
	l.Run()
	defer l.Stop()
	var bells []int
	var sections []board.Device
	for i := range clients {
		a := benchAttachment(b, i)
		if heeded && i == clients-1 {
			a.Hints.Priority = -1
		}
		if err := l.Add(a); err != nil {
			b.Fatal(err)
		}
		bells, sections = append(bells, a.Bell), append(sections, a.Board.Device(0))
	}
	used := func() (t time.Duration) {
		if err := l.call(func() { t = threadTime() }); err != nil {
			b.Fatal(err)
		}
		return t
	}
	before, edges := used(), 0
	one := [8]byte{0: 1}
	for b.Loop() {
		i := edges % 50
		sections[i].SetReady(edges/50%2 == 0)
		_, _ = unix.Write(bells[i], one[:])
		edges++
		pause := unix.Timespec{Nsec: 40_000} // and the slack of it: some 100 us
		_ = unix.Nanosleep(&pause, nil)
	}
	b.ReportMetric(float64((used()-before).Nanoseconds())/float64(edges), "cpu-ns/edge")
}

func benchAttachment(b testing.TB, i int) Attachment {
	page, err := board.Create(1, 1)
	if err != nil {
		b.Fatal(err)
	}
	page.Device(0).Claim(testGPU)
	fd := func() int {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			b.Fatal(err)
		}
		return fd
	}
	return Attachment{
		Process: Process{ID: ProcessID(i + 1), Task: compute.TaskID(i + 1), Board: page},
		Bell:    fd(), Death: -1, Socket: fd(),
	}
}

// threadTime is the calling thread's processor time.
func threadTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCrowdEdge is the part of it that is no system call: what the plane does for an
// edge of one of 50, of so many processes with boards of their own, where memory is managed,
// as it is by default, and there is room for all.
func BenchmarkCrowdEdge(b *testing.B) {
	for _, clients := range []int{50, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			p := New(Config{Memory: &Memory{Budget: 1 << 40}}, compute.HPF())
			var sections []board.Device
			for i := range clients {
				a := benchAttachment(b, i)
				_, _ = unix.Close(a.Bell), unix.Close(a.Socket)
				p.Begin(0)
				p.Add(a.Process)
				p.Finish()
				sections = append(sections, a.Board.Device(0))
				defer a.Board.Close()
			}
			now, edges := time.Duration(0), 0
			b.ReportAllocs()
			for b.Loop() {
				i := edges % 50
				sections[i].SetReady(edges/50%2 == 0)
				now += 100 * time.Microsecond
				p.Begin(now)
				p.Edge(ProcessID(i + 1))
				for p.Finish() <= now { //nolint:revive // a heartbeat takes several turns
				}
				edges++
			}
		})
	}
}
