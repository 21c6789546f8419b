package xserver

import (
	"os"
	"path/filepath"
	"testing"

	mem "xmsched/memory"
)

// kernelFiles lays out what the kernel would show.
func kernelFiles(t *testing.T, files map[string]string) hostFiles {
	t.Helper()
	h := hostFiles{root: t.TempDir()}
	for name, text := range files {
		path := filepath.Join(h.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// TestCase29HostMemoryByCgroup reads what is left of the host and of a process's cgroup,
// of both versions, where one around it has less.
func TestCase29HostMemoryByCgroup(t *testing.T) {
	h := kernelFiles(t, map[string]string{
		"proc/meminfo":                                   "MemTotal:       131072000 kB\nMemAvailable:   8388608 kB\n",
		"proc/7/cgroup":                                  "0::/jobs/a\n",
		"sys/fs/cgroup/jobs/memory.max":                  "6442450944\n",
		"sys/fs/cgroup/jobs/memory.current":              "5368709120\n",
		"sys/fs/cgroup/jobs/a/memory.max":                "max\n",
		"sys/fs/cgroup/jobs/a/memory.current":            "1073741824\n",
		"proc/8/cgroup":                                  "5:cpu,memory:/old\n1:name=systemd:/x\n",
		"sys/fs/cgroup/memory/old/memory.limit_in_bytes": "2147483648\n",
		"sys/fs/cgroup/memory/old/memory.usage_in_bytes": "3221225472\n",
		"proc/9/cgroup":                                  "0::/../elsewhere\n",
		"sys/fs/cgroup/free/memory.max":                  "9223372036854771712\n",
		"sys/fs/cgroup/free/memory.current":              "1\n",
		"proc/10/cgroup":                                 "0::/free\n",
	})
	if b, ok := h.available(); !ok || b != 8*mem.GiB {
		t.Errorf("available %v, %v", b, ok)
	}
	for pid, want := range map[int]mem.Bytes{7: mem.GiB, 8: 0} {
		if left, bounded := h.left(h.cgroup(pid)); !bounded || left != want {
			t.Errorf("process %d: %v left, %v; want %v", pid, left, bounded, want)
		}
	}
	for _, pid := range []int{9, 10, 11} {
		if left, bounded := h.left(h.cgroup(pid)); bounded {
			t.Errorf("process %d: bounded by %v", pid, left)
		}
	}
	if _, ok := (hostFiles{root: t.TempDir()}).available(); ok {
		t.Error("memory is known where there is no /proc")
	}
}
