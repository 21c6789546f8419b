package mover

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"

	"xmsched/memory"
)

// HostMemory reads what is known of the machine's memory: what is available, and
// the tightest limit of the control groups (version 2) that the process is in.
// What cannot be read is left out.
func HostMemory() memory.HostFigures {
	var f memory.HostFigures
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		f.Available = available(text)
	}
	if text, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		f.Limit, f.Used = group("/sys/fs/cgroup", own(text))
	}
	return f
}

// available is the line MemAvailable of /proc/meminfo.
func available(meminfo []byte) memory.Bytes {
	lines := bufio.NewScanner(bytes.NewReader(meminfo))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 44)
			return memory.Bytes(n) * memory.KiB
		}
	}
	return 0
}

// own is the path of the version 2 line of /proc/self/cgroup.
func own(cgroup []byte) string {
	lines := bufio.NewScanner(bytes.NewReader(cgroup))
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "0::"); ok {
			return path.Clean("/" + at)
		}
	}
	return "/"
}

// group is the limit, and what is used of it, of that of a group and those above
// it which leaves the least.
func group(root, at string) (limit, used memory.Bytes) {
	for ; ; at = path.Dir(at) {
		most, bounded := number(path.Join(root, at, "memory.max"))
		now, known := number(path.Join(root, at, "memory.current"))
		if bounded && known && (limit == 0 || most-now < limit-used) {
			limit, used = max(most, 1), now
		}
		if at == "/" {
			return limit, used
		}
	}
}

// number reads a file of one number; "max" is none.
func number(file string) (memory.Bytes, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 63)
	return memory.Clamp(n, memory.MaxBytes), err == nil
}
