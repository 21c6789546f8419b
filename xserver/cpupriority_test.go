package xserver_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"xmsched/xserver/client"
)

// TestFollowsNice has CHPF follow the processes' niceness: at the change of the
// policy at once, later within its look, and for tasks that come later.
func TestFollowsNice(t *testing.T) {
	dir := rundir(t)
	serve(t, dir)
	c := dial(t, dir)
	mine := join(t, c, client.Registration{TaskToken: "mine"})
	other := spawn(t, part{Role: "player", Dir: dir, Registration: client.Registration{TaskToken: "other"}})
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil || 20-raw > 14 {
		t.Skipf("our own niceness is %d (%v), which leaves no room for more", 20-raw, err)
	}
	nice := func(more int) {
		t.Helper()
		if err := unix.Setpriority(unix.PRIO_PROCESS, other.PID, 20-raw+more); err != nil {
			t.Fatal(err)
		}
	}
	nice(5)
	if _, err := c.SetPolicy(t.Context(), "chpf"); err != nil {
		t.Fatal(err)
	}
	modes := func(own, theirs string) func() bool {
		return func() bool {
			found := 0
			for _, task := range list(t, c) {
				want := theirs
				if task.Id == mine.Task {
					want = own
				}
				for _, d := range task.Devices {
					if d.Mode == want {
						found++
					}
				}
			}
			return found == 2
		}
	}
	if !modes("top", "bounded")() {
		t.Errorf("right after the change: %v", list(t, c))
	}
	if os.Geteuid() != 0 {
		return // only root takes niceness back
	}
	nice(-5)
	eventually(t, "the other to go first", modes("bounded", "top"))
	nice(0)
	eventually(t, "both to be equal", modes("top", "top"))
}
