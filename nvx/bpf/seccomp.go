package bpf

import (
	"fmt"
	"strings"
)

// killsFiltered says whether a kernel of this release ends a program under a
// seccomp filter when it comes back from a function whose return is hooked. Since
// 6.11 that takes a system call of its own, on amd64, which filters do not know;
// since 6.14 they are not asked (systemd issue 34615, opensnitch issue 1205). Stable
// releases in between that have the correction cannot be told by their number.
func killsFiltered(release, machine string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return machine == "amd64" && major == 6 && minor >= 11 && minor < 14
}

// filtered says whether a process is under a seccomp filter, by the text of its
// /proc/PID/status.
func filtered(status string) bool {
	for line := range strings.Lines(status) {
		if mode, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			return strings.TrimSpace(mode) != "0"
		}
	}
	return false
}
