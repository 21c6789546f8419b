package e2e

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCase37ManyStreams has a program with 2,000 streams, one with nearly as many
// as the board has slots, and one with more, launch on each in turn, in free run:
// nobody competes. It may take ten times as long as without us, though no stream ever
// has a second launch when it is asked what became of its first.
func TestCase37ManyStreams(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	first := w.spin("device", 0) // has the device started
	first.progress()
	first.end()
	for _, streams := range []int{2000, 4000, 5000} {
		program := []string{filepath.Join(built, "streams"), filepath.Join(built, "kernels.ptx"), strconv.Itoa(streams), "3"}
		plain := *w
		plain.env = append(append([]string{}, w.env...), "XMSCHED_SIM_SOCKET="+filepath.Join(w.dir, "sim.sock"), "LD_LIBRARY_PATH="+filepath.Join(built, "lib", "sim"))
		native := best(plain.start("native", program...))
		ours := best(w.xrun([]string{"--name", "many"}, program...))
		t.Logf("%d streams: %v natively, %v in free run", streams, native, ours)
		if ours > 10*native {
			t.Errorf("%d streams: %v in free run, more than ten times the %v without us", streams, ours, native)
		}
	}
}

// TestCase37QueuesBeyondTheBoardAreReported has a program use 5,000 streams and stay:
// those that share a slot are named.
func TestCase37QueuesBeyondTheBoardAreReported(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	w.xrun([]string{"--name", "many"}, "/bin/sh", "-c", "sleep 60 | exec "+filepath.Join(built, "streams")+" "+filepath.Join(built, "kernels.ptx")+" 5000 1")
	eventually(t, "905 queues without a slot of their own", func() bool {
		rows := w.list("many")
		return len(rows) == 1 && strings.Contains(rows[0].Why, "slot 0 shared by 905 queues")
	})
}

// best is the shortest of the times, in microseconds, that a program prints.
func best(p *proc) time.Duration {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Fatalf("%s has not ended after a minute", p.name)
	}
	if p.cmd.ProcessState.ExitCode() != 0 {
		p.t.Fatalf("%s: exit %d: %s", p.name, p.cmd.ProcessState.ExitCode(), p.said())
	}
	shortest := time.Duration(0)
	for {
		select {
		case line := <-p.lines:
			us, err := strconv.Atoi(line)
			if err != nil {
				p.t.Fatalf("%s printed %q", p.name, line)
			}
			if d := time.Duration(us) * time.Microsecond; shortest == 0 || d < shortest {
				shortest = d
			}
		default:
			if shortest == 0 {
				p.t.Fatalf("%s printed no time: %s", p.name, p.said())
			}
			return shortest
		}
	}
}
