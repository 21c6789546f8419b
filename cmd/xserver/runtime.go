package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// settle fits Go's runtime to a process in which one thread must answer within
// microseconds and the rest has time. What the user sets himself counts.
func settle() {
	// Decisions make no garbage, listings do. With a heap of about 5 MiB the
	// collector, which stops the world twice a cycle, runs once for 45 MiB of it
	// and not for every 5.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
	}
	// The deciding thread needs one of the runtime's processors when it comes back
	// from epoll, and must find it free though requests keep two busy; how the
	// threads share the machine's is the kernel's to say, and it prefers that one.
	if os.Getenv("GOMAXPROCS") == "" && runtime.NumCPU() < 4 {
		runtime.GOMAXPROCS(4)
	}
}
