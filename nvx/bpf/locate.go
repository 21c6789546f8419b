package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// library is a file that a process has mapped and that is of interest.
type library struct {
	path string // as the process calls it
	at   string // a range of addresses where it is mapped
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
	return library{path: path, at: fields[0], file: file{fields[3], inode}, ours: ours}, true
}

// libraries finds what a process uses.
func libraries(pid int) ([]library, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	return librariesIn(maps), nil
}

// open opens the library of another process: what it has mapped, which needs
// rights that not everybody has; else by its name, from the other's root, which may
// be a container's.
func (l library) open(pid int) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%s", pid, l.at))
	if err == nil {
		return f, nil
	}
	path := fmt.Sprintf("/proc/%d/root%s", pid, l.path)
	f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it need not be a file
	if err != nil {
		return nil, err
	}
	if !same(f, l.file) {
		return nil, errors.Join(fmt.Errorf("%s is not the file that is mapped", path), f.Close())
	}
	return f, nil
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
