package compute

// HHPF is HPF over all devices: a task stops for one of higher priority that is
// ready on any device of the machine. It is for tasks that disturb each other
// beyond their device, by what the devices share: memory, power, a bus.
//
// The name and the rule are XSched's (OSDI 2025).
func HHPF() Policy {
	return &policy{
		name: "HHPF",
		traits: Traits{
			Summary: "as HPF, with one highest priority over all devices",
			Hints:   []string{"priority", "min-share"}, Strict: true, Machine: true,
		},
		fresh: func() Decider { return newSteady(byPriority) },
	}
}
