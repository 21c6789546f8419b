package compute

import (
	"cmp"
	"time"
)

// UP is "utilisation partition": ready tasks get the device in proportion to
// their utilisation hints; those without one share in equal parts what the
// others leave of it, which is 1 % at least. What a task does not use, the
// others get.
//
// Name and hint are XSched's. There a round has a fixed length and tasks without
// a hint never run.
func UP() Policy {
	return &policy{
		name: "UP",
		traits: Traits{
			Summary: "ready tasks share the device by utilisation, those without one share the rest",
			Hints:   []string{"utilization", "quantum"},
		},
		fresh: func() Decider { return newTurns(newShares()) },
	}
}

// PUP is UP with the utilisation of a process: the queues of one process have
// their turns together and count as one. A task of several processes is one all
// the same.
//
// The name is XSched's.
func PUP() Policy {
	return &policy{
		name: "PUP",
		traits: Traits{
			Summary: "as UP, the queues of one process counting as one",
			Hints:   []string{"utilization", "quantum"}, ByProcess: true,
		},
		fresh: func() Decider { return newTurns(newShares()) },
	}
}

// minTurn is the shortest turn of the policies of shares: of a shorter one the
// switching would be worth mentioning. A small share comes of rarer turns then.
const minTurn = 500 * time.Microsecond

func newShares() *shares {
	return &shares{waiting: clockHeap(), weigh: byUtilization, length: roundTurn, long: true}
}

func byUtilization(h turnHints) int64 { return int64(h.utilization) * percent }

// roundTurn is a task's part of a round of one quantum for each task.
func roundTurn(t *turner, weight, all int64, tasks int) time.Duration {
	q := cmp.Or(t.hints.quantum, DefaultQuantum)
	part := float64(weight) / float64(all)
	return min(max(time.Duration(float64(q)*float64(tasks)*part), minTurn), MaxQuantum)
}
