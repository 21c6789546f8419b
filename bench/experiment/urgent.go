package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
	"xmsched/memory"
)

// Urgent is the experiment behind the row of that name: requests of a higher class
// that read much memory, in bursts, beside backgrounds with which they do not fit the
// device together. Without us this does not run at all.
type Urgent struct {
	Budget      memory.Bytes // 0: what the device has
	Foreground  memory.Bytes // that each request reads
	Backgrounds []memory.Bytes
	Piece       memory.Bytes  // that a kernel goes over; 0: as suits the device
	Period      time.Duration // between two requests of a burst
	Burst       int
	Pause       time.Duration // between two bursts
	Span        time.Duration
	Policies    []string
	Level       Level
}

// Validate says what is wrong with the experiment.
func (u Urgent) Validate() error {
	if len(u.Backgrounds) == 0 || len(u.Policies) == 0 {
		return errors.New("no background, or no policy")
	}
	for _, b := range append([]memory.Bytes{u.Foreground}, u.Backgrounds...) {
		if err := limit.Check("memory of a program", int64(b), int64(max(u.Piece, memory.MiB)), int64(memory.TiB)); err != nil {
			return err
		}
	}
	for _, p := range u.Policies {
		if _, err := memory.ModeByName(p); err != nil {
			return err
		}
	}
	return limit.First(
		limit.Check("piece", int64(u.Piece), 0, int64(8*memory.GiB)),
		limit.Check("period", u.Period, time.Millisecond, time.Minute),
		limit.Check("burst", u.Burst, 1, 10_000),
		limit.Check("pause", u.Pause, 0, time.Minute),
		limit.Check("span", u.Span, 100*time.Millisecond, 10*time.Minute),
	)
}

// urgentPriority is that of the requests' task; the backgrounds' is 0.
const urgentPriority = 10

// programs are the requests and the backgrounds.
func (u Urgent) programs() []patterned {
	all := []patterned{{settings: workloads.Touch{
		Pattern: workloads.PatternRead, Bytes: uint64(u.Foreground / u.Piece * u.Piece), Piece: uint64(u.Piece), Phase: 1, Rounds: 1,
		Period: u.Period, Burst: u.Burst, Pause: u.Pause,
	}}}
	for _, b := range u.Backgrounds {
		all = append(all, patterned{settings: workloads.Touch{Pattern: workloads.PatternDense, Bytes: uint64(b / u.Piece * u.Piece), Piece: uint64(u.Piece), Phase: 1, Rounds: 1}})
	}
	most := 0
	for _, p := range all {
		most = max(most, p.settings.Pieces())
	}
	for i := range all {
		all[i].apart = most
	}
	return all
}

// urgentRun is what one run gave.
type urgentRun struct {
	latency         []float64 // us
	background      []float64 // steps a second of each
	wrong, verified float64
}

// RunUrgent measures: each program alone without us, then all under each policy.
func (l *Lab) RunUrgent(ctx context.Context, u Urgent, report func(what string, done, total int)) ([]rows.Row, error) {
	report, err := l.prepare(u, report)
	if err != nil {
		return nil, err
	}
	u.Piece = l.pieceOf(u.Piece, min(u.Foreground, slices.Min(u.Backgrounds)), 1)
	defer l.StopDaemon()
	report("urgent, alone", 0, 1)
	alone, err := l.urgentAlone(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("urgent alone: %w", err)
	}
	base, err := stats.Summarize(alone.latency)
	if err != nil {
		return nil, fmt.Errorf("urgent alone: %w", err)
	}
	params := rows.Params{"foreground_gib": inGiB(float64(u.Foreground)), "background_gib": sizesInGiB(u.Backgrounds), "period_ms": u.Period.Seconds() * 1e3}
	out := []rows.Row{l.Row("urgent", rows.ModeAlone, base.N, params, rows.Metrics{"p50_us": base.P50, "p99_us": base.P99, "wrong_count": alone.wrong, "verified_count": alone.verified})}
	for i, policy := range u.Policies {
		report("urgent, "+policy, i, len(u.Policies))
		row, err := l.urgentUnder(ctx, u, policy, alone, base)
		if err != nil {
			return out, fmt.Errorf("urgent %s: %w", policy, err)
		}
		out = append(out, row)
	}
	compareUrgent(out)
	return out, nil
}

// sizesInGiB lists sizes as "110+30".
func sizesInGiB(sizes []memory.Bytes) (text string) {
	for i, b := range sizes {
		if i > 0 {
			text += "+"
		}
		text += number(inGiB(float64(b)))
	}
	return text
}

// compareUrgent says of each policy's row what it makes of that of swap.
func compareUrgent(measured []rows.Row) {
	for _, other := range measured {
		if other.Params["policy"] != memory.Swap.String() {
			continue
		}
		for _, r := range measured {
			if r.Mode != rows.ModeXmsched || r.Params["policy"] == other.Params["policy"] {
				continue
			}
			r.Metrics["p99_over_swap_ratio"] = r.Metrics["p99_us"] / other.Metrics["p99_us"]
			if b := other.Metrics["background_pct"]; b > 0 {
				r.Metrics["background_over_swap_ratio"] = r.Metrics["background_pct"] / b
			}
		}
	}
}

// urgentAlone runs each program by itself.
func (l *Lab) urgentAlone(ctx context.Context, u Urgent) (out urgentRun, err error) {
	for i, kind := range u.programs() {
		span := u.Span
		if i > 0 {
			span = min(span, 3*time.Second)
		}
		one, err := l.urgentRun(ctx, u, []patterned{kind}, i == 0, span, func(int) way { return nil }, nil)
		if err != nil {
			return out, err
		}
		out.latency = append(out.latency, one.latency...)
		out.background = append(out.background, one.background...)
		out.wrong, out.verified = out.wrong+one.wrong, out.verified+one.verified
	}
	return out, nil
}

func (l *Lab) urgentUnder(ctx context.Context, u Urgent, policy string, alone urgentRun, base stats.Summary) (rows.Row, error) {
	mode, err := memory.ModeByName(policy)
	if err != nil {
		return rows.Row{}, err
	}
	defer l.StopDaemon()
	if err := l.managedDaemon(ctx, u.Level, "HPF", u.Budget, mode); err != nil {
		return rows.Row{}, err
	}
	level, host := 0, memory.Bytes(0)
	var before, after figures
	got, err := l.urgentRun(ctx, u, u.programs(), true, u.Span, func(i int) way {
		w := &Under{Name: fmt.Sprintf("background-%d", i), Level: u.Level}
		if i == 0 {
			w.Name, w.Priority = "urgent", urgentPriority
		}
		return w
	}, func(c *crew, at moment) error {
		switch at {
		case havingMemory:
			host, err = l.awaitHost(ctx)
			return err
		case ended:
			after, err = l.memoryFigures(ctx)
			return err
		}
		if err := l.awaitTasks(ctx, c.pids()...); err != nil {
			return err
		}
		if level, err = l.effective(ctx, c.children[1].Pid(), u.Level); err != nil {
			return err
		}
		before, err = l.memoryFigures(ctx)
		return err
	})
	if err != nil {
		return rows.Row{}, err
	}
	s, err := stats.Summarize(got.latency)
	if err != nil {
		return rows.Row{}, err
	}
	share := 0.0
	for i, perS := range got.background {
		share += 100 * perS / alone.background[i]
	}
	moved := float64(after.in-before.in) + float64(after.out-before.out)
	params := rows.Params{
		"foreground_gib": inGiB(float64(u.Foreground)), "background_gib": sizesInGiB(u.Backgrounds), "budget_gib": inGiB(float64(after.budget)),
		"period_ms": u.Period.Seconds() * 1e3, "policy": policy, "level": level,
	}
	return l.Row("urgent", rows.ModeXmsched, s.N, params, rows.Metrics{
		"p50_us": s.P50, "p90_us": s.P90, "p99_us": s.P99, "max_us": s.Max, "p99_ratio": s.P99 / base.P99, "p50_ratio": s.P50 / base.P50,
		"background_pct": share, "moved_gib": moved / float64(memory.GiB), "host_gib": inGiB(float64(host)), "wrong_count": got.wrong, "verified_count": got.verified,
	}), nil
}

// moment is one of a run: when all programs have their memory, when they have begun, and
// at the end.
type moment int

const (
	havingMemory moment = iota
	begun
	ended
)

// urgentRun runs programs, the first of them the requests if it is told so, and reads
// what they did in the span. look is called at each moment.
func (l *Lab) urgentRun(ctx context.Context, u Urgent, kinds []patterned, requests bool, span time.Duration, ways func(int) way, look func(*crew, moment) error) (out urgentRun, err error) {
	sum := memory.Bytes(0)
	for _, k := range kinds {
		sum += memory.Bytes(k.settings.Bytes)
	}
	if look == nil {
		look = func(*crew, moment) error { return nil }
	}
	allowed := 2*setupTimeout + hostMadeWithin + 4*span + time.Duration(2*float64(sum)/1e9*float64(time.Second))
	ctx, cancel := context.WithTimeoutCause(ctx, allowed, fmt.Errorf("not done after %s", allowed.Round(time.Second)))
	defer cancel()
	c := &crew{}
	defer func() { c.kill() }()
	for i, kind := range kinds { // one after the other: all of each is on the device before the next comes
		child, err := kind.start(l, i, ways(i))
		if err != nil {
			return out, err
		}
		c.children, c.programs = append(c.children, child), append(c.programs, kind)
		if _, err := child.Await(ctx, kind.ready()); err != nil {
			return out, err
		}
	}
	if err := look(c, havingMemory); err != nil {
		return out, err
	}
	if err := c.begin(); err != nil {
		return out, err
	}
	if err := look(c, begun); err != nil {
		return out, err
	}
	from := workloads.MonotonicNS()
	if err := pause(ctx, span); err != nil {
		return out, err
	}
	to := workloads.MonotonicNS()
	if err := look(c, ended); err != nil {
		return out, err
	}
	for _, child := range c.children {
		_ = child.stdin.Close()
	}
	for i, child := range c.children {
		e, err := child.Await(ctx, workloads.KindResult)
		if err != nil {
			return out, err
		}
		done, err := kinds[i].course(e)
		if err != nil {
			return out, err
		}
		if err := child.Finish(ctx); err != nil {
			return out, err
		}
		out.wrong, out.verified = out.wrong+float64(done.wrong), out.verified+float64(done.verified)
		if i > 0 || !requests {
			out.background = append(out.background, done.perS(from, to))
			continue
		}
		var r workloads.Event
		if err := e.Into(&r); err != nil {
			return out, err
		}
		out.latency = r.LatencyUS
	}
	return out, nil
}
