package experiment

import (
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/xserver/client"
)

// Ranges of what a user may ask for. They keep a slip of the finger from
// starting thousands of processes or filling the memory with samples; a
// measurement that makes sense is far inside.
const (
	maxKernelUS   = 10_000_000.0 // also of a request
	maxPauseUS    = 60_000_000.0
	maxRequests   = 1_000_000
	maxPrograms   = 64
	maxInFlight   = 512                 // as the background program
	maxBound      = client.MaxThreshold // commands; as the daemon and xrun
	maxRounds     = 1000
	maxPriority   = 255
	maxRowSeconds = 600.0
)

// Validate says what is wrong with the requests.
func (r Requests) Validate() error {
	return limit.First(
		limit.Check("request-us", r.RequestUS, 1, maxKernelUS),
		limit.Check("kernels", r.Kernels, 1, 1000),
		limit.Check("count", r.Count, 1, maxRequests),
		limit.Check("gap-us", r.GapUS, 0, maxPauseUS),
		limit.Check("burst", r.Burst, 0, maxRequests),
		limit.Check("pause-us", r.PauseUS, 0, maxPauseUS),
		limit.Check("period-us", r.PeriodUS, 0, maxPauseUS),
		limit.Check("priority", r.Priority, -maxPriority, maxPriority),
	)
}

// Validate says what is wrong with the load.
func (l Load) Validate() error {
	return limit.First(
		limit.Check("backgrounds", l.Programs, 1, maxPrograms),
		limit.Check("background-us", l.KernelUS, 1, maxKernelUS),
		limit.Check("in-flight", l.InFlight, 1, maxInFlight),
		limit.Check("group", l.Group, 0, max(l.InFlight, 1)),
		limit.Check("threshold", l.Threshold, 0, maxBound),
		limit.Check("batch", l.Batch, 0, maxBound),
		limit.Check("idle", l.Idle, 0, time.Minute),
		limit.Check("priority of the backgrounds", l.Priority, -maxPriority, maxPriority),
	)
}
