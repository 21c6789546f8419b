package main

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"xmsched/xserver/client"
)

// sighting is a process that has to do with a GPU, or with us, as /proc shows
// it.
type sighting struct {
	pid  int
	name string
	uid  uint32

	driver  bool   // libcuda or a device file is mapped
	preload bool   // our library is mapped
	agent   bool   // our agent is mapped: it called the driver through us
	xrun    bool   // it was started with xrun, or by something that was
	dir     string // the run directory it was given
	static  bool
	musl    bool
}

// scan looks at the user's processes (as root at all) and returns those that are
// not known and use a GPU, or were started with xrun and cannot be scheduled.
func scan(uid int, known map[int]bool) []sighting {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []sighting
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || known[pid] {
			continue
		}
		s, err := look(pid)
		if err != nil || uid != 0 && int(s.uid) != uid {
			continue // it ended, or is not ours to read
		}
		if s.driver || s.xrun && !s.preload {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b sighting) int { return cmp.Compare(a.pid, b.pid) })
	return found
}

// why says what keeps it from being scheduled by the daemon of dir, or by none
// because of that trouble.
func (s sighting) why(dir string, trouble error) string {
	var absent *client.AbsentError
	switch {
	case s.static:
		return "static binary: nothing can be preloaded"
	case s.musl:
		return "built for musl: the preload library needs glibc"
	case !s.preload && s.xrun:
		return "the preload was dropped (setuid, or LD_PRELOAD was changed)"
	case !s.preload:
		return "not started with xrun"
	case !s.agent:
		return "no call came through the preload: none yet, or the driver was opened with RTLD_DEEPBIND"
	case s.dir != "" && s.dir != dir:
		return "belongs to the daemon of " + s.dir
	case errors.As(trouble, &absent):
		return "daemon absent"
	case trouble != nil:
		return "daemon out of reach"
	}
	return "not registered: refused, forked from a process that used CUDA, or just started (see its standard error)"
}

func look(pid int) (sighting, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	info, err := os.Stat(dir)
	if err != nil {
		return sighting{}, err
	}
	s := sighting{pid: pid}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.uid = st.Uid
	}
	comm, err := os.ReadFile(dir + "/comm")
	if err != nil {
		return sighting{}, err
	}
	s.name = strings.TrimSpace(string(comm))
	if err := s.readMaps(dir + "/maps"); err != nil {
		return sighting{}, err
	}
	if environ, err := os.ReadFile(dir + "/environ"); err == nil {
		for entry := range bytes.SplitSeq(environ, []byte{0}) {
			switch name, value, _ := bytes.Cut(entry, []byte("=")); string(name) {
			case "XMSCHED_TASK", "XMSCHED_PER_PROCESS":
				s.xrun = true
			case "XMSCHED_DIR":
				s.dir = string(value)
			}
		}
	}
	if !s.preload && (s.driver || s.xrun) {
		s.static, s.musl = loader(dir + "/exe")
	}
	return s, nil
}

// readMaps finds the libraries and device files that matter.
func (s *sighting) readMaps(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		slash := strings.IndexByte(line, '/')
		if slash < 0 {
			continue
		}
		s.mapped(line[slash:])
	}
	return lines.Err()
}

func (s *sighting) mapped(file string) {
	name := file[strings.LastIndexByte(file, '/')+1:]
	switch {
	case strings.HasPrefix(name, "libcuda.so"), strings.HasPrefix(file, "/dev/nvidia"):
		s.driver = true
	case strings.HasPrefix(name, "libxmsched.so"):
		s.preload = true
	case strings.HasPrefix(name, "libxagent.so"):
		s.agent = true
	}
}

// loader reads an executable's header: without a dynamic loader it is static.
func loader(exe string) (static, musl bool) {
	f, err := elf.Open(exe)
	if err != nil {
		return false, false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text := make([]byte, min(p.Filesz, 4096))
		if _, err := p.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
			return false, false
		}
		return false, bytes.Contains(text, []byte("ld-musl"))
	}
	return true, false
}
