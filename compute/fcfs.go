package compute

import "time"

// FCFS is first come, first served: who turned ready first has the device until
// it is idle. It is the least switching there is, and what one gets from a
// queue that everybody submits to; one long task delays all, and an endless one
// starves them, unless they have a floor.
func FCFS() Policy {
	return &policy{
		name: "FCFS",
		traits: Traits{
			Summary: "who turned ready first runs until it is idle",
			Hints:   []string{"min-share"}, Strict: true,
		},
		fresh: newFIFO(func(turnHints) time.Duration { return 0 }),
	}
}
