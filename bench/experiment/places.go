package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"xmsched/xserver/client"
)

// Places is where built things are.
type Places struct {
	Bin string // xrun, xserver, xbench
	Lib string // libxmsched.so, sim/libcuda.so.1, bench/launchloop
}

// MissingError says that a built thing is not where it should be.
type MissingError struct{ Path string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not there: run `make build`, or set XMSCHED_LIB to the folder of the libraries", e.Path)
}

// FindPlaces looks beside the running program, as the other commands do:
// binaries in its folder, libraries in $XMSCHED_LIB, ../lib (built) or
// ../lib/xmsched (installed).
func FindPlaces() (Places, error) {
	exe, err := os.Executable()
	if err != nil {
		return Places{}, fmt.Errorf("find the running program: %w", err)
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return Places{}, fmt.Errorf("find the running program: %w", err)
	}
	p := Places{Bin: filepath.Dir(exe)}
	p.Lib = os.Getenv("XMSCHED_LIB")
	if p.Lib == "" {
		p.Lib = filepath.Join(p.Bin, "..", "lib")
		installed := filepath.Join(p.Lib, "xmsched")
		if _, err := os.Stat(filepath.Join(installed, "libxmsched.so")); err == nil {
			p.Lib = installed
		}
	}
	if p.Lib, err = filepath.Abs(p.Lib); err != nil {
		return Places{}, fmt.Errorf("find the libraries: %w", err)
	}
	return p, nil
}

// Program gives the path of one of our commands.
func (p Places) Program(name string) (string, error) { return existing(filepath.Join(p.Bin, name)) }

// Library gives the path of something built below lib.
func (p Places) Library(elem ...string) (string, error) {
	return existing(filepath.Join(append([]string{p.Lib}, elem...)...))
}

// Complete fails when something is missing that running programs under the
// daemon needs, so that it is found out before minutes of measuring.
func (p Places) Complete() error {
	for _, name := range []string{"xserver", "xrun", "xbench"} {
		if _, err := p.Program(name); err != nil {
			return err
		}
	}
	for _, name := range []string{"libxmsched.so", "libxagent.so"} {
		if _, err := p.Library(name); err != nil {
			return err
		}
	}
	return nil
}

func existing(path string) (string, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", &MissingError{Path: path}
	} else if err != nil {
		return "", fmt.Errorf("look for a built thing: %w", err)
	}
	return path, nil
}

// Commit gives the source's commit: what the Makefile stamped into the program
// (eight digits, "-dirty" behind them when the tree had changes), else what the
// go command did, else the stamp that says that there is none.
func Commit(stamped string) string {
	if stamped != "dev" && stamped != "unknown" && stamped != "" {
		return stamped
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return stamped
	}
	if commit := stampedByGo(info.Settings); commit != "" {
		return commit
	}
	return stamped
}

// stampedByGo gives the commit in the form of the Makefile's, or nothing.
func stampedByGo(settings []debug.BuildSetting) string {
	const digits = 8
	commit, dirty := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), digits)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
}

// interpreter finds the Python that PyTorch's programs are run by: the named one, else
// python3.
func interpreter(named string) (path string, err error) {
	return exec.LookPath(cmp.Or(named, "python3"))
}

// cleanEnv is our environment without what would put a child under xmsched or
// on a simulated device: those are added per child. A log of moves is kept for all.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == client.MemoryLogVariable: // kept
		case strings.HasPrefix(name, "XMSCHED_"), strings.HasPrefix(name, "XSCHED_"):
			continue
		case name == "LD_PRELOAD" && strings.Contains(value, "libxmsched"):
			continue
		}
		env = append(env, kv)
	}
	return env
}
