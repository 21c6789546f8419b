package kernels

import (
	"math"
	"math/bits"
	"time"
)

// The machine that the costs imitate: an H200, 132 multiprocessors of 2,048
// threads at 1.98 GHz, reading and writing 4.2 TB/s (measured on VMM-mapped
// memory). They give a plausible length and the right proportions; a simulated
// length is never evidence for a number.
const (
	multiprocessors   = 132
	residentThreads   = 2048 // of one multiprocessor
	picosPerCycle     = 505
	bytesPerMicro     = 4_200_000
	spinLatencyCycles = 6  // of one thread alone: dependent multiply-add, count, branch
	threadsPerCycle   = 32 // of one multiprocessor, through that loop
	longest           = time.Hour
)

func emptyCost(Launch) time.Duration { return 0 }

// spinCost: waves of resident threads, each as long as the slower of one
// thread's latency and the multiprocessor's throughput.
func spinCost(l Launch) time.Duration { return stepsCost(l, arg64(l, 8)) }

// stepsCost is that of so many steps of the generator by each thread.
func stepsCost(l Launch, steps uint64) time.Duration {
	threads := l.allThreads()
	if threads == 0 {
		return 0
	}
	perMP := (threads + multiprocessors - 1) / multiprocessors
	waves := (perMP + residentThreads - 1) / residentThreads
	cycles := max(min(perMP, residentThreads)/threadsPerCycle, spinLatencyCycles)
	hi, perIteration := bits.Mul64(waves, cycles*picosPerCycle)
	if hi != 0 {
		return longest
	}
	return clampedNanos(steps, perIteration, 1000)
}

func spinTouched(l Launch) uint64 {
	if arg64(l, 0) == 0 {
		return 0
	}
	return 4 * l.Threads()
}

// streamCost is that of a kernel bound by memory: `streams` words move for each
// of its n.
func streamCost(streams uint64, words func(Launch) uint64) func(Launch) time.Duration {
	return func(l Launch) time.Duration {
		return clampedNanos(words(l), streams*4*1000, bytesPerMicro)
	}
}

func touched(streams uint64, words func(Launch) uint64) func(Launch) uint64 {
	return func(l Launch) uint64 {
		hi, lo := bits.Mul64(words(l), 4*streams)
		if hi != 0 {
			return math.MaxUint64
		}
		return lo
	}
}

// clampedNanos is n*num/den nanoseconds, at most longest: arguments are the
// program's and may be anything.
func clampedNanos(n, num, den uint64) time.Duration {
	hi, lo := bits.Mul64(n, num)
	if hi >= den {
		return longest
	}
	q, _ := bits.Div64(hi, lo, den)
	if q > uint64(longest) {
		return longest
	}
	return time.Duration(q)
}
