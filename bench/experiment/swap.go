package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/memory"
)

// Ways of the row swap.
const (
	WayOurs       = "ours"
	WayPrefetch   = "prefetch"   // managed memory that the driver is told to move
	WayCheckpoint = "checkpoint" // the driver's own checkpoint of a process
)

// SwapWays lists them.
func SwapWays() []string { return []string{WayOurs, WayPrefetch, WayCheckpoint} }

// Swap is the experiment behind the row of that name: memory goes out of one process
// and into another at once, beside a third that computes.
type Swap struct {
	Sizes []memory.Bytes // that move each way
	Piece memory.Bytes   // of the programs; 0: as suits the device
	Times int            // swaps of each size that are measured, the cold ones not counted
	Ways  []string
	Level Level
	Mode  memory.Mode // how memory is planned under us
}

// Validate says what is wrong with the experiment.
func (s Swap) Validate() error {
	if len(s.Sizes) == 0 || len(s.Ways) == 0 {
		return errors.New("no size, or no way")
	}
	for _, b := range s.Sizes {
		if err := limit.Check("size", int64(b), int64(max(s.Piece, memory.MiB)), int64(memory.TiB)); err != nil {
			return err
		}
	}
	for _, w := range s.Ways {
		if !slices.Contains(SwapWays(), w) {
			return fmt.Errorf("way %q is none of %s", w, strings.Join(SwapWays(), ", "))
		}
	}
	return limit.First(
		limit.Check("times", s.Times, 1, 1000),
		limit.Check("piece", int64(s.Piece), 0, int64(8*memory.GiB)),
	)
}

// RunSwap measures. Ways that are not to be had here are left out, and the lab's note
// says why.
func (l *Lab) RunSwap(ctx context.Context, s Swap, report func(what string, done, total int)) ([]rows.Row, error) {
	report, err := l.prepare(s, report)
	if err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	report("swap: the link", 0, 1)
	link, err := l.link(ctx)
	if err != nil {
		return nil, err
	}
	perUS, err := l.Calibrate(ctx)
	if err != nil {
		return nil, err
	}
	var out []rows.Row
	for i, size := range s.Sizes {
		for _, way := range s.Ways {
			what := fmt.Sprintf("swap %s, %s", size, way)
			report(what, i, len(s.Sizes))
			row, err := l.swap(ctx, s, size, way, link, perUS, func(state string, n int) {
				report(fmt.Sprintf("%s: %s; %d swaps", what, state, n), i, len(s.Sizes))
			})
			if err != nil && ctx.Err() == nil && way != WayOurs {
				l.note((&SkippedError{Mode: "swap by " + way, Why: err}).Error())
				continue
			}
			if err != nil {
				return out, fmt.Errorf("swap of %s, %s: %w", size, way, err)
			}
			out = append(out, row)
		}
	}
	return out, nil
}

// swap measures one size in one way. Beside the driver's ways a program keeps the
// device busy; beside ours one of ours does, whose turn it is.
func (l *Lab) swap(ctx context.Context, s Swap, size memory.Bytes, way string, link linkRates, perUS float64, report func(what string, n int)) (rows.Row, error) {
	allowed := 2*setupTimeout + time.Duration(float64(s.Times+4)*float64(size)/0.5e9*float64(time.Second))
	ctx, cancel := context.WithTimeoutCause(ctx, allowed, fmt.Errorf("not done after %s", allowed.Round(time.Second)))
	defer cancel()
	if way != WayOurs {
		load, err := l.startBackground(0, perUS, Load{Programs: 1, KernelUS: 1000, InFlight: 16}, nil)
		if err != nil {
			return rows.Row{}, err
		}
		defer load.child.Kill()
		if _, err := load.child.Await(ctx, workloads.KindReady); err != nil {
			return rows.Row{}, err
		}
		if err := load.child.Begin(); err != nil {
			return rows.Row{}, err
		}
	}
	params := rows.Params{"gib": inGiB(float64(size)), "way": way}
	var m rows.Metrics
	var err error
	n, mode := s.Times, rows.ModeNative
	switch way {
	case WayPrefetch:
		m, err = l.swapByPrefetch(ctx, s, size)
	case WayCheckpoint:
		n = 1
		m, err = l.swapByCheckpoint(ctx, s, size)
	default:
		mode = rows.ModeXmsched
		params["memory_policy"] = s.Mode.String()
		m, n, err = l.swapByUs(ctx, s, size, link, params, report)
	}
	if err != nil {
		return rows.Row{}, err
	}
	m["link_out_gb_per_s"], m["link_in_gb_per_s"] = link.out/1e9, link.in/1e9
	if link.out > 0 && link.in > 0 {
		m["floor_ms"] = float64(size) / min(link.out, link.in) * 1e3
		m["out_of_link_pct"], m["in_of_link_pct"] = 100*m["out_gb_per_s"]/(link.out/1e9), 100*m["in_gb_per_s"]/(link.in/1e9)
	}
	return l.Row("swap", mode, n, params, m), nil
}

// swapByUs has two programs with memory and two with hardly any take turns, one of
// these after each of those. While it computes, the memory of the one that just ran
// goes out, and that of the next comes in. An observer sees it on their boards.
func (l *Lab) swapByUs(ctx context.Context, s Swap, size memory.Bytes, link linkRates, params rows.Params, report func(what string, n int)) (rows.Metrics, int, error) {
	// Each of the two has host memory of its own for all that it has, and half of what is
	// available may be taken.
	if have, err := l.growHost(ctx, 4*size, func(have memory.Bytes) { report(fmt.Sprintf("host memory, %s so far", have), 0) }); err != nil {
		return nil, 0, fmt.Errorf("host memory, of which %s is available: %w", have, err)
	}
	set := swapTurns(s, size, link)
	piece := l.pieceOf(s.Piece, size, 1)
	small := 4 * memory.MiB
	if err := l.managedDaemon(ctx, s.Level, "RR", size+2*small+max(4*smallEach, size/16), s.Mode); err != nil {
		return nil, 0, err
	}
	large := workloads.Touch{Pattern: workloads.PatternDense, Bytes: uint64(size / piece * piece), Piece: uint64(piece), Phase: 1, Rounds: 1}
	beside := workloads.Touch{Pattern: workloads.PatternDense, Bytes: uint64(small), Piece: uint64(small), Phase: 1, Rounds: 100}
	c, err := l.muster(ctx, []hungry{patterned{settings: large}, patterned{settings: beside, apart: large.Pieces()}}, 4, func(i int) way {
		slice := []time.Duration{set.short, set.long}[i%2]
		return &Under{Name: fmt.Sprintf("swap-%d", i+1), Level: s.Level, Hints: []string{"--slice", slice.String()}}
	})
	if err != nil {
		return nil, 0, err
	}
	defer c.kill()
	if err := l.awaitTasks(ctx, c.pids()...); err != nil {
		return nil, 0, err
	}
	args := []string{"memory-watch", "--uuid", l.Facts.UUID}
	var pids []int
	for i, pid := range c.pids() {
		if i%2 == 0 {
			pids, args = append(pids, pid), append(args, "--pid", strconv.Itoa(pid))
		}
	}
	observer, err := l.startWork("observer", nil, args...)
	if err != nil {
		return nil, 0, err
	}
	defer observer.Kill()
	if _, err := observer.Await(ctx, workloads.KindReady); err != nil {
		return nil, 0, err
	}
	if err := observer.Begin(); err != nil {
		return nil, 0, err
	}
	if err := c.begin(); err != nil {
		return nil, 0, err
	}
	if params["level"], err = l.effective(ctx, c.children[0].Pid(), s.Level); err != nil {
		return nil, 0, err
	}
	host, err := l.awaitSwaps(ctx, pids, set, report)
	if err != nil {
		return nil, 0, err
	}
	_ = observer.stdin.Close()
	var seen workloads.Event
	if err := result(ctx, observer, &seen); err != nil {
		return nil, 0, err
	}
	all, err := c.dismiss(ctx)
	if err != nil {
		return nil, 0, err
	}
	m, n, err := swapMetrics(seen.Moves, uint64(size))
	if err != nil {
		return nil, 0, fmt.Errorf("%w; %s", err, host)
	}
	for _, one := range all {
		m["wrong_count"] += float64(one.wrong)
		m["verified_count"] += float64(one.verified)
	}
	return m, n, nil
}

// swapByPrefetch has the driver send the managed memory of one program to the host,
// and that of another to the device, at once.
func (l *Lab) swapByPrefetch(ctx context.Context, s Swap, size memory.Bytes) (rows.Metrics, error) {
	var both []*Child
	defer func() { endAll(both) }()
	for _, out := range []bool{true, false} {
		args := []string{"prefetch", "--bytes", strconv.FormatInt(int64(size), 10), "--piece", strconv.FormatInt(int64(min(size, memory.GiB)), 10), "--together", strconv.FormatInt(int64(2*size), 10)}
		if out {
			args = append(args, "--out")
		}
		c, err := l.startWork("prefetch", nil, args...)
		if err != nil {
			return nil, err
		}
		both = append(both, c)
		if _, err := c.Await(ctx, workloads.KindReady); err != nil {
			return nil, err
		}
	}
	var outs, ins []float64
	for range s.Times {
		for _, open := range []bool{true, false} { // there, and back
			for _, c := range both {
				if err := c.TellGate(open); err != nil {
					return nil, err
				}
			}
			for _, c := range both {
				said, err := c.Await(ctx, workloads.KindGate)
				if err != nil {
					return nil, err
				}
				var e workloads.Event
				if err := said.Into(&e); err != nil {
					return nil, err
				}
				if !open {
					continue
				}
				if e.OutPerS > 0 {
					outs = append(outs, e.OutPerS/1e9)
				} else {
					ins = append(ins, e.InPerS/1e9)
				}
			}
		}
	}
	return rows.Metrics{"out_gb_per_s": median(outs), "in_gb_per_s": median(ins)}, nil
}

// swapByCheckpoint has the driver checkpoint a program that has the memory, and
// restore it.
func (l *Lab) swapByCheckpoint(ctx context.Context, s Swap, size memory.Bytes) (rows.Metrics, error) {
	piece := l.pieceOf(s.Piece, size, 1)
	t := workloads.Touch{Pattern: workloads.PatternRead, Bytes: uint64(size / piece * piece), Piece: uint64(piece), Phase: 1, Rounds: 1}
	c, err := l.muster(ctx, []hungry{patterned{settings: t}}, 1, func(int) way { return nil })
	if err != nil {
		return nil, err
	}
	defer c.kill()
	by, err := l.startWork("checkpoint", nil, "checkpoint", "--pid", strconv.Itoa(c.children[0].Pid()), "--bytes", strconv.FormatUint(t.Bytes, 10))
	if err != nil {
		return nil, err
	}
	defer by.Kill()
	var r workloads.Event
	if err := result(ctx, by, &r); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil { // it still works
		return nil, err
	}
	all, err := c.dismiss(ctx)
	if err != nil {
		return nil, err
	}
	return rows.Metrics{"out_gb_per_s": r.OutPerS / 1e9, "in_gb_per_s": r.InPerS / 1e9, "wrong_count": float64(all[0].wrong), "verified_count": float64(all[0].verified)}, nil
}
