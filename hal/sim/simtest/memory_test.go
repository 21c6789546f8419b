package simtest_test

import (
	"testing"

	"xmsched/hal/sim/simtest"
)

func TestRowsBoxesAndBatches(t *testing.T) { run(t, program(t, "boxes", simtest.Start(t))) }
func TestManagedMemory(t *testing.T)       { run(t, program(t, "managed", simtest.Start(t))) }

// Case 11: a synchronous copy or memset comes behind the queued work of blocking
// streams, whether it waits or not.
func TestCase11SynchronousCopiesComeBehindQueuedWork(t *testing.T) {
	run(t, program(t, "held_copies", simtest.Start(t), "synchronous"))
}

// Case 13: an asynchronous copy to pageable memory returns when the bytes are there.
func TestCase13PageableCopiesReturnWithTheBytes(t *testing.T) {
	run(t, program(t, "held_copies", simtest.Start(t), "pageable"))
}

// Case 14: memory of pools: the pointer is there at once, the memory keeps to the
// order of streams, and none is lost.
func TestCase14PoolMemoryKeepsToItsStream(t *testing.T) {
	run(t, program(t, "pools", simtest.Start(t, simtest.HBM(256<<20))))
}

func TestMemorySanitized(t *testing.T) {
	library := simtest.SanitizedLibrary(t)
	env := append(simtest.StartWith(t, library, simtest.HBM(512<<20)), "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1")
	for _, name := range []string{"boxes", "managed", "held_copies", "pools"} {
		bin := simtest.CompileC(t, "testdata/"+name+".c", library, "-fsanitize=address,undefined")
		run(t, command(t, bin, env))
	}
}
