// Package compute decides who runs next.
//
// It is the scheduler's core: tasks register on devices, turn ready and idle,
// and a policy says whose gate is open, how tightly each task is bounded, and
// when the decision is to be looked at again. Nothing else happens in this
// room: no I/O, no clock, no goroutine, no lock, no device, and no import but
// the standard library's plain types. Time and events come in as arguments;
// what the caller has to do goes out as values. So every run can be replayed,
// and the daemon, the tests and the simulator drive the same code.
//
// The model:
//
//   - A [Scheduler] owns the tasks of all devices and their hints. Hints
//     belong to the task: a change of policy keeps them.
//   - Every device is decided alone, unless the policy is one for the whole
//     machine. A task on two devices has a gate on each; a gang has all its gates
//     open or all closed.
//   - [Scheduler.Apply] takes the time and what happened and returns the gates
//     and modes that changed, and the time of the next timer.
//   - A [Policy] is a recipe; each device gets a fresh [Decider] of it, which
//     is told what changed and keeps whatever structure makes it quick. A decider
//     sees parties: tasks, or groups of them that run as one.
//   - What no policy may overrule comes after it: who is not to run (a hint),
//     gangs, and floors under strict policies.
//   - [Scheduler.Timeline] says who runs when if nothing else happens, and
//     [Scheduler.Expected] what is known of the tasks that it cannot place.
//
// A Scheduler is not safe for concurrent use: its caller owns it, and the lock,
// if one is needed, stands at the caller's edge.
package compute
