package bpf

import "time"

// Cost is what a hit costs the thread that makes it, by how the hooked place
// begins; measured here, with the programs that are used.
type Cost struct {
	Entry  [openings]time.Duration
	Return [openings]time.Duration // in addition, where the return is hooked too
}
