package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// daemonLoad gives the daemon's share of one core over the span, in per cent.
func (l *Lab) daemonLoad(ctx context.Context, span time.Duration) (float64, error) {
	begun := time.Now()
	before, err := cpuTime(l.DaemonPid())
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(span):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	after, err := cpuTime(l.DaemonPid())
	if err != nil {
		return 0, err
	}
	return 100 * (after - before).Seconds() / time.Since(begun).Seconds(), nil
}

// cpuTime reads the user and system time of a process. The unit of
// /proc/<pid>/stat is USER_HZ, which is 100 on every Linux that Go runs on; so
// the span must be some seconds for 0.1 % to show.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the daemon's CPU time: %w", err)
	}
	return parseCPUTime(b)
}

func parseCPUTime(stat []byte) (time.Duration, error) {
	// The command's name, in parentheses, may hold blanks and parentheses.
	i := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[i+1:])
	const utime, stime = 11, 12 // counted from the state, the first field after the name
	if i < 0 || len(fields) <= stime {
		return 0, errors.New("read CPU time: the line is too short")
	}
	total := 0
	for _, f := range [][]byte{fields[utime], fields[stime]} {
		ticks, err := strconv.Atoi(string(f))
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		total += ticks
	}
	return time.Duration(total) * 10 * time.Millisecond, nil
}
