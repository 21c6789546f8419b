package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
)

// P99 is the experiment behind the row of that name: the latency of requests
// alone, beside a load without us, and under xmsched.
type P99 struct {
	Requests Requests // Count is the total of each mode, over all rounds
	Load     Load
	Rounds   int      // every round measures every mode once: what drifts, drifts for all
	Modes    []string // subset of alone, native, mps, xmsched; alone comes first
	Levels   []Level  // of the backgrounds in the mode xmsched, which is measured once for each
}

// Validate says what is wrong with the experiment.
func (p P99) Validate() error {
	if err := limit.First(p.Requests.Validate(), p.Load.Validate(), limit.Check("rounds", p.Rounds, 1, maxRounds)); err != nil {
		return err
	}
	if p.Requests.Count < p.Rounds {
		return fmt.Errorf("%d requests do not fill %d rounds", p.Requests.Count, p.Rounds)
	}
	if len(p.Modes) == 0 {
		return errors.New("no modes")
	}
	for _, m := range p.Modes {
		if !slices.Contains(pairModes, m) {
			return fmt.Errorf("mode %q is none of %s", m, strings.Join(pairModes, ", "))
		}
	}
	if len(p.Levels) == 0 && slices.Contains(p.Modes, rows.ModeXmsched) {
		return errors.New("no level")
	}
	return nil
}

// pairModes are the modes in which Pair runs.
var pairModes = []string{rows.ModeAlone, rows.ModeNative, rows.ModeMPS, rows.ModeXmsched}

// variant is a mode with the level that it is measured at.
type variant struct {
	mode  string
	level Level
}

func (v variant) String() string {
	if v.mode == rows.ModeXmsched {
		return fmt.Sprintf("%s level %s", v.mode, v.level)
	}
	return v.mode
}

func (p P99) variants() []variant {
	var out []variant
	for _, m := range p.Modes {
		if m != rows.ModeXmsched {
			out = append(out, variant{mode: m})
			continue
		}
		for _, l := range p.Levels {
			out = append(out, variant{mode: m, level: l})
		}
	}
	return out
}

// P99Result is a row with the samples behind it.
type P99Result struct {
	Row       rows.Row
	Name      string // of the variant, for a legend
	LatencyUS []float64
}

// collected is what all rounds of a variant gave.
type collected struct {
	latency []float64
	gated   []float64
	idle    []float64 // the load's kernels per second while the requests' program was idle
	kernels float64   // of the load, beside the requests
	wall    time.Duration
	level   int // in force
}

func (c *collected) add(mode string, burst int, r PairResult) {
	c.latency = append(c.latency, r.LatencyUS...)
	c.gated = append(c.gated, r.gated(mode, burst)...)
	if r.IdlePerS > 0 {
		c.idle = append(c.idle, r.IdlePerS)
	}
	c.kernels += r.BackgroundPerS * r.Wall.Seconds()
	c.wall += r.Wall
	c.level = r.Level
}

func (c *collected) perS() float64 { return c.kernels / c.wall.Seconds() }

// RunP99 measures. report, if set, is told what is being run and how far it is;
// it is called from other goroutines too, one call at a time a run. A mode that is
// not to be had here is left out, and the lab's note says why.
func (l *Lab) RunP99(ctx context.Context, p P99, report func(what string, done, total int)) ([]P99Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if slices.Contains(p.Modes, rows.ModeXmsched) {
		if err := l.Places.Complete(); err != nil {
			return nil, err
		}
	}
	if report == nil {
		report = func(string, int, int) {}
	}
	defer l.stopMPS()
	loadPerS := 0.0 // of the load alone
	if p.Load.Idle > 0 && !p.Load.long() {
		report("background alone", 0, 1)
		var err error
		if loadPerS, err = l.LoadAlone(ctx, p.Load, p.Load.Idle); err != nil {
			return nil, fmt.Errorf("background alone: %w", err)
		}
	}
	all := map[variant]*collected{}
	skipped := map[string]bool{}
	for round := range p.Rounds {
		req := p.Requests
		req.Count = p.Requests.Count*(round+1)/p.Rounds - p.Requests.Count*round/p.Rounds
		for _, v := range p.variants() {
			if skipped[v.mode] {
				continue
			}
			what := fmt.Sprintf("%s, round %d of %d", v, round+1, p.Rounds)
			load := p.Load
			load.Level = v.level
			r, err := l.Pair(ctx, v.mode, req, load, func(done int) { report(what, done, req.Count) })
			// Each variant has a daemon of its own, and the others none.
			l.StopDaemon()
			if skip := (*SkippedError)(nil); errors.As(err, &skip) {
				l.note(skip.Error())
				skipped[v.mode] = true
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
			if all[v] == nil {
				all[v] = &collected{}
			}
			all[v].add(v.mode, req.Burst, r)
		}
	}
	return l.p99Rows(p, all, loadPerS)
}

func (l *Lab) p99Rows(p P99, all map[variant]*collected, loadPerS float64) ([]P99Result, error) {
	var out []P99Result
	base := reference{loadPerS: loadPerS}
	for _, v := range p.variants() {
		c := all[v]
		if c == nil {
			continue // left out
		}
		s, err := stats.Summarize(c.latency)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
		metrics := rows.Metrics{"n": float64(s.N), "p50_us": s.P50, "p90_us": s.P90, "p99_us": s.P99, "max_us": s.Max}
		base.latency(v.mode, s, metrics)
		base.gated(v.mode, c.gated, metrics)
		if !p.Load.long() {
			base.background(v.mode, c, metrics)
		}
		out = append(out, P99Result{Row: l.Row("p99", v.mode, s.N, p.params(v.mode, c.level), metrics), Name: v.String(), LatencyUS: c.latency})
	}
	return out, nil
}

// reference is what earlier variants of a run gave and later ones are compared
// with; 0 is unknown.
type reference struct {
	alone      stats.Summary
	aloneGated float64
	loadPerS   float64 // the load alone
	nativePerS float64 // the load beside the requests without us
}

func (b *reference) latency(mode string, s stats.Summary, into rows.Metrics) {
	if mode == rows.ModeAlone {
		b.alone = s
	}
	if b.alone.P99 > 0 {
		into["p99_ratio"] = s.P99 / b.alone.P99
		into["p99_over_us"] = s.P99 - b.alone.P99
	}
}

func (b *reference) gated(mode string, latency []float64, into rows.Metrics) {
	g, err := stats.Summarize(latency)
	if err != nil {
		return // there were none
	}
	if mode == rows.ModeAlone {
		b.aloneGated = g.P99
		return
	}
	into["gated_count"] = float64(g.N)
	into["gated_p50_us"], into["gated_p99_us"] = g.P50, g.P99
	if b.aloneGated > 0 {
		into["gated_p99_ratio"] = g.P99 / b.aloneGated
	}
}

// background says what the load got: a second, of what it gets alone and of what
// it gets without us, and what it lost for each request beyond the time that the
// request needs alone.
func (b *reference) background(mode string, c *collected, into rows.Metrics) {
	perS := c.perS()
	into["background_per_s"] = perS
	if mode == rows.ModeAlone {
		return
	}
	if mode == rows.ModeNative {
		b.nativePerS = perS
	}
	if b.nativePerS > 0 {
		into["background_native_ratio"] = perS / b.nativePerS
	}
	if b.loadPerS == 0 {
		return
	}
	into["background_alone_ratio"] = perS / b.loadPerS
	if b.alone.P50 > 0 {
		lost := c.wall.Seconds() * 1e6 * (1 - perS/b.loadPerS)
		into["background_lost_us"] = lost/float64(len(c.latency)) - b.alone.P50
	}
	if len(c.idle) > 0 {
		into["background_idle_ratio"] = mean(c.idle) / b.loadPerS
	}
}

// params of a row; level is that in force in the mode xmsched.
func (p P99) params(mode string, level int) rows.Params {
	params := rows.Params{
		"request_us": p.Requests.RequestUS, "background_us": p.Load.KernelUS, "backgrounds": p.Load.Programs,
		"in_flight": p.Load.InFlight, "gap_us": p.Requests.GapUS,
	}
	if p.Requests.Burst > 0 {
		params["burst"], params["pause_us"] = p.Requests.Burst, p.Requests.PauseUS
	}
	if mode == rows.ModeXmsched {
		params["level"] = level
		params["priority"], params["background_priority"] = p.Requests.Priority, p.Load.Priority
		if p.Load.Threshold > 0 {
			params["threshold"] = p.Load.Threshold
		}
		if p.Load.Batch > 0 {
			params["batch"] = p.Load.Batch
		}
	}
	return params
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(len(v), 1))
}
