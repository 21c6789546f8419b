package experiment

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"xmsched/bench/workloads"
	"xmsched/memory"
)

// Of the row oversub, what takes how long.

// measuring is how long the parts of a group take.
func (r *oversubscribed) measuring(g group, policies int) (sum time.Duration) {
	for _, s := range g.slices {
		settle, span := r.spans(g, s)
		sum += time.Duration(policies) * (3*settle + span)
	}
	return sum
}

// beyond is how much of the memory of a group's programs the budget does not hold, and
// footprint all of it. 0 of what is not known, as of PyTorch's.
func (r *oversubscribed) beyond(g group) (beyond, footprint memory.Bytes) {
	budget := cmp.Or(r.o.Budget, memory.Bytes(r.lab.Facts.Memory))
	if torchWorkload(g.workload) || budget == 0 {
		return 0, 0
	}
	footprint = memory.Bytes(g.tasks) * r.o.Task
	return max(0, footprint-budget), footprint
}

// load is how long it takes to bring in what a program misses at its turn, with a quarter
// for what that shares the way with: turns last that long at least.
func (r *oversubscribed) load(g group) time.Duration {
	beyond, _ := r.beyond(g)
	if phased(g.workload) || r.link.in <= 0 {
		return 0
	}
	return time.Duration(1.25 * float64(min(beyond, r.o.Task)) / r.link.in * float64(time.Second))
}

// settleRounds of turns are made before what is measured, of programs that use all of
// their memory: what was written as it was filled is copied out twice, and looked at, until
// it is known for clean.
const settleRounds = 3

// spans of a part: until every program had its turn some times, or went through all parts
// of its memory, one a turn, twice and a bit: what comes next is known from then on, and of
// what is only read the host has a copy. And then as many turns each as are asked for. Turns
// before what is measured are as long as loads take, where those that are measured are longer.
func (r *oversubscribed) spans(g group, slice time.Duration) (settle, span time.Duration) {
	load := r.load(g)
	settle = max(time.Duration(settleTurns(g))*cmp.Or(load, slice), min(r.o.Span/4, longestIdle))
	round := time.Duration(g.tasks) * max(slice, load)
	span = max(time.Duration(r.o.Cycles)*round, r.o.Span)
	if round > 0 { // whole rounds, so that each has as many turns
		span = (span + round - 1) / round * round
	}
	return settle, span
}

// leastParts is taken for the parts of a program that draws them.
const leastParts = 4

func settleTurns(g group) int {
	rounds := settleRounds
	if phased(g.workload) {
		rounds = 2*max(workloads.Phases(g.workload), leastParts) + 2
	}
	return rounds * g.tasks
}

// settle waits until that many turns were made: for as long as they take by arithmetic, or
// longer where the link is not what it was measured to be.
func (r *oversubscribed) settle(ctx context.Context, g group, by time.Duration) error {
	before, err := r.lab.memoryFigures(ctx)
	if err != nil {
		return err
	}
	end := time.Now().Add(3 * by)
	for now := before; now.taken < before.taken+uint64(settleTurns(g)) && time.Now().Before(end); {
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		if now, err = r.lab.memoryFigures(ctx); err != nil {
			return err
		}
	}
	return pause(ctx, time.Until(end)-2*by)
}

// longestIdle bounds what is waited for though nothing has to settle, and longestAlone for
// how long a program of ours is measured alone, whose steps are all alike.
const (
	longestIdle  = time.Second
	longestAlone = 4 * time.Second
)

// hostFor has the host show the memory that the programs' will need: half of what it shows
// may be taken. Clean copies of all that they have are kept where that is not much.
func (r *oversubscribed) hostFor(ctx context.Context, g group) error {
	beyond, footprint := r.beyond(g)
	need := 2 * min(footprint, max(beyond/4*5, 48*memory.GiB))
	if beyond == 0 {
		return nil
	}
	_, err := r.lab.growHost(ctx, need, func(have memory.Bytes) {
		r.report(r.what(g, fmt.Sprintf("host memory, of %s to be available", need)), int(have/memory.GiB), int(need/memory.GiB))
	})
	return err
}
