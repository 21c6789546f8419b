package xserver_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"xmsched/xserver/client"
)

// TestCase32FloodsCostTheFloodersAlone has several clients ring as fast as they can.
// What they may cost the others is the daemon's time, and that is a matter of how often
// it wakes for them: so wake-ups are counted, which a busy machine only makes fewer.
func TestCase32FloodsCostTheFloodersAlone(t *testing.T) {
	const most, decisions = 2, 300
	dir := rundir(t)
	daemon := spawn(t, part{Role: "daemon", Dir: dir})
	c := dial(t, dir)
	low, high := honest(t, c)
	measured := func(role string) (edges uint64, span time.Duration) {
		var others []*child
		for range most {
			others = append(others, spawn(t, part{Role: role, Dir: dir}))
		}
		if role == "flood" {
			awaitFlood(t, c)
		}
		before, cpu, begin := edgesOf(t, c), cpuOf(t, daemon.PID), time.Now()
		took := decide(t, low, high, decisions)
		if rest := time.Second/2 - time.Since(begin); rest > 0 {
			time.Sleep(rest) // a span of many of the daemon's windows
		}
		edges, cpu = edgesOf(t, c)-before, cpuOf(t, daemon.PID)-cpu
		span = time.Since(begin)
		t.Logf("beside %d of role %s: decisions: median %v, P90 %v; in %v %d wake-ups and %v of processor time of the daemon",
			most, role, took[len(took)/2], took[len(took)*9/10], span.Round(time.Millisecond), edges, cpu)
		for _, o := range others {
			o.kill()
		}
		eventually(t, "them to be gone", func() bool { return len(list(t, c)) == 2 })
		return edges, span
	}
	quiet, _ := measured("burn")
	if quiet < decisions || quiet > 20*decisions { // the honest ones ring a few times in each
		t.Errorf("%d wake-ups for %d decisions beside processes that ring nobody", quiet, decisions)
	}
	// After 64 rings the daemon is deaf to a process for 10 ms. Unheeded, two that flood
	// wake it some 100,000 times a second.
	const each = 64 * 100
	flooded, span := measured("flood")
	if limit := float64(3*quiet) + most*each*span.Seconds(); float64(flooded) > limit {
		t.Errorf("%d wake-ups in %v beside %d that flood, limit %.0f", flooded, span, most, limit)
	}
}

// edgesOf is how often clients woke the daemon.
func edgesOf(t *testing.T, c *client.Client) uint64 {
	t.Helper()
	s, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Edges
}

// awaitFlood waits until the daemon was woken more often than those who are honest and
// idle do it. What it does against a flood is its own affair: it throttles who rings, or
// hears it once a millisecond.
func awaitFlood(t *testing.T, c *client.Client) {
	t.Helper()
	const rings = 100
	before := edgesOf(t, c)
	eventually(t, "a flood", func() bool { return edgesOf(t, c) >= before+rings })
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
