package e2e

import (
	"strconv"
	"testing"
	"time"
)

// TestPerProcess has a job whose processes are tasks by themselves: what is said to
// one is said to that one alone, and it is stopped while the other goes on.
func TestPerProcess(t *testing.T) {
	w := newWorld(t)
	w.daemon()
	j := w.job("split", "fs", "--per-process")
	tasks := map[uint64]int{} // pid by task
	eventually(t, "a task for each process", func() bool {
		clear(tasks)
		for _, r := range w.list("split") {
			if r.Task != 0 && r.Mode != "" {
				tasks[r.Task] = r.PID
			}
		}
		return len(tasks) == 2
	})
	j.allGetOn()
	for _, pid := range tasks {
		if text, code := w.run("xcli", "hint", "--pid", strconv.Itoa(pid), "--priority", "off"); code != 0 {
			t.Fatalf("exit %d: %s", code, text)
		}
		break
	}
	eventually(t, "one of the two to stand while the other gets on", func() bool {
		before := j.counts()
		time.Sleep(300 * time.Millisecond)
		after := j.counts()
		a, b := after[0]-before[0], after[1]-before[1]
		return min(a, b) <= slack && max(a, b) > slack
	})
}
