package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/compute"
	"xmsched/xserver/client"
)

// library is the file that is preloaded.
const library = "libxmsched.so"

// warned tells the agents of the program, which may be many processes, that it
// has been said already that no daemon answers.
const warned = "XMSCHED_WARNED"

// taskToken is the variable whose value processes of one task have in common.
const taskToken = "XMSCHED_TASK"

// perProcess is the variable that splits a command's processes into tasks of
// their own.
const perProcess = "XMSCHED_PER_PROCESS"

// answerTime is how long a daemon may take to answer before it counts as absent.
const answerTime = time.Second

// start becomes the program. It returns only when that is not possible.
func start(c *cobra.Command, s settings, args []string) error {
	path, err := find(args[0], os.Getenv("PATH"))
	if err != nil {
		return err
	}
	lib, err := libraryFolder()
	if err != nil {
		return err
	}
	if err := judge(c, path, s.requireDaemon); err != nil {
		return err
	}
	env, err := environment(os.Environ(), s, lib)
	if err != nil {
		return err
	}
	dir, noDir := client.RunDir()
	if noDir != nil && s.sim {
		return noDir
	}
	if noDir == nil {
		env = with(env, "XMSCHED_DIR", dir)
	}
	if s.sim {
		if env, err = simulated(c.Context(), env, lib, dir); err != nil {
			return err
		}
	}
	absent := noDir
	if absent == nil {
		var managed bool
		if managed, absent = askDaemon(c.Context(), dir); managed {
			env = with(env, client.MemoryVariable, "1")
		} else if absent == nil && s.memoryLimit > 0 {
			warn(c, "a memory limit is without effect: the daemon does not manage memory; xcli memory stats says why")
		}
	}
	if absent != nil {
		if s.requireDaemon {
			return absent
		}
		warn(c, "%v; the program runs unscheduled until then", absent)
		env = with(env, warned, "1")
	}
	return become(path, args, env)
}

// judge says what cannot be scheduled: a program for another C library is
// refused, because it would not start with ours in it; one into which nothing
// can be loaded is named, and runs, unless it must not run unscheduled.
func judge(c *cobra.Command, path string, must bool) error {
	b, err := inspect(path)
	if err != nil {
		return nil // whoever executes it will say what is wrong
	}
	if b.musl() {
		return fmt.Errorf("%s is built for musl (its interpreter is %s): the preload library needs glibc 2.17 or later; "+
			"run it without xrun, or in an image with glibc", b.path, b.interpreter)
	}
	why := b.unschedulable(os.Geteuid(), os.Getegid())
	if why != "" && must {
		return fmt.Errorf("%s cannot be scheduled, and must not run without a daemon (--require-daemon): %s", b.path, why)
	}
	if why != "" {
		warn(c, "%s cannot be scheduled: %s", b.path, why)
	}
	return nil
}

// askDaemon says whether a daemon answers, and manages memory.
func askDaemon(ctx context.Context, dir string) (memory bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := client.Dial(ctx, dir)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	// One that takes connections and does not answer this is there all the same.
	status, _ := conn.Status(ctx)
	return status.GetMemoryManaged(), nil
}

// environment is what the program starts with, but for the run directory and
// the simulator.
func environment(environ []string, s settings, lib string) ([]string, error) {
	env := environ
	for _, name := range []string{warned, taskToken, perProcess, client.MemoryVariable, client.MemoryLimitVariable} {
		env = without(env, name)
	}
	if s.memoryLimit > 0 {
		env = with(env, client.MemoryLimitVariable, strconv.FormatUint(s.memoryLimit, 10))
	}
	var err error
	if s.perProcess { // without a token the daemon makes a task of each process
		env = with(env, perProcess, "1")
	} else if env, err = withToken(env); err != nil {
		return nil, err
	}
	env = with(env, "LD_PRELOAD", preload(filepath.Join(lib, library), variables(environ)["LD_PRELOAD"]))
	for _, v := range [][2]string{
		{"XMSCHED_LIB", lib},
		{client.LearnVariable, word(s.learn)},
		{client.PinVariable, word(s.pinMemory)},
		{"XMSCHED_NAME", s.name},
		{"XMSCHED_LEVEL", s.level},
		{"XMSCHED_THRESHOLD", count(s.threshold)},
		{"XMSCHED_BATCH", count(s.batch)},
	} {
		if env = without(env, v[0]); v[1] != "" {
			env = with(env, v[0], v[1])
		}
	}
	for _, hint := range compute.HintList() {
		name := client.HintVariable(hint)
		env = without(env, name)
		if text := hint.Format(s.hints); text != "" {
			env = with(env, name, text)
		}
	}
	if s.requireDaemon {
		env = with(env, "XMSCHED_REQUIRE_DAEMON", "1")
	}
	return env, nil
}

// word is what is wished as a variable has it; what is not, it has not.
func word(wished bool) string {
	if wished {
		return "1"
	}
	return ""
}

// count is a number of commands as a variable has it; 0: it has none.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// withToken is an environment whose processes are one task, a new one.
func withToken(env []string) ([]string, error) {
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return nil, fmt.Errorf("draw a token: %w", err)
	}
	return with(env, taskToken, hex.EncodeToString(token[:])), nil
}

// preload puts ours before the libraries that are there, without any other copy
// of it (of an xrun around this one).
func preload(ours, there string) string {
	list := []string{ours}
	for _, l := range strings.FieldsFunc(there, func(r rune) bool { return r == ':' || r == ' ' }) {
		if filepath.Base(l) != library {
			list = append(list, l)
		}
	}
	return strings.Join(list, ":")
}

// checkedFolder returns the folder, absolute, if the library is in it and the
// loader can be told of it.
func checkedFolder(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the libraries: %w", err)
	}
	if strings.ContainsAny(dir, ": ") {
		return "", fmt.Errorf("the library folder %q has a colon or a blank in its name, which LD_PRELOAD cannot hold; "+
			"put it elsewhere and set XMSCHED_LIB", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, library)); err != nil {
		return "", fmt.Errorf("%s is not in %s: run `make build`, or set XMSCHED_LIB to its folder", library, dir)
	}
	return dir, nil
}

// become executes the program in place of this one.
func become(path string, args, env []string) error {
	err := syscall.Exec(path, args, env)
	if errors.Is(err, syscall.ENOEXEC) {
		// No format that the kernel knows: a script without a first line, which
		// shells and execvp give to sh.
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, args[1:]...), env)
	}
	return execError(args[0], err)
}

func execError(name string, err error) error {
	code := 126
	if errors.Is(err, os.ErrNotExist) {
		code = 127
	}
	return &cli.ExitError{Code: code, Err: fmt.Errorf("%s: %w", name, err)}
}
