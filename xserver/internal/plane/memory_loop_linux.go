package plane

import (
	"golang.org/x/sys/unix"

	"xmsched/compute"
	"xmsched/memory"
)

// haunting is the loop's side of a process that left and lives on with its memory.
type haunting struct {
	id    ProcessID
	pid   int
	death int // pidfd
}

// part detaches a process from the plane. One that lives on keeps its memory until it
// is dead, which a descriptor of our own tells of.
func (l *Loop) part(a *attached) {
	if l.plane.mem == nil || a.Death < 0 || readable(a.Death) {
		l.plane.Remove(a.ID)
		return
	}
	if !l.plane.Haunt(a.ID) {
		return
	}
	h := haunting{id: a.ID, pid: a.PID, death: -1}
	fd, err := unix.FcntlInt(uintptr(a.Death), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		h.death = fd
		for l.indices++; l.byIndex[l.indices] != nil || l.haunting[l.indices] != (haunting{}); l.indices++ {
		}
		err = l.watch(fd, unix.EPOLLIN, onGhost, l.indices)
	}
	if err != nil {
		l.exorcise(h) // nobody would tell of its death
		return
	}
	l.haunting[l.indices] = h
}

// readable says whether a descriptor can be read without waiting: of a pidfd, that the
// process is dead.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// died says that a process that left is dead now.
func (l *Loop) died(index int32) {
	if h, ok := l.haunting[index]; ok {
		delete(l.haunting, index)
		l.exorcise(h)
	}
}

// cameBack says that a process is attached: what it left behind is its again.
func (l *Loop) cameBack(pid int) {
	for index, h := range l.haunting {
		if pid != 0 && h.pid == pid {
			delete(l.haunting, index)
			l.exorcise(h)
		}
	}
}

func (l *Loop) exorcise(h haunting) {
	l.plane.Bury(h.id)
	if h.death >= 0 {
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, h.death, nil)
		_ = unix.Close(h.death)
	}
}

// SetMemory changes how memory is managed; see Plane.SetMemory.
func (l *Loop) SetMemory(cfg Memory) error {
	var err error
	if cerr := l.call(func() { err = l.plane.SetMemory(cfg) }); cerr != nil {
		return cerr
	}
	return err
}

// SetLimits changes what processes may allocate on a device.
func (l *Loop) SetLimits(of map[ProcessID]memory.Bytes) error {
	return l.call(func() {
		for id, limit := range of {
			l.plane.SetLimit(id, limit)
		}
	})
}

// SetHost tells how much of the host moved memory may take; see Plane.SetHost.
func (l *Loop) SetHost(limit memory.Bytes, by memory.HostLimit, of map[ProcessID]memory.Bytes) error {
	return l.call(func() { l.plane.SetHost(limit, by, of) })
}

// SetCards tells what cards have.
func (l *Loop) SetCards(cards map[compute.Device]Card) error {
	return l.call(func() {
		for id, c := range cards {
			l.plane.SetCard(id, c)
		}
	})
}

// SetLinks tells what devices' links carry by their spec sheets; see Plane.SetLink.
func (l *Loop) SetLinks(rates map[compute.Device]memory.Rate) error {
	return l.call(func() {
		for id, r := range rates {
			l.plane.SetLink(id, r)
		}
	})
}

// SetAwaited says whether processes of before a restart may still come back.
func (l *Loop) SetAwaited(awaited bool) error {
	return l.call(func() { l.plane.SetAwaited(awaited) })
}

// AllHaveTold says whether every process that is attached has told what memory it has.
func (l *Loop) AllHaveTold() (told bool, err error) {
	err = l.call(func() { told = l.plane.AllHaveTold() })
	return told, err
}

// DescribeMemory copies the state of memory for listings; false: it is not managed.
func (l *Loop) DescribeMemory() (s MemoryState, managed bool, err error) {
	err = l.call(func() { s, managed = l.plane.DescribeMemory() })
	return s, managed, err
}
