package plane

import (
	"time"

	"golang.org/x/sys/unix"
)

// lull is the loop's side of calm processes: an epoll of their bells within the loop's.
// It wakes the loop like a bell of its own, or, while rings are many, is not listened
// to but looked at.
type lull struct {
	epoll  int
	events []unix.EpollEvent
	at     time.Duration // next look; 0: it is listened to
	looked time.Duration // last look
	empty  int           // looks in a row that found nothing

	// Rings of all bells in this window, and whether they were many in the last one.
	window time.Duration // when it began
	rings  int
	many   bool

	regime uint64 // the plane's, when it was last asked who is calm
}

const (
	lullWindow = 2 * patience // at least
	lullRings  = 4            // in as long: below that looking costs more than being woken
	lullEmpty  = 2            // looks in vain after which it is listened to again
)

func (l *Loop) openLull() (err error) {
	l.lull.events = make([]unix.EpollEvent, 128)
	if l.lull.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	return l.watch(l.lull.epoll, unix.EPOLLIN|unix.EPOLLET, onLull, 0)
}

// countRing notes a ring, by which is found out whether they are many.
func (l *Loop) countRing() {
	c := &l.lull
	now := l.plane.now
	if took := now - c.window; took >= lullWindow {
		c.many = time.Duration(c.rings)*lullWindow >= lullRings*took
		c.window, c.rings = now, 0
	}
	c.rings++
}

// hearLull takes the bells of calm processes.
func (l *Loop) hearLull() {
	c := &l.lull
	l.plane.delayed = l.plane.now-c.looked > 2*l.plane.lag()
	c.looked = l.plane.now
	n, err := epollNow(c.epoll, c.events, 0)
	if err != nil {
		n = 0
	}
	for i := range c.events[:n] {
		l.ring(c.events[i].Pad)
	}
	if n > 0 {
		c.empty = 0
	} else {
		c.empty++
	}
	switch {
	case n == len(c.events): // there are more
		l.lookAtLull(l.plane.now)
	case c.at == 0 && c.many:
		l.lookAtLull(l.plane.nextLook())
	case c.at != 0 && c.empty >= lullEmpty:
		l.lookAtLull(0)
	case c.at != 0:
		c.at = l.plane.nextLook()
	}
}

// lookAtLull has the lull looked at then, or listened to.
func (l *Loop) lookAtLull(at time.Duration) {
	c := &l.lull
	if (c.at == 0) != (at == 0) {
		ev := unix.EpollEvent{Fd: onLull}
		if at == 0 {
			ev.Events = unix.EPOLLIN | unix.EPOLLET
		}
		if unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, c.epoll, &ev) != nil {
			return
		}
		c.empty = 0
	}
	c.at = at
}

// calm has a process's bell heard with those of the calm, or not, as is right now. A
// bell that moves is reported once more, so that no ring is lost.
func (l *Loop) calm(a *attached) {
	if a.process.calms && l.lull.regime == l.plane.regime && a.process.briskUntil <= l.plane.now {
		return
	}
	calm, muted := l.plane.calm(a.process), a.process.flood.throttled
	if calm == a.process.calms || calm && (!l.lull.many || muted) || l.plane.cfg.Spin > 0 {
		return
	}
	from, to := l.ears(a), l.lull.epoll
	if !calm {
		to = l.epoll
	}
	ev := unix.EpollEvent{Fd: onBell, Pad: a.index}
	if !muted {
		ev.Events = unix.EPOLLIN | unix.EPOLLET
	}
	if unix.EpollCtl(to, unix.EPOLL_CTL_ADD, a.Bell, &ev) != nil {
		return // it is heard where it was
	}
	_ = unix.EpollCtl(from, unix.EPOLL_CTL_DEL, a.Bell, nil)
	a.process.calms = calm
}

// ears is the epoll that a process's bell is in.
func (l *Loop) ears(a *attached) int {
	if a.process != nil && a.process.calms {
		return l.lull.epoll
	}
	return l.epoll
}

// recalm asks again who is calm after something changed that this depends on.
func (l *Loop) recalm() {
	if l.lull.regime == l.plane.regime {
		return
	}
	for _, a := range l.attached {
		if a.process.calms {
			l.calm(a)
		}
	}
	l.lull.regime = l.plane.regime
}
