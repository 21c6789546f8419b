package bpf

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// ask is what /proc tells of a process; what it does not tell is left out.
func ask(pid int) about {
	var a about
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		a.name = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(text) > 0 {
		a.command = strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
	}
	a.devices = devicesOpen(pid)
	return a
}

var deviceFile = regexp.MustCompile(`^/dev/nvidia[0-9]+$`)

// devicesOpen is how many GPUs a process has open; 0: not known.
func devicesOpen(pid int) int {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	open := map[string]bool{}
	for _, e := range entries {
		if target, err := os.Readlink(dir + "/" + e.Name()); err == nil && deviceFile.MatchString(target) {
			open[target] = true
		}
	}
	return len(open)
}
