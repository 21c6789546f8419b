// Package library is what stands between the C interface (shim/include/xmsched.h)
// and package preempt: handles, result codes, and the scheduler that a process
// has. It knows nothing of cgo, so it is tested as Go.
//
// Handles are numbers that are never given out twice, and every one that comes
// in is looked up: a wrong, old or foreign one is NotFound. What may not happen
// here: a panic that reaches the caller, which is somebody else's process, or a
// call of the caller's functions with a lock held.
package library
