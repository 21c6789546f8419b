// Package queue is the state machine of one XQueue: what is buffered, what has
// been handed to the hardware, and what may be handed to it now.
//
// It is pure: events and the time come in by Apply, and what its owner has to
// do comes out as a value. No clock, goroutine, lock or device is in here, so
// tests run it through any history. The owner is package preempt, which keeps
// the commands themselves and calls the hardware.
//
// The model:
//
//   - Commands have numbers from 1 in the order of submission, and four
//     counters cut that row: Invariant: completed <= marked <= launched <=
//     submitted. What lies between submitted and launched is the command
//     buffer; what lies between launched and completed is outstanding.
//   - At most Threshold commands are outstanding, so that a queue that is
//     stopped drains soon.
//   - A marker put behind a command tells of its completion and of all before
//     it. One stands behind every Batch commands; and while anything is
//     outstanding one is in the hardware or due, so that the end is always seen.
//   - Launching and marking exclude each other: a marker stands behind exactly
//     the commands that the counter says.
//   - A queue is stopped while its program holds it or its scheduler's gate is
//     closed. Both are kept apart, so that neither undoes the other.
package queue
