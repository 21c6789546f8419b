package experiment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
)

// Decision is the experiment behind the row of that name: how long it takes
// from a ready edge in one process until the gate word of another is closed.
// Both are clients of the daemon by the board alone, without a device; the one
// that waits reads its gate word without pause, so that no wake-up of its own
// is in the figure. The same run measures the floor: how long the kernel takes
// to wake a process that is blocked as the daemon is, with the same pauses.
//
// Further clients, each a task and a process of its own, are registered and idle;
// in the end they make edges at a given rate together, while the daemon's CPU time
// is read.
type Decision struct {
	Edges   int           // ready edges
	Idle    time.Duration // span over which the daemon's CPU time is read while nothing changes
	Clients int           // registered tasks, the two included
	Spin    time.Duration // for which the daemon looks after an edge before it sleeps
	Rate    float64       // edges a second, ready and idle ones, that the further clients make together; 0: none
}

// daemonSettles is what passes after a change before the daemon's CPU time is read.
const daemonSettles = 500 * time.Millisecond

// rateClients is how many of the further clients make edges.
const rateClients = 50

// Validate says what is wrong with the experiment.
func (d Decision) Validate() error {
	return limit.First(
		limit.Check("edges", d.Edges, 1, 100_000),
		limit.Check("idle", d.Idle, time.Second, 10*time.Minute),
		limit.Check("clients", d.Clients, 2, 4096),
		limit.Check("spin", d.Spin, 0, time.Second),
		limit.Check("edges-per-s", d.Rate, 0, 1e6),
	)
}

// RunDecision measures both.
func (l *Lab) RunDecision(ctx context.Context, d Decision, report func(what string, done, total int)) (rows.Row, []float64, error) {
	if err := d.Validate(); err != nil {
		return rows.Row{}, nil, err
	}
	if report == nil {
		report = func(string, int, int) {}
	}
	if err := l.startDaemon(ctx, "--spin", d.Spin.String()); err != nil {
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
	others, err := l.crowd(ctx, d)
	if err != nil {
		return rows.Row{}, nil, err
	}
	defer endAll(others)

	report("the daemon while nothing changes", 0, 3)
	// That many clients came is no part of idling, nor what it leaves to do: the journal,
	// garbage.
	if err := pause(ctx, daemonSettles); err != nil {
		return rows.Row{}, nil, err
	}
	idlePct, err := l.daemonLoad(ctx, d.Idle)
	if err != nil {
		return rows.Row{}, nil, err
	}
	// The watcher looks from here on: what it costs the machine that a core is
	// busy (or spares it, since that core does not sleep) is in both figures.
	if err := watcher.Begin(); err != nil {
		return rows.Row{}, nil, err
	}
	if err := looking(ctx, watcher); err != nil {
		return rows.Row{}, nil, err
	}
	report("the floor: waking a process", 1, 3)
	floor, err := l.wakes(ctx, d.Edges)
	if err != nil {
		return rows.Row{}, nil, err
	}
	f, err := stats.Summarize(floor)
	if err != nil {
		return rows.Row{}, nil, fmt.Errorf("decision: %w", err)
	}
	report("ready edges", 2, 3)
	us, err := l.edges(ctx, d.Edges, watcher, toggler)
	if err != nil {
		return rows.Row{}, nil, fmt.Errorf("decision: %w", err)
	}
	s, err := stats.Summarize(us)
	if err != nil {
		return rows.Row{}, nil, fmt.Errorf("decision: %w", err)
	}
	params := rows.Params{"clients": d.Clients, "idle_s": d.Idle.Seconds()}
	if d.Spin > 0 {
		params["spin_us"] = float64(d.Spin) / float64(time.Microsecond)
	}
	metrics := rows.Metrics{
		"p50_us": s.P50, "p90_us": s.P90, "p99_us": s.P99, "max_us": s.Max, "daemon_idle_pct": idlePct,
		"floor_p50_us": f.P50, "floor_p99_us": f.P99,
	}
	if d.Rate > 0 && len(others) > 0 {
		report("edges at a rate", 2, 3)
		params["edges_per_s"] = d.Rate
		if err := l.atRate(ctx, d, others[:min(len(others), rateClients)], metrics); err != nil {
			return rows.Row{}, nil, fmt.Errorf("decision, edges at a rate: %w", err)
		}
	}
	return l.Row("decision", rows.ModeXmsched, s.N, params, metrics), us, nil
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

// looking waits for a watcher's first look.
func looking(ctx context.Context, watcher *Child) error {
	ctx, cancel := context.WithTimeoutCause(ctx, daemonTimeout, errors.New("it did not look at its gate in time"))
	defer cancel()
	_, err := watcher.Await(ctx, workloads.KindGate)
	return err
}

func edgeTimes(ctx context.Context, c *Child, into *workloads.EdgeTimes) error {
	e, err := c.Await(ctx, workloads.KindResult)
	if err != nil {
		return err
	}
	return e.Into(into)
}

// pairEdges gives the time from each edge to the answer that follows it before
// the next edge. An edge without one is an error: it was missed.
func pairEdges(ready, closed []int64) ([]float64, error) {
	var us []float64
	j := 0
	for i, at := range ready {
		for j < len(closed) && closed[j] < at {
			j++
		}
		if j == len(closed) || (i+1 < len(ready) && closed[j] > ready[i+1]) {
			return nil, fmt.Errorf("edge %d of %d was not answered", i+1, len(ready))
		}
		us = append(us, float64(closed[j]-at)/1e3)
		j++
	}
	return us, nil
}
