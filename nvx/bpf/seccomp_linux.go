package bpf

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// returnsEnd is why hooking returns might end the observed process; empty: it
// does not. Of all processes nobody knows who is under a filter.
func returnsEnd(pid int) string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	release := unix.ByteSliceToString(name.Release[:])
	if !killsFiltered(release, runtime.GOARCH) {
		return ""
	}
	if pid != 0 {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil && !filtered(string(status)) {
			return ""
		}
	}
	return fmt.Sprintf("Linux %s may end a program under a seccomp filter, as in containers, at a return that is hooked", release)
}
