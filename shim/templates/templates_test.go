package templates

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/predictor"
)

// library has models of these kernels, of which nothing was seen.
func library(names ...string) *predictor.Library {
	l := predictor.NewLibrary(predictor.Config{})
	for i, name := range names {
		l.Kernel(predictor.Kernel{Key: predictor.Key{Name: name}}, uint64(i+1))
	}
	return l
}

func names(l *predictor.Library) []string {
	var out []string
	for _, m := range l.Models() {
		out = append(out, m.Kernel().Name)
	}
	slices.Sort(out)
	return out
}

func store(t *testing.T) Store {
	t.Helper()
	return Open(filepath.Join(t.TempDir(), "deep", "templates"))
}

func save(t *testing.T, s Store, kernels ...string) {
	t.Helper()
	if err := s.Save(library(kernels...).Encode(0)); err != nil {
		t.Fatal(err)
	}
}

func TestSavedIsLoadedAndMerged(t *testing.T) {
	s := store(t)
	if l, err := s.Load(); err != nil || l.Len() != 0 {
		t.Fatalf("before anything was saved: %d models, %v", l.Len(), err)
	}
	save(t, s, "a", "b")
	save(t, s, "b", "c")
	l, err := s.Load()
	if err != nil || !slices.Equal(names(l), []string{"a", "b", "c"}) {
		t.Fatalf("loaded %v, %v", names(l), err)
	}
	for path, want := range map[string]os.FileMode{s.Path(): 0o600, filepath.Dir(s.Path()): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %v", path, info.Mode(), err, want)
		}
	}
	if was, err := s.Clear(); !was || err != nil {
		t.Errorf("clear: %v, %v", was, err)
	}
	if was, err := s.Clear(); was || err != nil {
		t.Errorf("clear again: %v, %v", was, err)
	}
}

// TestUnusableStoresAreIgnored has a file of every kind that nobody should believe.
// Each is ignored with a reason, and replaced by the next save where it is ours.
func TestUnusableStoresAreIgnored(t *testing.T) {
	good := library("kernel").Encode(0)
	write := func(data []byte, mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, data, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		make   func(t *testing.T, path string)
		reason string
	}{
		"empty":         {write(nil, 0o600), "empty"},
		"truncated":     {write(good[:len(good)-1], 0o600), "store"},
		"damaged":       {write(append(slices.Clone(good[:len(good)-1]), ^good[len(good)-1]), 0o600), "store"},
		"other version": {write(slices.Concat(good[:8], []byte{99, 0, 0, 0}, good[12:]), 0o600), "version"},
		"anybody's":     {write(good, 0o666), "others may write it"},
		"text":          {write([]byte("#!/bin/sh\n"), 0o600), "store"},
		"link": {func(t *testing.T, path string) {
			other := filepath.Join(t.TempDir(), "other")
			write(good, 0o600)(t, other)
			if err := os.Symlink(other, path); err != nil {
				t.Fatal(err)
			}
		}, "symbolic link"},
		"pipe": {func(t *testing.T, path string) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "regular"},
		"large": {func(t *testing.T, path string) {
			write(good, 0o600)(t, path)
			if err := os.Truncate(path, predictor.MaxStore+1); err != nil {
				t.Fatal(err)
			}
		}, "limit"},
		"another user's": {func(t *testing.T, path string) {
			write(good, 0o600)(t, path)
			if err := os.Chown(path, 12345, -1); err != nil {
				t.Skip(err)
			}
		}, "belongs to user 12345"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Open(t.TempDir())
			if err := os.Chmod(filepath.Dir(s.Path()), 0o700); err != nil {
				t.Fatal(err)
			}
			c.make(t, s.Path())
			l, err := s.Load()
			if ignored := (*IgnoredError)(nil); !errors.As(err, &ignored) || ignored.Path != s.Path() {
				t.Fatalf("loaded %v, %v; want it ignored", names(l), err)
			}
			if l.Len() != 0 || !strings.Contains(err.Error(), c.reason) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%d models; %q, which does not speak of %q in one line", l.Len(), err, c.reason)
			}
			save(t, s, "new")
			if l, err := s.Load(); err != nil || !slices.Equal(names(l), []string{"new"}) {
				t.Errorf("after a save: %v, %v", names(l), err)
			}
		})
	}
}

// TestAProcessWithoutDescriptorsLosesNothing has a program at its limit save: with
// some it gets at the lock and not at what is there.
func TestAProcessWithoutDescriptorsLosesNothing(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: 128, Max: was.Max}
	mine := library("new").Encode(0)
	saved := 0
	for spare := range 8 {
		s := store(t)
		save(t, s, "old")
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		var taken []int
		for fd, err := unix.Open("/dev/null", unix.O_CLOEXEC, 0); err == nil; fd, err = unix.Open("/dev/null", unix.O_CLOEXEC, 0) {
			taken = append(taken, fd)
		}
		for _, fd := range taken[:spare] {
			_ = unix.Close(fd)
		}
		if s.Save(mine) == nil {
			saved++
		}
		for _, fd := range taken[spare:] {
			_ = unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		if l, err := s.Load(); err != nil || !slices.Contains(names(l), "old") {
			t.Errorf("with %d descriptors there is left: %v, %v", spare, names(l), err)
		}
	}
	if saved == 0 || saved == 8 {
		t.Errorf("%d of 8 saved: nothing was tried", saved)
	}
}

// TestUnusableDirectoriesAreNamed: there is no file to blame, or to remove.
func TestUnusableDirectoriesAreNamed(t *testing.T) {
	for reason, make := range map[string]func(at string) error{
		"it is a symbolic link": func(at string) error { return os.Symlink(t.TempDir(), at) },
		"not a directory":       func(at string) error { return os.WriteFile(at, nil, 0o600) },
	} {
		dir := filepath.Join(t.TempDir(), "templates")
		if err := make(dir); err != nil {
			t.Fatal(err)
		}
		l, err := Open(dir).Load()
		if want := "ignored templates in " + dir + ": " + reason; l.Len() != 0 || err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestAnotherUsersDirectoryIsLeftAlone(t *testing.T) {
	s := store(t)
	save(t, s, "a")
	if err := os.Chown(filepath.Dir(s.Path()), 12345, -1); err != nil {
		t.Skip(err)
	}
	before, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	if l, err := s.Load(); err == nil || l.Len() != 0 {
		t.Errorf("loaded %v, %v", names(l), err)
	}
	if err := s.Save(library("b").Encode(0)); err == nil {
		t.Error("saved into another user's directory")
	}
	if after, err := os.ReadFile(s.Path()); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file changed: %v", err)
	}
}

// TestProcessesThatSaveAtOnceLoseNothing has several merge their own kernels.
func TestProcessesThatSaveAtOnceLoseNothing(t *testing.T) {
	s := store(t)
	if dir := os.Getenv("TEMPLATES_WRITER"); dir != "" {
		for i := range 8 {
			if err := Open(dir).Save(library(fmt.Sprintf("%s-%d", os.Getenv("TEMPLATES_NAME"), i)).Encode(0)); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	dir := filepath.Dir(s.Path())
	var writers []*exec.Cmd
	for i := range 4 {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "TEMPLATES_WRITER="+dir, fmt.Sprintf("TEMPLATES_NAME=%d", i))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, cmd)
	}
	for _, cmd := range writers {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a writer: %v", err)
		}
	}
	if l, err := s.Load(); err != nil || l.Len() != 32 {
		t.Errorf("%d models of 32, %v", l.Len(), err)
	}
}

func TestWhatDeadWritersLeftIsRemoved(t *testing.T) {
	s := store(t)
	save(t, s, "a")
	dead, young := filepath.Join(filepath.Dir(s.Path()), ".store123"), filepath.Join(filepath.Dir(s.Path()), ".store456")
	for _, path := range []string{dead, young} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * tempAge)
	if err := os.Chtimes(dead, old, old); err != nil {
		t.Fatal(err)
	}
	save(t, s, "b")
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", dead, err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
}

func TestDirIsTheUsers(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	for _, c := range []struct{ variable, state, want string }{
		{"", "", "/home/u/.local/state/xmsched/templates"},
		{"", "/state", "/state/xmsched/templates"},
		{"", "relative", "/home/u/.local/state/xmsched/templates"},
		{"/mine", "/state", "/mine"},
	} {
		t.Setenv(Variable, c.variable)
		t.Setenv("XDG_STATE_HOME", c.state)
		if got, err := Dir(); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	t.Setenv(Variable, Off)
	if _, err := Dir(); !errors.Is(err, ErrOff) {
		t.Errorf("off: %v", err)
	}
}
