package main

import (
	"os"
	"runtime/debug"
	"sync"
)

// fit, when the first handle is made, fits Go's runtime to somebody else's process, whose threads launch between two
// of its collections: submitting leaves garbage, some megabytes a second, and with the
// heap of a library, which is next to nothing, the collector would run each time that 4
// MiB of it are there, in the midst of a request. It may be 32. What the user sets
// himself counts.
var fit = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
	}
})
