package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// container starts a program, in this place of a script, as another user in
// namespaces of its own: for processes, with a /proc that shows no others; for
// System V and POSIX memory; for the network; with a /dev/shm of its own.
func (w *world) container(name, script string) *proc {
	w.t.Helper()
	return w.start(name, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--net", "--mount", "/bin/sh", "-c",
		`mount -t tmpfs none /dev/shm && exec setpriv --reuid=65534 --regid=65534 --clear-groups /bin/sh -c "$0"`, script)
}

// TestCase38Container has unmodified programs run under the real preload library
// and agent in containers. What they have in common with the daemon is the run
// directory, and with each other the place of their simulated device.
func TestCase38Container(t *testing.T) {
	w := newWorld(t)
	w.public()
	if out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--ipc", "--net", "--mount", "/bin/sh", "-c",
		"mount -t tmpfs none /dev/shm && setpriv --reuid=65534 --regid=65534 --clear-groups /bin/true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v: %s", err, out)
	}
	daemon := w.daemon("--shared")
	place := filepath.Join(filepath.Dir(w.dir), "place")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(place, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(place, "sim.sock")
	w.env = append(w.env, "XMSCHED_SIM_SOCKET="+socket, "LD_LIBRARY_PATH="+filepath.Join(built, "lib", "sim"))
	line := func(name string, priority int) string {
		return fmt.Sprintf("exec %s --name %s --priority %d -- %s", bin("xrun"), name, priority, strings.Join(spinner(4), " "))
	}
	low := w.container("low", fmt.Sprintf("%s sim-device --socket %s & while ! test -S %s; do sleep 0.05; done; %s",
		bin("xrun"), socket, socket, line("low", 0)))
	w.scheduled("low")
	low.progress()
	high := w.container("high", line("high", 10))
	w.scheduled("high")
	high.progress()
	low.stands()
	rows := w.list("low", "high")
	if len(rows) != 2 || rows[0].UID != nobody || rows[1].UID != nobody || rows[0].Mode != "bounded" || rows[1].Mode != "top" {
		t.Fatalf("%+v", rows)
	}
	for _, r := range rows { // by their numbers here: in their own namespaces both are 1
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.PID)); err != nil || !strings.Contains(string(text), "spinner") {
			t.Errorf("pid %d of %s is %q, %v", r.PID, r.Name, text, err)
		}
	}
	if out, code := w.as(nobody, "xcli", "hint", "--pid", fmt.Sprint(rows[0].PID), "--priority", "20"); code != 0 {
		t.Fatalf("hint: exit %d: %s", code, out)
	}
	low.progress()
	high.stands()
	daemon.signal(syscall.SIGKILL)
	high.progress()
	w.daemon("--shared")
	w.scheduled("low", "high")
	if rows := w.list("low"); len(rows) != 1 || rows[0].Priority != 20 {
		t.Errorf("after the restart: %+v, want priority 20", rows)
	}
	high.stands()
	low.progress()
}
