package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// row is a program's line of xcli memory stats.
func (m memoryFigures) row(name string) memoryRow {
	for _, r := range m.Processes {
		if r.Name == name {
			return r
		}
	}
	return memoryRow{}
}

// TestCase27WhatCannotMoveIsNamed has a program with unified memory and mappings of its own: each is
// counted and named, and gone when it is freed. What it has of a pool can move, in chunks of 32 MiB.
func TestCase27WhatCannotMoveIsNamed(t *testing.T) {
	w, _ := memoryWorld(t, "512MiB")
	p := w.xrun([]string{"--name", "pins"}, filepath.Join(built, "pins"), "48", "16", "64")
	eventually(t, "all to be counted", func() bool { return w.memory().row("pins").Pinned == 80<<20 })
	r := w.memory().row("pins")
	for kind, want := range map[string]uint64{"pools": 0, "unified memory": 16 << 20, "mapped by the program": 64 << 20} {
		if r.PinnedBy[kind] != want {
			t.Errorf("%s: %d bytes, want %d", kind, r.PinnedBy[kind], want)
		}
	}
	if r.Resident != 96<<20 {
		t.Errorf("what can move: %d bytes", r.Resident)
	}
	out, _ := w.run("xcli", "memory", "stats")
	for kind := range r.PinnedBy {
		if !strings.Contains(out, kind) {
			t.Errorf("xcli memory stats does not name %s:\n%s", kind, out)
		}
	}
	if out, code := w.run("xcli", "memory", "set", "--budget", "64MiB"); code != 2 || !strings.Contains(out, "80") {
		t.Errorf("a budget below what is pinned: exit %d: %s", code, out)
	}
	p.signal(syscall.SIGUSR1)
	eventually(t, "nothing to be pinned", func() bool { r := w.memory().row("pins"); return r.Pinned == 0 && len(r.PinnedBy) == 0 })
	p.signal(syscall.SIGUSR1)
	p.right()
}
