package bpf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// library is a file that a process has mapped and that is of interest.
type library struct {
	path string // as the process calls it
	file file
	ours bool // the preload library
}

// file identifies a library whatever it is called, also in another container.
type file struct {
	device string
	inode  uint64
}

// librariesIn finds the driver and the preload library in the text of a
// /proc/PID/maps. Every mapping of a file is there; one is enough.
func librariesIn(maps []byte) []library {
	var found []library
	seen := map[file]bool{}
	for line := range bytes.Lines(maps) {
		l, ok := mapped(string(bytes.TrimSuffix(line, []byte("\n"))))
		if !ok || seen[l.file] {
			continue
		}
		seen[l.file] = true
		found = append(found, l)
	}
	return found
}

// mapped reads one line: addresses, rights, offset, device, inode, path.
func mapped(line string) (library, bool) {
	var fields [5]string
	rest := line
	for i := range fields {
		rest = strings.TrimLeft(rest, " ")
		var ok bool
		if fields[i], rest, ok = strings.Cut(rest, " "); !ok {
			return library{}, false
		}
	}
	inode, err := strconv.ParseUint(fields[4], 10, 64)
	if err != nil || inode == 0 {
		return library{}, false
	}
	path := strings.TrimSuffix(strings.TrimLeft(rest, " "), " (deleted)")
	name := filepath.Base(path)
	ours := name == "libxmsched.so"
	// libcuda.so.1 is a link; the file is called by its version.
	if !ours && name != "libcuda.so" && !strings.HasPrefix(name, "libcuda.so.") {
		return library{}, false
	}
	return library{path: path, file: file{fields[3], inode}, ours: ours}, true
}

// libraries finds what a process uses.
func libraries(pid int) ([]library, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	return librariesIn(maps), nil
}

// reach is a path by which this process can open the library of another one: by
// the other's root, or, when the file is no longer there or another one is, by
// what it has mapped, which needs more rights.
func (l library) reach(pid int) (string, error) {
	path := fmt.Sprintf("/proc/%d/root%s", pid, l.path)
	if same(path, l.file) {
		return path, nil
	}
	dir := fmt.Sprintf("/proc/%d/map_files", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("%s is not what process %d has mapped: %w", path, pid, err)
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); same(path, l.file) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not what process %d has mapped, and it cannot be reached otherwise", path, pid)
}

// Users are the processes that have the driver mapped, by number.
func Users() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var users []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if found, err := libraries(pid); err == nil && hasDriver(found) {
			users = append(users, pid)
		}
	}
	return users, nil
}

func hasDriver(found []library) bool {
	for _, l := range found {
		if !l.ours {
			return true
		}
	}
	return false
}
