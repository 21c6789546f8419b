package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
)

// Decision is the experiment behind the row of that name: how long it takes
// from a ready edge in one process until the gate word of another is closed.
// Both are clients of the daemon by the board alone, without a device; the one
// that waits reads its gate word without pause, so that no wake-up of its own
// is in the figure.
type Decision struct {
	Edges int           // ready edges
	Idle  time.Duration // span over which the daemon's CPU time is read while nothing changes
}

// RunDecision measures both.
func (l *Lab) RunDecision(ctx context.Context, d Decision, report func(what string, done, total int)) (rows.Row, []float64, error) {
	if d.Edges < 1 || d.Idle < time.Second {
		return rows.Row{}, nil, errors.New("decision: want at least 1 edge and 1 s of quiet")
	}
	if report == nil {
		report = func(string, int, int) {}
	}
	if err := l.Daemon(ctx); err != nil {
		return rows.Row{}, nil, err
	}
	defer l.StopDaemon()
	toggler, err := l.decisionClient(ctx, workloads.RoleToggle, 10, d.Edges, nil)
	if err != nil {
		return rows.Row{}, nil, err
	}
	defer toggler.Kill()
	watcher, err := l.decisionClient(ctx, workloads.RoleWatch, 0, d.Edges, func(e Event) {
		var gate workloads.Event
		if e.Kind == workloads.KindGate && e.Into(&gate) == nil {
			_ = toggler.TellGate(gate.Open) // a toggler that is gone is found out by its missing result
		}
	})
	if err != nil {
		return rows.Row{}, nil, err
	}
	defer watcher.Kill()

	report("the daemon while nothing changes", 0, 2)
	idlePct, err := l.daemonLoad(ctx, d.Idle)
	if err != nil {
		return rows.Row{}, nil, err
	}
	report("ready edges", 1, 2)
	us, err := l.edges(ctx, d.Edges, watcher, toggler)
	if err != nil {
		return rows.Row{}, nil, err
	}
	s, err := stats.Summarize(us)
	if err != nil {
		return rows.Row{}, nil, fmt.Errorf("decision: %w", err)
	}
	return l.Row("decision", rows.ModeXmsched, s.N, rows.Params{"clients": 2, "idle_s": d.Idle.Seconds()}, rows.Metrics{
		"p50_us": s.P50, "p90_us": s.P90, "p99_us": s.P99, "max_us": s.Max, "daemon_idle_pct": idlePct,
	}), us, nil
}

// decisionUUID is a device that no card has: the daemon opens none.
const decisionUUID = "GPU-786d7363-6865-6400-0000-6465636973ff"

func (l *Lab) decisionClient(ctx context.Context, role workloads.Role, priority, edges int, onEvent func(Event)) (*Child, error) {
	c, err := l.startClient(string(role), onEvent, "client", "--role", string(role), "--uuid", decisionUUID,
		"--priority", strconv.Itoa(priority), "--edges", strconv.Itoa(edges))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, daemonTimeout, errors.New("the daemon did not answer in time"))
	defer cancel()
	if _, err := c.Await(ctx, workloads.KindReady); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

// edges lets the toggler make its edges while the watcher notes when its gate
// closes, and pairs the two.
func (l *Lab) edges(ctx context.Context, n int, watcher, toggler *Child) ([]float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout+time.Duration(n)*10*time.Millisecond, errors.New("the edges did not end in time"))
	defer cancel()
	if err := watcher.Begin(); err != nil {
		return nil, err
	}
	if _, err := watcher.Await(ctx, workloads.KindGate); err != nil { // it looks
		return nil, err
	}
	if err := toggler.Begin(); err != nil {
		return nil, err
	}
	var ready, closed workloads.EdgeTimes
	if err := edgeTimes(ctx, toggler, &ready); err != nil {
		return nil, err
	}
	_ = watcher.stdin.Close() // its end makes it tell
	if err := edgeTimes(ctx, watcher, &closed); err != nil {
		return nil, err
	}
	return pairEdges(ready.AtNS, closed.AtNS)
}

func edgeTimes(ctx context.Context, c *Child, into *workloads.EdgeTimes) error {
	e, err := c.Await(ctx, workloads.KindResult)
	if err != nil {
		return err
	}
	return e.Into(into)
}

// pairEdges gives the time from each ready edge to the closing that follows it
// before the next edge. An edge without one is an error: a decision was missed.
func pairEdges(ready, closed []int64) ([]float64, error) {
	var us []float64
	j := 0
	for i, at := range ready {
		for j < len(closed) && closed[j] < at {
			j++
		}
		if j == len(closed) || (i+1 < len(ready) && closed[j] > ready[i+1]) {
			return nil, fmt.Errorf("decision: no gate was closed after ready edge %d of %d", i+1, len(ready))
		}
		us = append(us, float64(closed[j]-at)/1e3)
		j++
	}
	return us, nil
}

// daemonLoad gives the daemon's share of one core over the span, in per cent.
func (l *Lab) daemonLoad(ctx context.Context, span time.Duration) (float64, error) {
	begun := time.Now()
	before, err := cpuTime(l.DaemonPid())
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(span):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	after, err := cpuTime(l.DaemonPid())
	if err != nil {
		return 0, err
	}
	return 100 * (after - before).Seconds() / time.Since(begun).Seconds(), nil
}

// cpuTime reads the user and system time of a process. The unit of
// /proc/<pid>/stat is USER_HZ, which is 100 on every Linux that Go runs on; so
// the span must be some seconds for 0.1 % to show.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the daemon's CPU time: %w", err)
	}
	return parseCPUTime(b)
}

func parseCPUTime(stat []byte) (time.Duration, error) {
	// The command's name, in parentheses, may hold blanks and parentheses.
	i := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[i+1:])
	const utime, stime = 11, 12 // counted from the state, the first field after the name
	if i < 0 || len(fields) <= stime {
		return 0, errors.New("read CPU time: the line is too short")
	}
	total := 0
	for _, f := range [][]byte{fields[utime], fields[stime]} {
		ticks, err := strconv.Atoi(string(f))
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		total += ticks
	}
	return time.Duration(total) * 10 * time.Millisecond, nil
}
