package workloads

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/bench/internal/limit"
)

// Wake is one end of the floor that the row decision is seen against: how long
// the kernel takes from a write to an eventfd in one process until a thread of
// another that is blocked in epoll_wait runs. No decision can be faster, since
// the daemon sleeps in the same way.
type Wake struct {
	FD    int  // the eventfd, which both processes inherited
	Ring  bool // writes it; otherwise waits for it
	Count int  // writes
}

// Validate says what is wrong with the settings.
func (w Wake) Validate() error {
	return limit.First(
		limit.Check("fd", w.FD, 3, 1023),
		limit.Check("count", w.Count, 1, maxRequests),
	)
}

// RunWake plays its end. The waiting one ends when it is told to.
func RunWake(st Steering, say *Speaker, w Wake) error {
	if err := w.Validate(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if w.Ring {
		return w.ring(st, say)
	}
	return w.wait(st, say)
}

// ring writes, with the pauses of a toggler, which settles twice between two
// ready edges.
func (w Wake) ring(st Steering, say *Speaker) error {
	if err := say.Say(Event{Kind: KindReady}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	one := binary.NativeEndian.AppendUint64(nil, 1)
	at := make([]int64, 0, w.Count)
	for len(at) < w.Count && st.Context.Err() == nil {
		now := MonotonicNS()
		if _, err := unix.Write(w.FD, one); err != nil {
			return fmt.Errorf("write the eventfd: %w", err)
		}
		at = append(at, now)
		time.Sleep(2 * settle)
	}
	return say.SayTimes(at)
}

// wait stamps each return of epoll_wait that brings news.
func (w Wake) wait(st Steering, say *Speaker) error {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make an epoll: %w", err)
	}
	defer unix.Close(ep)
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, w.FD, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(w.FD)}); err != nil {
		return fmt.Errorf("watch the eventfd: %w", err)
	}
	if err := say.Say(Event{Kind: KindReady}); err != nil {
		return err
	}
	const lookMS = 100 // for the end of the run; no news come that way
	events, buf := make([]unix.EpollEvent, 1), make([]byte, 8)
	at := make([]int64, 0, w.Count)
	for st.Context.Err() == nil {
		n, err := unix.EpollWait(ep, events, lookMS)
		now := MonotonicNS()
		if errors.Is(err, unix.EINTR) || err == nil && n == 0 {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the eventfd: %w", err)
		}
		at = append(at, now)
		if _, err := unix.Read(w.FD, buf); err != nil {
			return fmt.Errorf("read the eventfd: %w", err)
		}
	}
	return say.SayTimes(at)
}
