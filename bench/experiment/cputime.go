package experiment

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// daemonLoad gives the daemon's share of one core over the span, in per cent.
func (l *Lab) daemonLoad(ctx context.Context, span time.Duration) (float64, error) {
	begun := time.Now()
	before, err := cpuTime(l.DaemonPid())
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, span); err != nil {
		return 0, err
	}
	after, err := cpuTime(l.DaemonPid())
	if err != nil {
		return 0, err
	}
	return 100 * (after - before).Seconds() / time.Since(begun).Seconds(), nil
}

// cpuTime reads the user and system time of a process by its clock, which counts ns:
// /proc/<pid>/stat has it in steps of 10 ms, which of a second are 1 %.
func cpuTime(pid int) (time.Duration, error) {
	const cpuClockSched = 2 // of a process: clock_getcpuclockid(3)
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClockSched), &ts); err != nil {
		return 0, fmt.Errorf("read the daemon's CPU time: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
