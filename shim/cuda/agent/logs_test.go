package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLogThatNobodyReadsIsNotWaitedFor has a pipe that is full: what does not go into it is lost, and who
// writes goes on.
func TestLogThatNobodyReadsIsNotWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	const variable = "XMSCHED_TEST_LOG"
	t.Setenv(variable, path)
	if logOf(variable) != nil {
		t.Error("a pipe that nobody opened is written to")
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	w := logOf(variable)
	if w == nil {
		t.Fatal("a pipe that somebody reads is not written to")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		line := make([]byte, 1000)
		for range 1000 {
			_, _ = w.Write(line)
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("who writes waits for who reads")
	}
}

// TestLogGoesOnAfterWhatWasLost has a pipe that is full for a while.
func TestLogGoesOnAfterWhatWasLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	const variable = "XMSCHED_TEST_LOG"
	t.Setenv(variable, path)
	lines := json.NewEncoder(logOf(variable))
	for range 1000 {
		_ = lines.Encode(strings.Repeat("x", 1000))
	}
	all := make([]byte, 1<<20)
	if n, err := reader.Read(all); err != nil || n == 0 {
		t.Fatalf("%d bytes were written: %v", n, err)
	}
	if err := lines.Encode("last"); err != nil {
		t.Fatal(err)
	}
	if n, err := reader.Read(all); err != nil || !strings.Contains(string(all[:n]), "last") {
		t.Errorf("after a full pipe was emptied: %q, %v", all[:n], err)
	}
}

// TestLogThatCannotBe names what is no file to add to.
func TestLogThatCannotBe(t *testing.T) {
	const variable = "XMSCHED_TEST_LOG"
	for _, path := range []string{"", t.TempDir(), "/nowhere/at/all"} {
		t.Setenv(variable, path)
		if logOf(variable) != nil {
			t.Errorf("%q is written to", path)
		}
	}
	t.Setenv(variable, "/dev/full")
	if w := logOf(variable); w == nil {
		t.Error("a full disk's file is not opened")
	} else if n, err := w.Write([]byte("line\n")); n != 5 || err != nil {
		t.Errorf("on a full disk: %d, %v", n, err)
	}
}
