package compute

import (
	"time"
)

// CFS is after Linux's completely fair scheduler: ready tasks share a device by
// weight, each has a turn within a latency target, and who wakes is let in soon.
// A task's weight is its weight hint times 1.2 for each step of priority, up to
// 40 steps. Who slept is let in ahead of the others by half the target and no
// more, however long it slept.
//
// The name and the factor are XSched's, where a sleeper keeps what it was behind.
func CFS() Policy {
	return &policy{
		name: "CFS",
		traits: Traits{
			Summary: "ready tasks share the device by weight and priority, each in turn within 20 ms",
			Hints:   []string{"priority", "weight", "quantum"},
		},
		fresh: func() Decider {
			return newTurns(&shares{
				waiting: clockHeap(), weigh: byWeight, length: latencyTurn,
				credit: cfsLatency / 2, lead: cfsTurn,
			})
		},
	}
}

const (
	cfsLatency = 20 * time.Millisecond // in which each should have had a turn
	cfsTurn    = time.Millisecond      // the shortest: with many tasks the target is missed
	cfsSteps   = 40                    // of priority: 1.2^40 is 1470
)

// byWeight is 1 << 10 for a task that asks for nothing.
func byWeight(h turnHints) int64 {
	w := int64(max(h.weight, 1)) << 10
	p := min(max(h.priority, -cfsSteps), cfsSteps)
	for ; p > 0; p-- {
		w = w * 6 / 5
	}
	for ; p < 0; p++ {
		w = w * 5 / 6
	}
	return max(w, 1)
}

// latencyTurn is longer where turns are asked to be, as they are for tasks whose memory has
// to move between them.
func latencyTurn(t *turner, weight, all int64, _ int) time.Duration {
	return max(time.Duration(float64(cfsLatency)*float64(weight)/float64(all)), cfsTurn, t.hints.quantum)
}
