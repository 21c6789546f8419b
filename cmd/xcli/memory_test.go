package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"xmsched/cmd/internal/cli"
	"xmsched/memory"
	"xmsched/preempt/board"
	"xmsched/xserver"
	"xmsched/xserver/client"
)

// memoryDaemon is a daemon that manages memory, in this process, with one client that
// has 6 of 8 GiB on its device.
func memoryDaemon(t *testing.T, managed *xserver.ManagedMemory) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "xm") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := xserver.New(xserver.Config{Dir: dir, Memory: managed})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	conn, err := client.Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	a, err := conn.Attach(t.Context(), client.Registration{Name: "train", MemoryLimit: 16 << 30})
	if err != nil {
		t.Fatal(err)
	}
	b, err := a.Map()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	d := b.Device(0)
	d.TellMemory(board.MemoryView{
		State: board.MemoryActive, Allocated: 8 << 30, Resident: 6 << 30, Host: 2 << 30, Pinned: 1 << 30,
		In: 3 << 30, Out: 5 << 30, Waste: 1 << 20, Stall: 1500e6, Working: 5 << 30, Slots: 3 << 30, Kept: 1 << 29,
		PinnedBy: [5]uint64{1 << 29, 0, 1 << 28}, Clean: board.CleanBytes{Hashed: 4 << 30, Spared: 3 << 30, Wrong: 1 << 30},
	})
	d.Claim(board.Identity{UUID: board.UUID{1, 2, 3}, Name: "test GPU"})
	if err := a.Ring(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// xcli runs the command and returns its output, both of it, and exit code.
func xcli(dir string, args ...string) (string, int) {
	var out bytes.Buffer
	code := cli.Run(command(), append([]string{"--dir", dir}, args...), &out, &out)
	return out.String(), code
}

func TestMemoryStats(t *testing.T) {
	dir := memoryDaemon(t, &xserver.ManagedMemory{Budget: 16 * memory.GiB, Host: 4 * memory.GiB, Mode: memory.Allocation})
	for text := ""; !strings.Contains(text, "8 GiB"); { // its claim is on the way
		var code int
		if text, code = xcli(dir, "memory", "stats"); code != 0 {
			t.Fatalf("exit %d: %s", code, text)
		}
	}
	text, _ := xcli(dir, "memory", "stats")
	for _, want := range []string{
		"policy allocation; host: 2 GiB in a pool of 3 GiB, at most ", "; 512 MiB of it clean copies",
		"test GPU  GPU-01020300-0000-0000-0000-000000000000: budget 16 GiB, ",
		"6 GiB on the device, 2 GiB on the host, 1 GiB pinned",
		"host pool 3 GiB", "; link 50.8 GB/s each way", " given, ", " free; ",
		"TASK", "HIDDEN", "train  16 GiB  8 GiB   6 GiB  2 GiB  3 GiB   1 GiB", "3 GiB", "5 GiB", "1.5s", "1 MiB wasted; ",
		"3 GiB not copied of 4 GiB compared", "pinned: 512 MiB pools, 256 MiB arrays",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	text, code := xcli(dir, "memory", "stats", "--json")
	var s memoryStats
	if err := json.Unmarshal([]byte(text), &s); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, text)
	}
	if !s.Managed || s.Policy != "allocation" || len(s.Devices) != 1 || s.Devices[0].Budget != 16<<30 || len(s.Processes) != 1 {
		t.Fatalf("%s", text)
	}
	p := s.Processes[0]
	if p.PID != int32(os.Getpid()) || p.Limit != 16<<30 || p.Allocated != 8<<30 || p.Resident != 6<<30 || p.Host != 2<<30 || p.MovedIn != 3<<30 || p.StallMS != 1500 ||
		p.WorkingSet != 5<<30 || !p.Foretold || p.Slots != 3<<30 || p.Kept != 1<<29 || p.SlotsBound == 0 || p.SlotsBound > 4<<30 ||
		p.PinnedBy["pools"] != 1<<29 || p.Hashed != 4<<30 || p.Spared != 3<<30 || p.Wrong != 1<<30 {
		t.Errorf("%+v", p)
	}
	if h := s.Host; h.Used != 2<<30 || h.Pool != 3<<30 || h.Kept != 1<<29 || h.Limit > 4<<30 {
		t.Errorf("host %+v", h)
	}
	if l := s.Devices[0].LinkGBs; l < 50 || l > 51 { // nothing has moved
		t.Errorf("link of %v GB/s", l)
	}
	if s.Devices[0].Committed < 7<<30 || s.Devices[0].Committed > 16<<30 {
		t.Errorf("%d committed", s.Devices[0].Committed)
	}
}

func TestMemorySet(t *testing.T) {
	dir := memoryDaemon(t, &xserver.ManagedMemory{Budget: 16 * memory.GiB})
	for text := ""; !strings.Contains(text, "8 GiB"); {
		text, _ = xcli(dir, "memory", "stats")
	}
	pid := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--budget 12GiB", 0, "budget 12 GiB, host budget none, policy predict"},
		{"--budget auto", 0, "budget auto"},
		{"--budget 12g --host-budget 3GiB --policy swap", 0, "budget 12 GiB, host budget 3 GiB, policy swap"},
		{"--host-budget none", 0, "host budget none"},
		{"--budget 512MiB", 1, "a budget of 512 MiB does not hold the 1 GiB that cannot leave the device"},
		{"--pid " + pid + " --limit 4GiB", 1, "a limit of 4 GiB does not hold the 9 GiB that pid " + pid + " has allocated"},
		{"--pid " + pid + " --limit 9GiB", 0, "task 1: limit 9 GiB"},
		{"--task 1 --limit none", 0, "task 1: limit none"},
		{"--task 7 --limit 9GiB", 1, "no task of task 7"},
		{"--policy best", 2, `no memory policy "best"`},
		{"--budget much", 2, "is not an amount of memory"},
		{"--budget none", 2, "only a start of the daemon"},
		{"--budget 1KiB", 2, "allowed are 2 MiB to"},
		{"--limit 1GiB", 2, "a limit is a task's"},
		{"--task 1", 2, "a limit is a task's"},
		{"", 2, "nothing to change"},
	} {
		text, code := xcli(dir, append([]string{"memory", "set"}, strings.Fields(c.args)...)...)
		if code != c.code && !(c.code == 1 && code == 2) || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit %d, want %d and %q:\n%s", c.args, code, c.code, c.want, text)
		}
	}
	text, code := xcli(dir, "memory", "set", "--json", "--budget", "8GiB")
	if code != 0 || !strings.Contains(text, `"budget":8589934592`) {
		t.Errorf("exit %d: %s", code, text)
	}
}

func TestMemoryOfADaemonWithoutABudget(t *testing.T) {
	dir := memoryDaemon(t, nil)
	if text, code := xcli(dir, "memory", "stats"); code != 0 || !strings.Contains(text, "start the daemon without --hbm-budget none") {
		t.Errorf("exit %d: %s", code, text)
	}
	if text, code := xcli(dir, "memory", "set", "--budget", "1GiB"); code != 1 || !strings.Contains(text, "does not manage memory") {
		t.Errorf("exit %d: %s", code, text)
	}
}
