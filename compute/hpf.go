package compute

import "time"

// HPF is "highest priority first": of a device's ready tasks those of the
// highest priority run, together, and all tasks below are stopped, ready or
// not, so that none of them can slip in. While nobody is ready every gate is
// open. It starves whom it outranks; that is what strict priority means, unless
// he has a floor.
//
// The name and the rule are XSched's (OSDI 2025).
func HPF() Policy {
	return &policy{
		name: "HPF",
		traits: Traits{
			Summary: "the ready tasks of the highest priority run, all below are stopped",
			Hints:   []string{"priority", "min-share"}, Strict: true,
		},
		fresh: func() Decider { return newSteady(byPriority) },
	}
}

func byPriority(s *TaskState, _ time.Duration) rank {
	return steady(s.Hints.Priority)
}
