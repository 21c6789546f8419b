package xserver

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	mem "xmsched/memory"
)

// hostFiles reads what the kernel says of the host's memory. root is where /proc and
// /sys are.
type hostFiles struct{ root string }

// available is MemAvailable; false: not known.
func (h hostFiles) available() (mem.Bytes, bool) {
	text, err := os.ReadFile(filepath.Join(h.root, "proc/meminfo"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "MemAvailable" {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 53)
		return mem.Clamp(kib<<10, mem.MaxBytes), err == nil
	}
	return 0, false
}

// cgroup names a process's cgroup of memory, as a folder; empty: it has none that can
// be seen from here.
func (h hostFiles) cgroup(pid int) string {
	text, err := os.ReadFile(filepath.Join(h.root, "proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return ""
	}
	folder := ""
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || strings.Contains(parts[2], "..") {
			continue
		}
		switch {
		case parts[0] == "0" && folder == "":
			folder = filepath.Join(h.root, "sys/fs/cgroup", parts[2])
		case contains(parts[1], "memory"): // version 1
			folder = filepath.Join(h.root, "sys/fs/cgroup/memory", parts[2])
		}
	}
	return folder
}

func contains(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// left is what is left in a cgroup and those around it; false: nothing bounds them.
func (h hostFiles) left(folder string) (left mem.Bytes, bounded bool) {
	top := filepath.Join(h.root, "sys/fs/cgroup")
	for ; len(folder) >= len(top); folder = filepath.Dir(folder) {
		limit, ok := number(folder, "memory.max", "memory.limit_in_bytes")
		used, known := number(folder, "memory.current", "memory.usage_in_bytes")
		if !ok || !known || limit >= mem.MaxBytes {
			continue
		}
		if n := max(0, limit-used); !bounded || n < left {
			left, bounded = n, true
		}
	}
	return left, bounded
}

// number reads the first of the files that is there; "max" is none.
func number(folder string, names ...string) (mem.Bytes, bool) {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		return mem.Clamp(n, mem.MaxBytes), err == nil
	}
	return 0, false
}
