package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestHostMemoryPassesOn has three programs that do not fit together have what they may have
// of the host, and that become less and more again: what one gave up comes to another, slots of
// 32 and of 8 MiB, every word is right all the time, and what nobody takes is gone after a while.
func TestHostMemoryPassesOn(t *testing.T) {
	const slot, part = 32 << 20, 8 << 20
	w, _ := memoryWorld(t, "256MiB", "--policy", "RR", "--memory-policy", "allocation", "--host-budget", "640MiB")
	programs := []*proc{w.passesOver("a", 4, 40, 100_000), w.passesOver("bb", 4, 40, 100_000), w.passesOver("ccc", 4, 40, 100_000)}
	for _, p := range programs {
		p.progress()
	}
	set := func(budget string) {
		t.Helper()
		if out, code := w.run("xcli", "memory", "set", "--host-budget", budget); code != 0 {
			t.Fatalf("set --host-budget %s: exit %d: %s", budget, code, out)
		}
	}
	host := func(what string, good func(h hostFigures) bool) {
		t.Helper()
		eventually(t, what, func() bool { return good(w.memory().Host) })
	}
	host("host memory to be made", func(h hostFigures) bool { return h.Pool > 12*slot })
	for range 10 { // what is given up is not taken every time before the daemon lets it go
		set("320MiB")
		host("some to be given up", func(h hostFigures) bool { return h.Passing > 0 || h.Pool <= 320<<20 })
		set("640MiB")
		time.Sleep(100 * time.Millisecond)
		if w.memory().Host.Passed > 0 {
			break
		}
	}
	host("some to come to another", func(h hostFigures) bool { return h.Passed >= slot && h.Passed%part == 0 })
	set("320MiB")
	host("what nobody takes to go", func(h hostFigures) bool { return h.Passing == 0 && h.Pool <= 320<<20 })
	if out, _ := w.run("xcli", "memory", "stats"); !strings.Contains(out, "at most 320 MiB (host budget)") {
		t.Errorf("the host's line: %s", out)
	}
	for _, p := range programs {
		p.progress()
		p.enough()
		p.right()
	}
}
