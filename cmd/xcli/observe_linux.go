package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"

	"xmsched/nvx/sheet"
)

// commandLine is how a process was started; nil: not known.
func commandLine(pid int) []string {
	if pid == 0 {
		return nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
}

func processName(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(text))
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

// onlyDevice is the memory of the one GPU that has a sheet; 0 when there are
// none or several.
func onlyDevice(dir string) uint64 {
	sheets, err := sheet.List(dir)
	if err != nil {
		return 0
	}
	var bytes uint64
	for _, s := range sheets {
		if s.Simulated {
			continue
		}
		if bytes != 0 {
			return 0
		}
		bytes = s.Device.MemoryBytes
	}
	return bytes
}
