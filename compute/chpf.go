package compute

import "time"

// CHPF is HPF by the priority that the system's administrator has given a
// task's processes at the processor (nice, chrt), so that one knob serves both.
// The priority comes as an event ([CPUPriorityChanged]); the policy reads
// nothing itself.
//
// The name is XSched's, which looks into /proc at every decision.
func CHPF() Policy {
	return &policy{
		name: "CHPF",
		traits: Traits{
			Summary: "as HPF, by the processes' priority at the CPU (nice, chrt)",
			Hints:   []string{"min-share"}, Strict: true, ByCPU: true,
		},
		fresh: func() Decider {
			return newSteady(func(s *TaskState, _ time.Duration) rank { return steady(s.CPUPriority) })
		},
	}
}
