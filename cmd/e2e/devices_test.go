package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair is a program that uses two devices and counts the kernels of each.
type pair struct{ *proc }

// pair starts one on a machine with two devices.
func (w *world) pair(name string, how ...string) pair {
	w.t.Helper()
	step := program(built, "twodevices")
	if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %v\n%s", step, err, out)
	}
	argv := append([]string{filepath.Join(built, "twodevices"), filepath.Join(built, "kernels.ptx"), "20000", "4"}, how...)
	return pair{w.xrun([]string{"--name", name, "--priority", "0"}, argv...)}
}

// counts are what it printed last.
func (p pair) counts() (n [2]uint64) {
	p.t.Helper()
	for old := true; old; { // the channel keeps the first lines
		select {
		case <-p.lines:
		default:
			old = false
		}
	}
	select {
	case line := <-p.lines:
		if _, err := fmt.Sscan(line, &n[0], &n[1]); err != nil {
			p.t.Fatalf("%s prints %q", p.name, line)
		}
	case <-p.ended:
		p.t.Fatalf("%s ended: %s", p.name, p.said())
	case <-time.After(30 * time.Second):
		p.t.Fatalf("%s prints nothing", p.name)
	}
	return n
}

// advances waits until it gets on with both devices, or with one.
func (p pair) advances(devices ...int) {
	p.t.Helper()
	before := p.counts()
	eventually(p.t, fmt.Sprint(p.name, " to get on with devices ", devices), func() bool {
		now := p.counts()
		for _, d := range devices {
			if now[d] == before[d] {
				return false
			}
		}
		return true
	})
}

// standsOn waits until it gets on with a device no more.
func (p pair) standsOn(device int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprint(p.name, " to stand on device ", device), func() bool {
		before := p.counts()
		time.Sleep(300 * time.Millisecond)
		return p.counts()[device]-before[device] <= slack
	})
}

// deviceRow is what xcli says of a process on one device.
type deviceRow struct{ Device, Mode, State string }

// on is what xcli says of a program, by device: those of a pair are two.
func (w *world) on(name string) map[string]deviceRow {
	w.t.Helper()
	out, _ := w.run("xcli", "list", "--json")
	rows := map[string]deviceRow{}
	for line := range strings.Lines(out) {
		var r struct {
			deviceRow
			Name string
		}
		if json.Unmarshal([]byte(line), &r) == nil && r.Name == name && r.Device != "" {
			rows[r.Device] = r.deviceRow
		}
	}
	return rows
}

// twoDevices is a world with two, a daemon, a program that uses both, and the UUID
// of the second.
func twoDevices(t *testing.T, how ...string) (w *world, p pair) {
	t.Helper()
	w = newWorld(t)
	w.env = append(w.env, "XMSCHED_SIM_DEVICES=2")
	w.daemon()
	p = w.pair("both", how...)
	p.advances(0, 1)
	eventually(t, "two devices to be scheduled", func() bool { return len(w.on("both")) == 2 })
	return w, p
}

// rival starts a program of higher priority that sees one device alone.
func (w *world) rival(device int) *proc {
	w.t.Helper()
	w.env = append(w.env, fmt.Sprint("CUDA_VISIBLE_DEVICES=", device))
	p := w.spin("rival", 10)
	w.env = w.env[:len(w.env)-1]
	w.scheduled("rival")
	p.progress()
	return p
}

// TestGatesArePerDevice stops a program on the device where another has more right
// to run, and nowhere else; its thread on the other device never notices.
func TestGatesArePerDevice(t *testing.T) {
	w, both := twoDevices(t)
	for device := range 2 {
		rival := w.rival(device)
		both.standsOn(device)
		for range 5 {
			both.advances(1 - device)
			rival.progress()
		}
		at := ""
		for uuid := range w.on("rival") {
			at = uuid
		}
		rows := w.on("both")
		if len(rows) != 2 || rows[at].Mode != "bounded" {
			t.Errorf("beside a rival on %q: %+v", at, rows)
		}
		for uuid, row := range rows {
			if uuid != at && (row.Mode != "free" || row.State == "gated") {
				t.Errorf("with the device to itself: %+v", row)
			}
		}
		rival.end()
		both.advances(0, 1)
	}
}

// TestOneThreadOnTwoDevices has a thread that uses both devices in turn: stopped on
// one it stands, since it waits there; when it is let go it goes on with both.
func TestOneThreadOnTwoDevices(t *testing.T) {
	w, both := twoDevices(t, "one")
	rival := w.rival(1)
	both.standsOn(1)
	rival.progress()
	rival.end()
	both.advances(0, 1)
}

// TestCase36DevicesAreNotSerialised has two programs on a device each: neither is
// bounded, and each gets on as if the other was not there.
func TestCase36DevicesAreNotSerialised(t *testing.T) {
	w := newWorld(t)
	w.env = append(w.env, "XMSCHED_SIM_DEVICES=2")
	w.daemon("--policy", "RR")
	first := w.rival(0)
	w.env = append(w.env, "CUDA_VISIBLE_DEVICES=1")
	second := w.spin("second", 0)
	w.scheduled("second")
	for range 5 {
		first.progress()
		second.progress()
	}
	for _, name := range []string{"rival", "second"} {
		rows := w.on(name)
		if len(rows) != 1 {
			t.Fatalf("%s: %+v", name, rows)
		}
		for _, row := range rows {
			if row.Mode != "free" || row.State == "gated" {
				t.Errorf("%s: %+v", name, row)
			}
		}
	}
}
