package xserver_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// TestCase35FloodsCostTheFloodersAlone has several clients ring as fast as they can, of
// which each has a processor as its neighbours have. It compares with the same clients
// at the same work that ring nobody: the machine's own slowness falls out of the ratio.
func TestCase35FloodsCostTheFloodersAlone(t *testing.T) {
	const attempts, ratioLimit, most = 4, 5.0, 2
	dir := rundir(t)
	daemon := spawn(t, part{Role: "daemon", Dir: dir})
	c := dial(t, dir)
	low, high := honest(t, c)
	decide(t, low, high, 50) // warm
	measured := func(role string) (p90 time.Duration, cpu time.Duration) {
		var others []*child
		for range most {
			others = append(others, spawn(t, part{Role: role, Dir: dir}))
		}
		if role == "flood" {
			eventually(t, "throttling", func() bool { return throttled(t, c) == most })
		}
		before, begin := cpuOf(t, daemon.PID), time.Now()
		took := decide(t, low, high, 200)
		cpu = (cpuOf(t, daemon.PID) - before) * time.Second / time.Since(begin)
		for _, o := range others {
			o.kill()
		}
		eventually(t, "them to be gone", func() bool { return len(list(t, c)) == 2 })
		return took[len(took)*9/10], cpu
	}
	for try := 1; ; try++ {
		quiet, _ := measured("burn")
		flooded, cpu := measured("flood")
		ratio := float64(flooded) / float64(quiet)
		t.Logf("decisions beside %d busy processes: P90 %v; beside %d that flood: P90 %v, %.1f times that; the daemon takes %v of a second",
			most, quiet, most, flooded, ratio, cpu.Round(time.Millisecond))
		// The time of the daemon is that of the honest ones as well, who ask without a pause.
		if ratio < ratioLimit && cpu < 400*time.Millisecond {
			return
		}
		if try == attempts {
			t.Fatalf("in none of %d attempts were the others as well served as without the flood (limit %v times, 0.4 s of a second)", attempts, ratioLimit)
		}
	}
}

func throttled(t *testing.T, c *client.Client) (n int) {
	t.Helper()
	for _, task := range list(t, c) {
		if slices.ContainsFunc(task.Processes, func(p *xserverv1.Process) bool { return p.Throttled }) {
			n++
		}
	}
	return n
}

// cpuOf is the processor time that a process has taken.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, tick = 11, 12, 10 * time.Millisecond // places after the name; USER_HZ is 100
	var ticks time.Duration
	for _, f := range []string{fields[user], fields[system]} {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * tick
}
