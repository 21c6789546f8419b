// Package mover carries memory of the process that it is in between the device
// and the host, as the daemon's targets ask.
//
// It runs in the agent, beside the program. The truth about the program's memory
// is the preload library's (Memory), as is everything that maps or unmaps; the
// decision what moves is package memory's. Here is what lies between: when to
// begin, the copies themselves, and what follows from what fails.
//
// The model:
//   - An Engine has one section for each device that the process uses and the
//     daemon manages. A section sleeps until the daemon's answer changes, or until
//     the process was stopped or resumed.
//   - Memory moves only between Begin and End, which the library grants while the
//     process is Stopped. So this one goes out, or comes in, while others run.
//   - A carrier drives a memory.Move: it does the steps and tells the results. It
//     is pure: whatever it works on is an interface. Copies, and the calls that map and unmap
//     device memory, go on while it looks on; several of each at once.
//   - A copier is a context of our own in the process, with a stream each way, so
//     that copies run while everything of the program's is suspended. It is made
//     when memory first has to move, or shortly before; and anew, some times, if it broke.
//   - What the device is given to do with the program's memory is a flight, from before it is
//     given until it is done: meanwhile the library takes no move from us, as an access to
//     what is not mapped is the end of every context of the process (H200).
//   - What came in keeps its host slot for as long as nobody needs that more. On the
//     way out a hasher finds out what has not changed since, by a keyed digest that it
//     takes in the copier's context; that goes without being copied (clean.go says how
//     sure that is). Without a hasher everything is copied.
//   - Uses may foresee what the program's commands touch. A forecast decides what
//     comes first and goes first, what a stop should exchange, and what is worth a
//     digest; where nothing is foreseen it is what was made, or named by a copy, first.
//     No byte depends on it.
//   - What went out and is not foreseen to be touched is mapped to its slots while the
//     process still stands, as it would have to be before it runs: beside the copies of what
//     it has for that, or after them (home.go).
//   - Host memory is made ahead while nothing else is to be done, one slot at a
//     time. What is beyond the process's part goes to another process of the user that
//     misses some (Pool), also in the middle of a move, as that one's memory may wait for it.
//     What is left in such a slot the program never sees: the library has it overwritten as
//     a whole before. So none is ever cleared.
//
// Nothing may happen here in a thread of the program's, nor without a recovery
// from panics: all goroutines come from Config.Go. A section that ends in the
// middle of a move waits for its copies, and ends the move; all else is left to the
// library, which makes every address good by itself before the process runs.
//
// Concurrency: an Engine may be used from any goroutine. A section is one
// goroutine, locked to its thread, and shares nothing but its bell, and with the
// copier's goroutines, which wait for copies, map and unmap, channels. Beside it one
// passes slots on, and works on nothing but the library's, which are guarded there.
package mover
