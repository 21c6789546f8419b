// Package memory decides what is resident.
//
// It is the arithmetic of the memory manager and nothing else: no device, no
// file, no clock, no goroutine, no lock, and no import but compute's plain
// types. Time, figures and results come in as arguments; what is to be done goes
// out as values. So every history can be replayed, and the daemon, the agent,
// the tests and the simulator drive the same code.
//
// The model, from the daemon down to a copy:
//
//   - A [Planner] belongs to one device. From the policy's timeline and what the
//     tasks claim of themselves it gives every task a target: the bytes that it
//     may have on the device. The sum over all tasks of what they may have and
//     what they have never rises above the budget: a target is raised only by
//     what others have already given up.
//   - A [Meter] says how fast the link to the host is, which is what the planner
//     works out times from, by what was moved over it.
//   - A [Table] holds one task's segments on one device, and where the
//     authoritative copy of each is.
//   - An [Order] says which segments go first: by next use if that is known
//     ([Belady]), or by what was used ([LRU], [TwoQueue], [FIFO]).
//   - A [Plan] is what has to move to reach a target, in batches: out what is
//     needed last, in what is needed first.
//   - A [Move] carries a plan out through its caller, step by step. The caller
//     does a step and tells the result; the move says what follows from it.
//
// Nothing here is safe for concurrent use: who owns a value owns its lock.
package memory
