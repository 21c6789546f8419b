package bpf

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// same says whether f is the file. Its device is written as in
// /proc/PID/maps, which on some file systems (btrfs, overlays) is not the one that
// stat gives: then the inode has to do.
func same(f *os.File, is file) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Ino == is.inode && info.Mode().IsRegular()
}

// namespace is the number of this process's pid namespace, 0 when it is the
// first one, in which the kernel's own numbers count.
func namespace() (uint32, error) {
	const first = 0xEFFFFFFC // PROC_PID_INIT_INO
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0, fmt.Errorf("find the pid namespace: %w", err)
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("find the pid namespace: no inode")
	}
	if s.Ino == first {
		return 0, nil
	}
	return uint32(s.Ino), nil
}

// clock is the kernel's monotonic clock in nanoseconds, which bpf programs read too.
func clock() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return uint64(t.Nano())
}
