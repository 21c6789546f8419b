package experiment

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
)

// crowdAtOnce is how many clients start at a time: more would keep each other from
// being set up in time.
const crowdAtOnce = 16

// crowd starts the clients beyond the two that a decision is measured with. The
// first of them make edges once they are told to begin.
func (l *Lab) crowd(ctx context.Context, d Decision) ([]*Child, error) {
	n := d.Clients - 2
	pulsing := min(n, rateClients)
	all, errs := make([]*Child, n), make([]error, n)
	places := make(chan struct{}, crowdAtOnce)
	var wg sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			role := workloads.RoleIdle
			if i < pulsing && d.Rate > 0 {
				role = workloads.RolePulse
			}
			all[i], errs[i] = l.startCrowd(ctx, role, d.Rate/float64(max(pulsing, 1)))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		endAll(all)
		return nil, err
	}
	return all, nil
}

// startCrowd starts one of them; perS are the edges a second that it makes.
func (l *Lab) startCrowd(ctx context.Context, role workloads.Role, perS float64) (*Child, error) {
	args := []string{"client", "--role", string(role), "--uuid", decisionUUID, "--priority", "0"}
	if role == workloads.RolePulse {
		each := time.Duration(1e9 / perS)
		args = append(args, "--hold", each.String(), "--rest", each.String(), "--paced", "--edges", strconv.Itoa(maxCrowdEdges))
	}
	c, err := l.startClient("client", nil, args...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout, errors.New("the daemon did not answer in time"))
	defer cancel()
	if _, err := c.Await(ctx, workloads.KindReady); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

// maxCrowdEdges is more than a client makes in any run.
const maxCrowdEdges = 100_000

// endAll ends clients, at once: one after the other would take long.
func endAll(all []*Child) {
	var wg sync.WaitGroup
	for _, c := range all {
		if c != nil {
			wg.Go(c.Kill)
		}
	}
	wg.Wait()
}

// atRate reads the daemon's CPU time while the clients make edges.
func (l *Lab) atRate(ctx context.Context, d Decision, clients []*Child, into rows.Metrics) error {
	for _, c := range clients {
		if err := c.Begin(); err != nil {
			return err
		}
	}
	if err := pause(ctx, daemonSettles); err != nil {
		return err
	}
	from := workloads.MonotonicNS()
	busy, err := l.daemonLoad(ctx, d.Idle)
	if err != nil {
		return err
	}
	to := workloads.MonotonicNS()
	edges := 0
	for _, c := range clients {
		var r workloads.Event
		_ = c.stdin.Close() // its end makes it tell
		if err := result(ctx, c, &r); err != nil {
			return err
		}
		edges += within(r.StartNS, from, to) + within(r.EndNS, from, to)
	}
	into["daemon_busy_pct"] = busy
	into["edges_per_s"] = float64(edges) / time.Duration(to-from).Seconds()
	return nil
}

func within(times []int64, from, to int64) (n int) {
	for _, t := range times {
		if t >= from && t < to {
			n++
		}
	}
	return n
}
