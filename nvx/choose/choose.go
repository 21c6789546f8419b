// Package choose turns a policy's word on who may run into what is done on an
// NVIDIA device about it: close a gate, suspend channel groups, or arm, that is
// shorten a time slice beforehand so that the hardware itself switches at once.
//
// It is a plain rule over what is known of the foreground (how long its requests
// are, how long the gaps, whether it is the CPU that it waits for) and what the
// device charges (Costs). It knows no board, no client and no device; it reads no
// clock, starts no goroutine, and answers the same to the same history.
//
// The model:
//   - foreground are the tasks of mode Top, and those of the highest rank for which
//     the policy was seen to close the others at once; the rest is background. While
//     a foreground has work the policy closes the background;
//   - an armed background is off the device within 0.2 ms, but two busy armed ones
//     make no progress at all. So at most one armed task is runnable at any time:
//     several take turns, and the next is let go only after the one before was
//     acknowledged to stand still;
//   - a request that is long enough to be worth it has the background suspended
//     as well; one bound by the CPU has the background run beside it;
//   - a task that cannot be suspended has its gate closed and nothing else. But clients
//     of one MPS server use the device at the same time instead of in turns: beside a
//     foreground bound by the CPU one whose commands are short may go on;
//   - who runs beside a foreground closes rarely, so that its short commands need not
//     each wait at the gate on the device: some of them pass it when it closes.
//
// A Chooser belongs to one device and to one goroutine. A decision allocates
// nothing.
package choose

import (
	"fmt"
	"time"
)

// Costs are what a device charges for each way, as measured on it. A field that
// is zero has its default, which is an H200's (driver 580.159.04).
type Costs struct {
	// Suspend is a suspension beside a busy process. Default 0.6 ms.
	Suspend time.Duration
	// Resume is the way back. Default 0.4 ms.
	Resume time.Duration
	// Switch is the hardware's own switch away from a running kernel. Default
	// 180 us.
	Switch time.Duration
	// SetSlice is a change of time slice on a busy device, during which the driver
	// does nothing else. Default 1.5 ms.
	SetSlice time.Duration
	// Slice is the driver's own time slice. Default 2048 us.
	Slice time.Duration
}

// WithDefaults fills in what is zero.
func (c Costs) WithDefaults() Costs {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Suspend, 600*time.Microsecond)
	def(&c.Resume, 400*time.Microsecond)
	def(&c.Switch, 180*time.Microsecond)
	def(&c.SetSlice, 1500*time.Microsecond)
	def(&c.Slice, 2048*time.Microsecond)
	return c
}

// holdAfter is how long a request may last before an armed background is
// suspended. The foreground has the device from its start to the end of its own
// first time slice; a suspension asked for then is through just before that. However
// dear one is, a request that is over within holdAtLeast does not want it: beside a
// suspension it would wait longer than for the switch alone.
func (c Costs) holdAfter() time.Duration { return max(holdAtLeast, c.Slice-c.Switch-c.Suspend) }

// long is the length from which on a request that is known to be long has the
// background suspended from its start: one that ends sooner is through before the
// resumption would have paid.
func (c Costs) long() time.Duration { return c.holdAfter() + c.Resume }

// turn is TurnLength, or longer where a turn would cost more than 4 % of it.
func (c Costs) turn() time.Duration { return max(TurnLength, 25*(c.Suspend+c.Resume)) }

// sliceEvery is SliceEvery, or longer where a change would take more than 1 % of it.
func (c Costs) sliceEvery() time.Duration { return max(SliceEvery, 100*c.SetSlice) }

const (
	// Armed is the time slice of an armed task, the shortest that the driver takes.
	Armed = time.Microsecond
	// Besides is the time slice of a background that runs beside a foreground bound
	// by the CPU: the driver's own. Measured with a decode beside a training: slices of
	// 1 ms cost the training a tenth more than this and the decode gained nothing; those
	// of 8 ms gave the training a tenth more and cost the decode a third of its P99.
	Besides = 2048 * time.Microsecond
	// A slice below this is armed: with it two busy tasks stand still, or nearly.
	shortest = 300 * time.Microsecond

	// TurnLength is how long one of several armed backgrounds runs before the next.
	// A turn costs about a suspension and a resumption, 1 ms: 2 % of this.
	TurnLength = 50 * time.Millisecond
	// SliceEvery is the least time between a change of a task's slice and the next, unless
	// that lets it run beside a foreground.
	SliceEvery = 250 * time.Millisecond
	// AckLimit is how long a suspension may be without an answer before the task
	// counts as one that cannot be suspended.
	AckLimit = 20 * time.Millisecond
	// Loss is the most that a background loses a request beyond what the foreground
	// used of the device.
	Loss = 1500 * time.Microsecond

	// holdAtLeast is the least time after which a request has an armed background
	// suspended.
	holdAtLeast = time.Millisecond
	// recent is how long a task counts as one that uses the device after it last had
	// work.
	recent = time.Second
	// patience is how long a request may last before time slices are changed beside
	// it.
	patience = 20 * time.Millisecond
	// A wait at the gate before each command costs the device 2.3 us, measured with
	// kernels of 50 us. Where a background runs beside a foreground its gate closes
	// rarely, and then it does not matter whether it stops at once or after so long.
	looseFor   = 20 * time.Millisecond
	looseMost  = 256
	looseLeast = 32
	// settled is the least time between two entries into the regime in which
	// backgrounds run beside. It is left at once when that was a mistake.
	settled = time.Second
	// late is how long after a gate was closed a command may turn up that had passed
	// it.
	late = 2 * time.Millisecond
)

// Order is what is to be done with a task. The zero Order has its gate closed and
// its channel groups as the driver made them.
type Order struct {
	Open   bool          // the gate
	Hold   bool          // the compute groups are to stand still
	Slice  time.Duration // of the compute groups; 0: the driver's own
	Loose  int           // so many commands a queue need not wait at the gate on the device; 0: all wait there
	Reason Reason
}

// Reason says why an order is as it is.
type Reason uint8

// The reasons.
const (
	Unjudged      Reason = iota
	Runs                 // the policy lets it run
	Outranked            // the policy keeps it out: gate
	Switched             // the same, and the hardware switches at once: armed
	LongRequest          // suspended: the foreground's requests are long
	RequestGrew          // suspended: this request of the foreground is longer than most
	Unarmed              // suspended: nothing else stops it soon
	LongKernels          // suspended: its own kernels are long
	NotItsTurn           // another armed one runs
	WaitsForStop         // its turn, as soon as the one before stands still
	OverGap              // left suspended: the next request is near
	WaitsForSlice        // as that, once its time slice is no longer the shortest
	RunsBeside           // runs beside a foreground that is bound by the CPU
	Compared             // kept out for a moment, to see whether that is faster alone
)

var reasons = [...]string{
	Unjudged:      "not decided yet",
	Runs:          "runs",
	Outranked:     "kept out by the policy",
	Switched:      "kept out by the policy, armed",
	LongRequest:   "suspended for a foreground with long requests",
	RequestGrew:   "suspended for a request that grew long",
	Unarmed:       "suspended, as it is not armed",
	LongKernels:   "suspended, as its kernels are long",
	NotItsTurn:    "waits for its turn among the armed",
	WaitsForStop:  "waits until the one before it stands still",
	OverGap:       "left suspended between frequent requests",
	WaitsForSlice: "suspended until its time slice suits a foreground that is bound by the CPU",
	RunsBeside:    "runs beside a foreground that is bound by the CPU",
	Compared:      "kept out for a moment, to see whether the foreground is faster alone",
}

// String is the reason as listings show it.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Regime is how the backgrounds of a device are prepared for its foreground.
type Regime uint8

// The regimes.
const (
	Plain  Regime = iota // no foreground, or somebody who cannot be suspended: time slices are the driver's
	Arm                  // time slices are minimal
	Beside               // time slices suit a foreground that comes and goes
	Share                // they run at the same time: all are clients of MPS
)

// String is "plain", "armed", "beside" or "shared".
func (r Regime) String() string {
	switch r {
	case Plain:
		return "plain"
	case Arm:
		return "armed"
	case Beside:
		return "beside"
	case Share:
		return "shared"
	}
	return fmt.Sprintf("Regime(%d)", uint8(r))
}
