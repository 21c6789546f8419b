package doors

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSanitized runs the hosts with everything, library, fake driver and host,
// built with AddressSanitizer and UndefinedBehaviorSanitizer.
func TestSanitized(t *testing.T) {
	if testing.Short() {
		t.Skip("short: builds everything once more")
	}
	runtime, err := exec.Command("gcc", "-print-file-name=libasan.so").Output()
	if err != nil || !filepath.IsAbs(strings.TrimSpace(string(runtime))) {
		t.Skip("gcc has no AddressSanitizer here")
	}
	if err := build("asan"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(built, "asan")
	asan := run{driver: "-", bare: true, env: []string{
		"LD_LIBRARY_PATH=" + filepath.Join(dir, "hosts", "fake"),
		"LD_PRELOAD=" + strings.TrimSpace(string(runtime)) + ":" + filepath.Join(dir, "libxmsched.so"),
	}}
	for _, args := range [][]string{
		{"init", "work", "launch", "1000", "threads", "4", "2000", "work"},
		{"init", "work", "fork", "init", "work", "fork", "launch", "100"},
		{"fork", "init", "work", "threads", "2", "100"},
		{"init", "exec", filepath.Join(dir, "hosts", "linked_run"), "init", "work"},
	} {
		r := asan
		if slices.Contains(args, "fork") { // the leak check of a child waits for what another thread held at the fork
			r.env = append(slices.Clone(asan.env), "ASAN_OPTIONS=detect_leaks=0")
		}
		r.sanitized(t, filepath.Join(dir, "hosts", "linked_run"), args...)
	}
	for _, name := range []string{"all", "graph", "made", "goes", "forked", "leaves"} {
		r, _ := channelsOnDevice(t)
		r.bare = true
		r.env = append(r.env, asan.env[1], "ASAN_OPTIONS=detect_leaks=0") // of the simulated driver, which is not looked at here
		r.sanitized(t, filepath.Join(dir, "channels", "channels_run"), name, "3")
	}
	old := asan
	old.env = append([]string{"FAKE_TRAP=1"}, asan.env...)
	old.env[1] = "LD_LIBRARY_PATH=" + filepath.Join(dir, "hosts", "old")
	for _, r := range []run{asan, old} {
		r.stdin = strings.Join([]string{
			"default cuInit", "self cuInit", "next cuInit", "dlsym cuInit", "error cuNoSuchFunction", "gpa1 cuGetProcAddress 11030 0",
			"gpa1 cuLaunchKernel 11030 2", "gpa1 cuNoSuchFunctionAsync 12000 0", "gpa1 cuStreamGetPriority 12000 0", "dlsym cudnnCreate",
		}, "\n")
		r.sanitized(t, filepath.Join(dir, "hosts", "host_ask"))
	}
}

func (r run) sanitized(t *testing.T, path string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := r.command(ctx, path, args...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	if text := both.String(); err != nil || strings.Contains(text, "Sanitizer") || strings.Contains(text, "runtime error") {
		t.Errorf("%s %v: %v\n%s", filepath.Base(path), args, err, text)
	}
}
