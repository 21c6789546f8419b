package xserver

import (
	"os"
	"path/filepath"
	"testing"

	mem "xmsched/memory"
	"xmsched/xserver/internal/plane"
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

// TestCgroupsAreAskedOnce: with hundreds of processes in one cgroup its files are read
// once a look, and each process has an even part of what is left.
func TestCgroupsAreAskedOnce(t *testing.T) {
	folders := map[plane.ProcessID]string{1000: "", 1001: "free", 1002: "other"}
	for id := range plane.ProcessID(256) {
		folders[id] = "job"
	}
	asked := map[string]int{}
	parts := evenly(folders, func(folder string) (mem.Bytes, bool) {
		asked[folder]++
		return 256 * mem.MiB, folder != "free"
	})
	if asked["job"] != 1 || asked["other"] != 1 || asked[""] != 0 {
		t.Errorf("asked %v times", asked)
	}
	if len(parts) != 257 || parts[0] != mem.MiB || parts[255] != mem.MiB || parts[1002] != 256*mem.MiB {
		t.Errorf("%d parts, of which %v, %v and %v", len(parts), parts[0], parts[255], parts[1002])
	}
}

// TestCgroupsOfProcesses: that of a new process is known at once, that of one which moved
// within ten looks, and one that is gone is forgotten.
func TestCgroupsOfProcesses(t *testing.T) {
	var h homes
	reads, home := 0, "here"
	look := func(pids map[plane.ProcessID]int) map[plane.ProcessID]string {
		return h.of(pids, func(int) string { reads++; return home })
	}
	all := map[plane.ProcessID]int{}
	for id := range plane.ProcessID(100) {
		all[id] = int(id) + 1
	}
	if f := look(all); reads != 100 || len(f) != 100 || f[99] != "here" {
		t.Fatalf("%d of 100 read, %d known", reads, len(f))
	}
	reads, home = 0, "there"
	var f map[plane.ProcessID]string
	for range homeLooks {
		f = look(all)
	}
	if reads != 100 {
		t.Errorf("100 processes were asked about %d times in %d looks", reads, homeLooks)
	}
	for id, folder := range f {
		if folder != "there" {
			t.Errorf("process %d moved, and is taken to be %s", id, folder)
		}
	}
	if f := look(map[plane.ProcessID]int{5: 6}); len(f) != 1 {
		t.Errorf("%d known of 1", len(f))
	}
}
