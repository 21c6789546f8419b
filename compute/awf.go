package compute

import "time"

// AWF is "active window first": while a task whose window is in front on some
// display has work, the others stop, so that what a person looks at is smooth.
// Who is in front is a hint, which a desktop's monitor gives.
//
// The name and the rule are XSched's.
func AWF() Policy {
	return &policy{
		name: "AWF",
		traits: Traits{
			Summary: "tasks whose window is in front run before all others",
			Hints:   []string{"window", "min-share"}, Strict: true,
		},
		fresh: func() Decider {
			return newClasses(func(s *TaskState, _ time.Duration) rank {
				if s.Hints.Window != "" {
					return steady(1)
				}
				return steady(0)
			})
		},
	}
}
