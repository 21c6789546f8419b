package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/bench/workloads"
)

// wakes gives how long a process blocked in epoll_wait took to run after each of
// n writes to its eventfd by another, in us.
func (l *Lab) wakes(ctx context.Context, n int) ([]float64, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	bell := os.NewFile(uintptr(fd), "eventfd")
	defer bell.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout+time.Duration(n)*10*time.Millisecond, errors.New("the wake-ups did not end in time"))
	defer cancel()
	waiter, err := l.wakeEnd(ctx, bell, n, false)
	if err != nil {
		return nil, err
	}
	defer waiter.Kill()
	ringer, err := l.wakeEnd(ctx, bell, n, true)
	if err != nil {
		return nil, err
	}
	defer ringer.Kill()
	if err := ringer.Begin(); err != nil {
		return nil, err
	}
	var rung, woken workloads.EdgeTimes
	if err := edgeTimes(ctx, ringer, &rung); err != nil {
		return nil, err
	}
	_ = waiter.stdin.Close() // its end makes it tell
	if err := edgeTimes(ctx, waiter, &woken); err != nil {
		return nil, err
	}
	us := pairWakes(rung.AtNS, woken.AtNS)
	if len(us) == 0 {
		return nil, errors.New("floor: no wake-up was seen")
	}
	return us, nil
}

// pairWakes gives the time from each write to the first return after it. Unlike
// an edge, a write may find the waiter still asleep from the one before: then
// one return answers both, and each has its own time. A write after the last
// return has none.
func pairWakes(rung, woken []int64) []float64 {
	var us []float64
	j := 0
	for _, at := range rung {
		for j < len(woken) && woken[j] < at {
			j++
		}
		if j == len(woken) {
			break
		}
		us = append(us, float64(woken[j]-at)/1e3)
	}
	return us
}

func (l *Lab) wakeEnd(ctx context.Context, bell *os.File, n int, ring bool) (*Child, error) {
	self, err := l.Places.Program("xbench")
	if err != nil {
		return nil, err
	}
	c, err := Start(Spec{
		Name: "wake", Path: self, Env: l.env, Files: []*os.File{bell},
		Args: []string{"work", "wake", "--fd", "3", "--count", strconv.Itoa(n), "--ring=" + strconv.FormatBool(ring)},
	})
	if err != nil {
		return nil, err
	}
	if _, err := c.Await(ctx, workloads.KindReady); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}
