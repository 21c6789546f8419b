package main

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"xmsched/cmd/internal/cli"
)

// find looks a command up as execvp does. The error carries a shell's exit code:
// 127 not found, 126 not executable.
func find(name, searchPath string) (string, error) {
	if name == "" {
		return "", execError("''", os.ErrNotExist)
	}
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", execError(name, err)
		}
		return name, nil
	}
	var denied error
	for _, dir := range filepath.SplitList(searchPath) {
		path := filepath.Join(dir, name)
		if dir == "" {
			path = "./" + name
		}
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, os.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", execError(name, denied)
	}
	return "", &cli.ExitError{Code: 127, Err: fmt.Errorf("%s: command not found", name)}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	if info.IsDir() {
		return fmt.Errorf("is a directory: %w", os.ErrPermission)
	}
	if unix.Access(path, unix.X_OK) != nil {
		return syscall.EACCES
	}
	return nil
}

// binary is what decides whether a library can be preloaded into a program. For
// a script it is the interpreter of its first line.
type binary struct {
	path        string
	static      bool
	foreign     string // its architecture, if that is not ours
	interpreter string // the dynamic loader it names
	mode        os.FileMode
	uid, gid    uint32
	privileged  bool // has file capabilities
}

// scriptDepth is how many interpreters the kernel follows, about.
const scriptDepth = 4

// inspect reads a program's header. The error says only that it cannot be told.
func inspect(path string) (binary, error) {
	for range scriptDepth {
		b, next, err := inspectOne(path)
		if err != nil || next == "" {
			return b, err
		}
		path = next
	}
	return binary{}, errors.New("too many interpreters")
}

func inspectOne(path string) (b binary, interpreter string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return b, "", fmt.Errorf("inspect the program: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if next := scriptInterpreter(f); next != "" {
		return b, next, nil
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return b, "", fmt.Errorf("inspect the program: %w", err)
	}
	b = binary{path: path, static: true}
	if e.Machine != ownMachine || e.Class != elf.ELFCLASS64 {
		b.foreign = strings.TrimPrefix(e.Machine.String(), "EM_")
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			text, err := io.ReadAll(io.LimitReader(p.Open(), unix.PathMax))
			if err != nil {
				return b, "", fmt.Errorf("inspect the program: %w", err)
			}
			b.static, b.interpreter = false, strings.TrimRight(string(text), "\x00")
		}
	}
	return b, "", b.rights(f)
}

func (b *binary) rights(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("inspect the program: %w", err)
	}
	b.mode = info.Mode()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		b.uid, b.gid = st.Uid, st.Gid
	}
	n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", nil)
	b.privileged = err == nil && n > 0
	return nil
}

func scriptInterpreter(f io.ReaderAt) string {
	line, err := bufio.NewReader(io.NewSectionReader(f, 0, 256)).ReadString('\n')
	if err != nil && err != io.EOF || !strings.HasPrefix(line, "#!") {
		return ""
	}
	if words := strings.Fields(line[2:]); len(words) > 0 {
		return words[0]
	}
	return ""
}

func (b binary) musl() bool { return strings.HasPrefix(filepath.Base(b.interpreter), "ld-musl") }

// unschedulable says why nothing can be preloaded into the program when a user
// with these ids starts it, or "".
func (b binary) unschedulable(uid, gid int) string {
	switch {
	case b.foreign != "":
		return fmt.Sprintf("it is built for another architecture (%s)", b.foreign)
	case b.static:
		return "it is a static binary, and nothing can be preloaded into it (programs that it starts can be)"
	case b.mode&os.ModeSetuid != 0 && int(b.uid) != uid:
		return "it is setuid, and the loader ignores preloaded libraries then"
	case b.mode&os.ModeSetgid != 0 && int(b.gid) != gid:
		return "it is setgid, and the loader ignores preloaded libraries then"
	case b.privileged && uid != 0:
		return "it has file capabilities, and the loader ignores preloaded libraries then"
	}
	return ""
}
