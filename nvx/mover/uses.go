package mover

import (
	"iter"
	"time"

	"xmsched/memory"
)

// Use is a range of memory that commands of the process will touch.
type Use struct {
	Address uint64
	Bytes   memory.Bytes
	// In is how long the process will have run, from now on, when it first touches it.
	In time.Duration
	// Times is how many commands of the coming turn touch it; 0 counts as 1. What is
	// touched often is worth a place on the device that what is touched once is not.
	Times uint32
}

// Written says whether a range was written.
type Written uint8

const (
	WrittenUnknown Written = iota
	NotWritten
	WasWritten
)

// Uses is what somebody who looks at the process's commands foresees. It chooses
// what comes in, what goes and what is compared with its clean copy; no byte depends
// on it.
//
// A section calls it from its own goroutine, also while the process is Stopped and
// the move lock is held: nothing in it may wait for the program, for the daemon, or
// for who holds a lock over a call of the driver's.
type Uses interface {
	// Next yields what the coming commands touch in the order in which they first
	// do, beyond the turn as well, as far as is foreseen. Where it is not known
	// what of an allocation a command touches it is all of it. Ranges may overlap, and
	// be named again. turn is how long the process's next turn is expected to be. False:
	// nothing is foreseen. The sequence is used up before anything else is asked.
	Next(section int, turn time.Duration) (uses iter.Seq[Use], known bool)
	// Written says whether commands that were handed over since a time of
	// CLOCK_MONOTONIC write to the range.
	Written(section int, address uint64, n memory.Bytes, since time.Duration) Written
}

// maxUses is how many uses of a forecast are looked at.
const maxUses = 1 << 16
