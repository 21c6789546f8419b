package experiment

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/memory"
)

// setupTime bounds how long programs may take to have their memory: what is beyond
// the budget is pinned at some 3 GB/s, and PyTorch loads for a minute.
func (r *oversubscribed) setupTime(g group) time.Duration {
	d := setupTimeout + time.Duration(float64(g.tasks)*float64(r.o.Task)/1e9*float64(time.Second))
	if torchWorkload(g.workload) {
		d += pytorchTimeout
	}
	return d
}

// limited bounds everything that is done with a group: a hang, not a measurement.
func (r *oversubscribed) limited(ctx context.Context, g group, measuring time.Duration) (context.Context, context.CancelFunc) {
	limit := 2*r.setupTime(g) + 3*measuring
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s not done after %s", g.workload, limit.Round(time.Second)))
}

// measureAlone measures each kind of program by itself, once a workload.
func (r *oversubscribed) measureAlone(ctx context.Context, g group) error {
	if len(r.alone[g.workload]) > 0 {
		return nil
	}
	kinds, err := r.kinds(g)
	if err != nil {
		return err
	}
	ctx, cancel := r.limited(ctx, g, r.o.Span)
	defer cancel()
	for i, kind := range kinds {
		r.report(r.what(g, "alone"), i, len(kinds))
		c, err := r.lab.muster(ctx, []hungry{kind}, 1, func(int) way { return nil })
		if err != nil {
			return err
		}
		span := r.o.Span
		if !torchWorkload(g.workload) {
			span = min(span, longestAlone)
		}
		all, from, to, err := r.together(ctx, c, span)
		if err != nil {
			return err
		}
		one := all[0]
		ref := inMemory{perS: one.perS(from, to), said: one.said}
		if !(ref.perS > 0) {
			return fmt.Errorf("no step ended within %s: make --span longer", r.o.Span)
		}
		r.alone[g.workload] = append(r.alone[g.workload], ref)
		metrics := rows.Metrics{"steps_per_s": ref.perS, "wrong_count": float64(one.wrong), "verified_count": float64(one.verified)}
		if p, ok := kind.(patterned); ok {
			metrics["gb_per_s"] = ref.perS * float64(p.settings.StepBytes()) / 1e9
		}
		params := r.params(g, 0, "", float64(r.o.Budget), float64(r.o.Task))
		params["tasks"] = 1
		delete(params, "footprint_pct")
		r.rows = append(r.rows, r.lab.Row("oversub", rows.ModeAlone, max(1, int(one.by(to)-one.by(from))), params, metrics))
	}
	return nil
}

// learn has it learnt what the kernels of a workload touch whose turns touch a part of its
// memory: from runs on little memory, with other sizes of pieces than are measured.
func (r *oversubscribed) learn(ctx context.Context, g group) error {
	if !phased(g.workload) || r.learnt[g.workload] {
		return nil
	}
	r.lab.StopDaemon()
	if err := r.lab.Daemon(ctx); err != nil {
		return err
	}
	defer r.lab.StopDaemon()
	ctx, cancel := r.limited(ctx, g, 0)
	defer cancel()
	for i, piece := range []memory.Bytes{2 * memory.MiB, 4 * memory.MiB, 6 * memory.MiB} {
		r.report(r.what(g, "learning"), i, 3)
		t := r.touch(g, piece)
		t.Bytes, t.Phase = uint64(piece)*uint64(2*workloads.LeastPieces(g.workload)), 1
		t.Steps = 2 * workloads.LeastPieces(g.workload)
		if err := r.learnFrom(ctx, t); err != nil {
			return err
		}
	}
	r.learnt[g.workload] = true
	return nil
}

func (r *oversubscribed) learnFrom(ctx context.Context, t workloads.Touch) error {
	c, err := r.lab.muster(ctx, []hungry{patterned{settings: t}}, 1, func(int) way {
		return &Under{Name: "learns", Level: LevelAuto, Hints: []string{"--learn"}}
	})
	if err != nil {
		return err
	}
	defer c.kill()
	if err := c.begin(); err != nil {
		return err
	}
	all, err := c.ends(ctx)
	if err != nil {
		return err
	}
	if all[0].wrong > 0 {
		return fmt.Errorf("%d words are wrong while it is learnt from", all[0].wrong)
	}
	return nil
}

// together lets programs run for a span and end, and gives the span.
func (r *oversubscribed) together(ctx context.Context, c *crew, span time.Duration) (all []course, from, to int64, err error) {
	defer c.kill()
	if err := c.begin(); err != nil {
		return nil, 0, 0, err
	}
	if err := pause(ctx, span/4); err != nil {
		return nil, 0, 0, err
	}
	from = workloads.MonotonicNS()
	if err := pause(ctx, span); err != nil {
		return nil, 0, 0, err
	}
	to = workloads.MonotonicNS()
	all, err = c.dismiss(ctx)
	return all, from, to, err
}

// native measures the group without us: where all of it fits the card, the driver
// shares it by time, and this is what there is to be lost.
func (r *oversubscribed) native(ctx context.Context, g group) error {
	kinds, err := r.kinds(g)
	if err != nil {
		return err
	}
	ctx, cancel := r.limited(ctx, g, r.o.Span)
	defer cancel()
	r.report(r.what(g, "native"), 0, 1)
	c, err := r.lab.muster(ctx, kinds, g.tasks, func(int) way { return nil })
	if err != nil {
		return err
	}
	all, from, to, err := r.together(ctx, c, r.o.Span)
	if err != nil {
		return err
	}
	metrics := r.got(g, all, from, to)
	r.rows = append(r.rows, r.lab.Row("oversub", rows.ModeNative, r.samples(all, from, to), r.params(g, 0, "", float64(r.o.Budget), float64(r.o.Task)), metrics))
	return nil
}

// cell is one measured part of a group under us.
type cell struct {
	policy        string
	slice         time.Duration
	from, to      int64 // CLOCK_MONOTONIC, ns
	before, after figures
}

// managed measures the group under us.
func (r *oversubscribed) managed(ctx context.Context, g group, policies []string) error {
	kinds, err := r.kinds(g)
	if err != nil {
		return err
	}
	ctx, cancel := r.limited(ctx, g, r.measuring(g, len(policies)))
	defer cancel()
	var modes []memory.Mode
	for _, name := range policies {
		mode, err := memory.ModeByName(name)
		if err != nil {
			return err
		}
		modes = append(modes, mode)
	}
	if err := r.hostFor(ctx, g); err != nil {
		return fmt.Errorf("host memory: %w", err)
	}
	defer r.lab.StopDaemon()
	if err := r.lab.managedDaemon(ctx, r.o.Level, "RR", r.budget(g), modes[0]); err != nil {
		return err
	}
	r.report(r.what(g, "allocating"), 0, 1)
	// Turns while they fill their memory, and look through it, are as long as loads need.
	c, err := r.lab.muster(ctx, kinds, g.tasks, func(i int) way {
		return &Under{Name: fmt.Sprintf("task-%d", i+1), Level: r.o.Level}
	})
	if err != nil {
		return err
	}
	defer c.kill()
	if err := r.lab.awaitTasks(ctx, c.pids()...); err != nil {
		return err
	}
	if err := c.begin(); err != nil {
		return err
	}
	level, err := r.lab.effective(ctx, c.children[0].Pid(), r.o.Level)
	if err != nil {
		return err
	}
	var cells []cell
	for _, mode := range modes {
		for _, slice := range g.slices {
			r.report(r.what(g, mode.String()), len(cells), len(modes)*len(g.slices))
			part, err := r.cell(ctx, g, c, mode, slice)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", mode, slice, err)
			}
			cells = append(cells, part)
		}
	}
	if err := r.lab.setSlice(ctx, c.pids(), 0); err != nil {
		return err
	}
	r.report(r.what(g, "looking through the memory"), 0, 1)
	all, err := c.dismiss(ctx)
	if err != nil {
		return err
	}
	for _, part := range cells {
		r.rows = append(r.rows, r.row(g, part, level, all))
	}
	return nil
}

// smallEach is what the small allocations of a program take.
const smallEach = 4 * memory.MiB

// budget of a group: what was asked for, and a little for the small allocations of each
// program, so that whole tasks fit it whose memory goes into it. 0: the card's.
func (r *oversubscribed) budget(g group) memory.Bytes {
	if r.o.Budget == 0 {
		return 0
	}
	return r.o.Budget + memory.Bytes(g.tasks)*smallEach
}

// cell measures one part.
func (r *oversubscribed) cell(ctx context.Context, g group, c *crew, mode memory.Mode, slice time.Duration) (p cell, err error) {
	p.policy, p.slice = mode.String(), slice
	if err := r.lab.setMemory(ctx, mode); err != nil {
		return p, err
	}
	settle, span := r.spans(g, slice)
	if err := r.lab.setSlice(ctx, c.pids(), min(slice, cmp.Or(r.load(g), slice))); err != nil {
		return p, err
	}
	if err := r.settle(ctx, g, settle); err != nil {
		return p, err
	}
	if err := r.lab.setSlice(ctx, c.pids(), slice); err != nil {
		return p, err
	}
	if p.before, err = r.lab.memoryFigures(ctx); err != nil {
		return p, err
	}
	p.from = workloads.MonotonicNS()
	if err := pause(ctx, span); err != nil {
		return p, err
	}
	p.to = workloads.MonotonicNS()
	p.after, err = r.lab.memoryFigures(ctx)
	return p, err
}

// got is what programs made in a span against what each makes alone.
func (r *oversubscribed) got(g group, all []course, from, to int64) rows.Metrics {
	alone := r.alone[g.workload]
	var sum, least, wrong, verified float64
	for i, c := range all {
		ref := alone[i%len(alone)]
		part := 100 * c.perS(from, to) / ref.perS
		sum += part
		if i == 0 || part < least {
			least = part
		}
		wrong += float64(c.wrong)
		if c.said != ref.said {
			wrong++
		}
		verified += float64(c.verified)
	}
	m := rows.Metrics{"of_in_memory_pct": sum, "wrong_count": wrong, "verified_count": verified}
	if sum > 0 { // of an equal share
		m["least_share_pct"] = 100 * least * float64(len(all)) / sum
	}
	return m
}

func (r *oversubscribed) samples(all []course, from, to int64) int {
	sum := 0.0
	for _, c := range all {
		sum += c.by(to) - c.by(from)
	}
	return max(1, int(sum))
}

// row of a part: what the programs got, what moved for it, and how far from the most
// that the link allows that is.
func (r *oversubscribed) row(g group, p cell, level int, all []course) rows.Row {
	task := float64(r.o.Task)
	if torchWorkload(g.workload) {
		task = float64(p.after.most)
	}
	budget := float64(p.after.budget)
	params := r.params(g, p.slice, p.policy, budget, task)
	params["level"] = level
	m := r.got(g, all, p.from, p.to)
	span := time.Duration(p.to - p.from)
	in, out := float64(p.after.in-p.before.in), float64(p.after.out-p.before.out)
	m["moved_gib"], m["moved_in_gib"], m["moved_out_gib"] = (in+out)/float64(memory.GiB), in/float64(memory.GiB), out/float64(memory.GiB)
	if in > 0 {
		m["out_of_in_pct"] = 100 * out / in
	}
	m["span_s"] = span.Seconds()
	m["stall_pct"] = 100 * (p.after.stall - p.before.stall).Seconds() / span.Seconds()
	m["switches_count"] = float64(p.after.taken - p.before.taken)
	if n := m["switches_count"]; n > 0 {
		m["turn_ms"] = 1000 * span.Seconds() / n
	}
	m["in_gb_per_s"], m["out_gb_per_s"] = in/span.Seconds()/1e9, out/span.Seconds()/1e9
	touched := task
	if !torchWorkload(g.workload) {
		t := r.touch(g, r.piece(g))
		phases := max(1, p.slice.Seconds()*r.alone[g.workload][0].perS/float64(t.Phase))
		touched = min(task, phases*float64(t.PhaseBytes()))
	}
	ideal := turns{tasks: g.tasks, footprint: task, touched: touched, budget: budget, slice: p.slice}
	if c := 100 * ideal.ceiling(r.link.in); c > 0 {
		m["ceiling_pct"] = c
	}
	m["link_in_gb_per_s"], m["link_out_gb_per_s"] = r.link.in/1e9, r.link.out/1e9
	return r.lab.Row("oversub", rows.ModeXmsched, r.samples(all, p.from, p.to), params, m)
}
