package xserver_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"xmsched/xserver/client"
)

// TestFollowsNice has CHPF follow the processes' niceness: at the change of the
// policy at once, later within its look.
func TestFollowsNice(t *testing.T) {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getppid())
	if err != nil || 20-raw > 14 {
		t.Skipf("our own niceness leaves no room for more: %d, %v", 20-raw, err)
	}
	dir := rundir(t)
	serve(t, dir)
	c := dial(t, dir)
	player := func(token string) *child {
		return spawn(t, part{Role: "player", Dir: dir, Registration: client.Registration{TaskToken: token}})
	}
	one, other := player("one"), player("other")
	nice := func(p *child, more int) {
		t.Helper()
		if err := unix.Setpriority(unix.PRIO_PROCESS, p.PID, 20-raw+more); err != nil {
			t.Fatal(err)
		}
	}
	nice(one, 0)
	nice(other, 5)
	if _, err := c.SetPolicy(t.Context(), "chpf"); err != nil {
		t.Fatal(err)
	}
	modes := func(first, second string) func() bool {
		return func() bool {
			found := 0
			for _, task := range list(t, c) {
				want := second
				if int(task.Processes[0].Pid) == one.PID {
					want = first
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
	nice(one, 5)
	eventually(t, "both to be equal", modes("top", "top"))
	if os.Geteuid() == 0 { // nobody else takes niceness back
		nice(other, 0)
		eventually(t, "the other to go first", modes("bounded", "top"))
	}
}
