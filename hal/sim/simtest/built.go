package simtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// freshEnv names the root whose bin and lib are known to be up to date: make sets it
// for the tests, so that each package does not find that out again.
const freshEnv = "XMSCHED_TEST_FRESH"

// all is what `make build` makes.
var all = []string{"bin/xserver", "bin/xcli", "bin/xrun", "bin/xbench", "lib/*.so", "lib/sim/*.so.1", "lib/bench/*"}

// Build puts what `make build` makes, or the files of it that are named, into dir, in
// bin and lib as programs find their libraries. It is made in the repository's own bin
// and lib where that is stale, once for all packages; what is made there later changes
// nothing in dir.
func Build(dir string, files ...string) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(root, "bin"))
	if err != nil {
		return err
	}
	defer unlock()
	if os.Getenv(freshEnv) != root {
		cmd := exec.Command("make", "-s", "-C", root, "build")
		cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { // the outer make's
			return strings.HasPrefix(kv, "MAKE") || strings.HasPrefix(kv, "MFLAGS")
		})
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make build: %w\n%s", err, said)
		}
	}
	if len(files) == 0 {
		files = all
	}
	for _, pattern := range files {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("make build made no %s: %w", pattern, errors.Join(err, fs.ErrNotExist))
		}
		for _, f := range found {
			if err := copyFile(filepath.Join(dir, filepath.Dir(pattern), filepath.Base(f)), f); err != nil {
				return err
			}
		}
	}
	return nil
}

// Built is Build in a folder of the test's.
func Built(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := Build(dir, files...); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyFile(to, from string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	bytes, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, bytes, 0o755)
}

// lock makes a folder and takes its lock: test binaries of several packages build at once.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return func() { _ = f.Close() }, nil
}

func findRoot() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return "", fmt.Errorf("root of the repository: %w", err)
	}
	return root, nil
}
