package board

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2), from linux/futex.h. Never the private form: the two
// sides are different processes.
const (
	futexWait = 0
	futexWake = 1
)

// wakeAll wakes every waiter on the word, in every process.
func wakeAll(word *uint32) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1<<31-1, 0, 0, 0)
}

// waitWhile sleeps until the word is no longer old, or the limit is over, or
// for no reason at all; the caller looks again.
func waitWhile(word *uint32, old uint32, limit time.Duration) error {
	ts := unix.NsecToTimespec(limit.Nanoseconds())
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(old), uintptr(unsafe.Pointer(&ts)), 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR, unix.ETIMEDOUT:
		return nil
	}
	return os.NewSyscallError("futex", errno)
}
