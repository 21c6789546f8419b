package plane

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollNow is epoll_wait behind the Go runtime's back: for waits that are short for
// certain. The runtime looks after every other system call, and takes what a thread
// needs to run Go code from one that stays in it: its watcher then wakes thousands of
// times a second, which was a seventh of what edges cost, and the thread has to get
// back what was taken. Whoever stops the world meanwhile interrupts the wait by a signal.
func epollNow(epfd int, events []unix.EpollEvent, msec int) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(msec), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
