package experiment

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/memory"
)

// pagedPiece is what a kernel of a paged program goes over: faults bring it in some
// ms, so that a turn ends when it should.
const pagedPiece = 64 * memory.MiB

// paging measures the group on managed memory. A card that has only the budget is
// played: one program runs at a time, for a turn; then what such a card could not
// keep, of all programs' pieces those used longest ago, is sent to the host, which
// is not counted. What is measured is how far the programs come in their turns, in
// which faults bring back what is missing. (A real card of that size would send away
// within the turn as well.)
func (r *oversubscribed) paging(ctx context.Context, g group) error {
	piece := min(pagedPiece, r.piece(g))
	t := r.touch(g, piece)
	if err := t.Validate(); err != nil {
		return err
	}
	ctx, cancel := r.limited(ctx, g, 4*r.measuring(g, 1))
	defer cancel()
	together := uint64(g.tasks) * t.Bytes
	var p pages
	c := &crew{}
	defer func() { c.kill() }()
	for i := range g.tasks {
		// One after the other: each looks at what the card has free.
		args := append(patterned{settings: t}.arguments(i), "--paged", "--together", strconv.FormatUint(together, 10))
		child, err := r.lab.startWork(fmt.Sprintf("paged %d", i+1), nil, args...)
		if err != nil {
			return err
		}
		c.children, c.programs = append(c.children, child), append(c.programs, patterned{settings: t})
		if _, err := child.Await(ctx, workloads.KindReady); err != nil {
			return &SkippedError{Mode: PolicyPaging, Why: err}
		}
		p.used(i, func(f func(int)) {
			for k := range t.Pieces() {
				f(k)
			}
		})
	}
	if err := c.begin(); err != nil {
		return err
	}
	keep := int(uint64(r.budget(g)) / uint64(piece))
	if err := p.shrink(ctx, keep, c); err != nil {
		return err
	}
	var measured []rows.Row
	done := make([]uint64, g.tasks) // pieces that each has gone over
	for i, slice := range g.slices {
		r.report(r.what(g, PolicyPaging), i, len(g.slices))
		row, err := r.pagedTurns(ctx, g, t, &p, c, keep, slice, done)
		if err != nil {
			return err
		}
		measured = append(measured, row)
	}
	wrong, verified := 0.0, 0.0
	for _, child := range c.children {
		_ = child.stdin.Close()
	}
	for _, child := range c.children {
		var e workloads.Event
		if err := result(ctx, child, &e); err != nil {
			return err
		}
		wrong, verified = wrong+float64(e.Wrong), verified+float64(e.Verified)
	}
	for i := range measured {
		measured[i].Metrics["wrong_count"], measured[i].Metrics["verified_count"] = wrong, verified
	}
	r.rows = append(r.rows, measured...)
	return nil
}

// pagedTurns gives turns of one length, once round to settle and then for the span.
func (r *oversubscribed) pagedTurns(ctx context.Context, g group, t workloads.Touch, p *pages, c *crew, keep int, slice time.Duration, done []uint64) (rows.Row, error) {
	_, span := r.spans(g, slice)
	perStep := float64(t.StepBytes()) / float64(t.Piece)
	alone := r.alone[g.workload][0].perS * perStep // pieces a second
	var ran time.Duration
	went, came := 0.0, 0
	for turn, counted := 0, time.Duration(0); counted < span; turn++ {
		i := turn % g.tasks
		e, err := c.turn(ctx, i, slice)
		if err != nil {
			return rows.Row{}, err
		}
		from, to := done[i], e.Count
		done[i] = to
		missed := p.used(i, func(f func(int)) { t.Touches(from, to, f) })
		if err := p.shrink(ctx, keep, c); err != nil {
			return rows.Row{}, err
		}
		if turn >= g.tasks {
			took := time.Duration(e.AtNS - e.BeganNS)
			ran, counted = ran+took, counted+slice
			went, came = went+float64(to-from), came+missed
		}
	}
	if ran <= 0 {
		return rows.Row{}, errors.New("no turn was measured")
	}
	m := rows.Metrics{
		"of_in_memory_pct": 100 * went / (alone * ran.Seconds()),
		"moved_in_gib":     float64(came) * float64(t.Piece) / float64(memory.GiB),
		"in_gb_per_s":      float64(came) * float64(t.Piece) / ran.Seconds() / 1e9,
	}
	params := r.params(g, slice, PolicyPaging, float64(r.budget(g)), float64(t.Bytes))
	return r.lab.Row("oversub", rows.ModeNative, max(1, int(went)), params, m), nil
}

// turn lets one program run for a turn, and gives what it says of it.
func (c *crew) turn(ctx context.Context, i int, slice time.Duration) (e workloads.Event, err error) {
	child := c.children[i]
	if err := child.TellGate(true); err != nil {
		return e, err
	}
	if err := pause(ctx, slice); err != nil {
		return e, err
	}
	if err := child.TellGate(false); err != nil {
		return e, err
	}
	said, err := child.Await(ctx, workloads.KindGate)
	if err != nil {
		return e, err
	}
	return e, said.Into(&e)
}

// pages is what a card of the budget's size would hold of all programs: pieces by the
// time of their last use. Each program has its own in the same order.
type pages struct {
	clock int
	last  map[page]int // those on the device
}

type page struct{ task, piece int }

// used takes note of what a program touched, and counts what was not there.
func (p *pages) used(task int, each func(func(piece int))) (missed int) {
	if p.last == nil {
		p.last = map[page]int{}
	}
	each(func(piece int) {
		at := page{task, piece}
		if _, ok := p.last[at]; !ok {
			missed++
		}
		p.clock++
		p.last[at] = p.clock
	})
	return missed
}

// excess says how many pieces of each program go, so that keep are left: those used
// longest ago of all.
func (p *pages) excess(keep, tasks int) []int {
	var all []page
	for at := range p.last {
		all = append(all, at)
	}
	sort.Slice(all, func(i, j int) bool { return p.last[all[i]] < p.last[all[j]] })
	out := make([]int, tasks)
	for _, at := range all[:max(0, len(all)-keep)] {
		out[at.task]++
		delete(p.last, at)
	}
	return out
}

// shrink has the programs send what is too much to the host.
func (p *pages) shrink(ctx context.Context, keep int, c *crew) error {
	for i, n := range p.excess(keep, len(c.children)) {
		if n == 0 {
			continue
		}
		if err := c.children[i].tell("evict " + strconv.Itoa(n)); err != nil {
			return err
		}
		if _, err := c.children[i].Await(ctx, workloads.KindGate); err != nil {
			return err
		}
	}
	return nil
}
