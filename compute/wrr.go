package compute

import (
	"cmp"
	"time"
)

// WRR is weighted round robin (Katevenis et al. 1991): RR with turns of weight
// times the quantum, at most MaxQuantum.
func WRR() Policy {
	return &policy{
		name: "WRR",
		traits: Traits{
			Summary: "ready tasks take turns of their weight times a quantum",
			Hints:   []string{"weight", "quantum"},
		},
		fresh: newFIFO(func(h turnHints) time.Duration {
			return min(time.Duration(max(h.weight, 1))*cmp.Or(h.quantum, DefaultQuantum), MaxQuantum)
		}),
	}
}
