// Package preempt lets a program schedule its own work on an accelerator: it
// submits commands to preemptible queues (XQueues), and suspends and resumes
// them itself or has a scheduler with any policy of package compute do it. All
// of it happens in this process, without a daemon.
//
// A program that wants to be scheduled among others, and not to be changed,
// needs none of this: `xrun` does it from outside.
//
// # Model
//
//   - An [XQueue] stands over one hardware queue: a CUDA stream ([CUDAStream]),
//     or whatever implements [HardwareQueue].
//   - A command is a function that launches work on that hardware queue: one
//     kernel, or a layer of a model. [XQueue.Submit] keeps it in a buffer and
//     calls it on a goroutine of the queue; [XQueue.Do], and Begin and End,
//     launch on the caller's own thread when the queue lets them.
//   - At most Threshold commands are outstanding in the hardware. Suspension
//     keeps the rest from being launched, and so takes effect within that many
//     commands: that is level 1. Cut work into commands accordingly.
//   - A [Scheduler] stops and resumes queues by a policy and by their hints. It
//     knows which queues wait for commands of others ([XQueue.SubmitAfter]) and
//     never lets a running queue wait for a stopped one.
//   - A queue that its program has suspended stays so whatever the scheduler
//     says, and the other way round.
//
// Levels 2 and 3, which stop a device in the middle of what was launched, are
// for whole processes: the streams of a process share hardware channels, so that
// stopping one of them there stops the others, and a process whose one stream
// waits for another would stand still. They are to be had through xrun.
//
// # Concurrency
//
// Everything may be called from any goroutine. An XQueue has up to two
// goroutines and OS threads of its own, a Scheduler one goroutine; Close ends
// them and waits. Functions that launch must not wait for commands of their own
// queue. Nothing here ends the process: a panic in a command's function is that
// command's error.
//
// What may not happen in this room: talking to the daemon, reading another
// process's state, or deciding by anything but a policy of package compute.
package preempt
