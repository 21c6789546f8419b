package xserver_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"xmsched/preempt/board"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// canDo has a player say which level it can do, as the preload library does.
func (p *player) canDo(level uint32, why board.LevelWhy) {
	p.t.Helper()
	p.board.Device(0).SetLevelMax(level, why)
	p.ring()
}

func (p *player) awaitLevel(level uint32) {
	p.t.Helper()
	p.await(fmt.Sprintf("level %d", level), func(_ board.Gate, g board.Grant) bool { return g.Level == level })
}

// settingsOf finds what xcli list shows of a player's task.
func settingsOf(t *testing.T, c *client.Client, task uint64) *xserverv1.Process {
	t.Helper()
	for _, tk := range list(t, c) {
		if tk.Id == task {
			return tk.Processes[0]
		}
	}
	t.Fatalf("task %d is not listed", task)
	return nil
}

func number(n uint32) *uint32 { return &n }

// TestCase08LevelsAreNegotiated holds that a process is governed at what it asked
// for as far as it can do it, and that the listing says why where it cannot.
func TestCase08LevelsAreNegotiated(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	for _, k := range []struct {
		asked  string
		can    uint32
		why    board.LevelWhy
		inUse  uint32
		listed string
	}{
		{"auto", 2, board.NothingInTheWay, 2, ""},
		{"auto", 1, board.NoStreamWaits, 1, "stream waits"},
		{"1", 2, board.NothingInTheWay, 1, ""},
		{"2", 2, board.NothingInTheWay, 2, ""},
		{"2", 1, board.NotRegistered, 1, "register"},
	} {
		p := join(t, c, client.Registration{TaskToken: k.asked + k.listed, Level: k.asked})
		p.awaitLevel(1) // as long as nobody knows
		p.canDo(k.can, k.why)
		p.awaitLevel(k.inUse)
		row := settingsOf(t, c, p.Task)
		if row.Settings.Level != k.asked || len(row.Devices) != 1 || row.Devices[0].LevelMax != k.can || !strings.Contains(row.Devices[0].LevelWhy, k.listed) || (k.listed == "") != (row.Devices[0].LevelWhy == "") {
			t.Errorf("%+v: listed as %v", k, row)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDefaultNumbersAreListedAsInForce has a process that asks for no numbers.
func TestDefaultNumbersAreListedAsInForce(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	p := join(t, c, client.Registration{TaskToken: "p"})
	p.awaitLevel(1)
	p.canDo(2, board.NothingInTheWay)
	p.awaitLevel(2)
	if s := settingsOf(t, c, p.Task).Settings; s.Threshold != 256 || s.Batch != 64 {
		t.Errorf("at level 2: %v", s)
	}
	for _, k := range []struct {
		change           client.Settings
		threshold, batch uint32
	}{
		{client.Settings{Level: "1"}, 16, 8},
		{client.Settings{Level: "auto"}, 256, 64},
		{client.Settings{}, 256, 64},
		{client.Settings{Batch: number(100)}, 256, 100},
		{client.Settings{Threshold: number(16)}, 16, 100},
	} {
		_, now, err := c.SetConfig(t.Context(), client.Target{Task: p.Task}, k.change)
		if err != nil || len(now) != 1 || now[0].Settings.Threshold != k.threshold || now[0].Settings.Batch != k.batch {
			t.Errorf("after %+v: %v, %v", k.change, now, err)
		}
	}
}

// TestCase35PartialConfiguration changes one number after the other of a task that
// is suspended: each change is taken, touches nothing else, and the gate stays
// closed until its time has come.
func TestCase35PartialConfiguration(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	low := join(t, c, client.Registration{TaskToken: "low", Threshold: 32, Batch: 8})
	high := join(t, c, client.Registration{TaskToken: "high", Priority: 1})
	low.canDo(2, board.NothingInTheWay)
	low.ready(true)
	high.ready(true)
	low.await("a closed gate", closed)
	for _, k := range []struct {
		change client.Settings
		want   board.Grant // threshold, batch and level
		asked  uint32      // the batch that is listed
	}{
		{client.Settings{Threshold: number(4)}, board.Grant{Threshold: 4, Batch: 4, Level: 2}, 8},
		{client.Settings{Level: "1"}, board.Grant{Threshold: 4, Batch: 4, Level: 1}, 8},
		{client.Settings{Threshold: number(64)}, board.Grant{Threshold: 64, Batch: 8, Level: 1}, 8},
		{client.Settings{Batch: number(2)}, board.Grant{Threshold: 64, Batch: 2, Level: 1}, 2},
		{client.Settings{Level: "auto"}, board.Grant{Threshold: 64, Batch: 2, Level: 2}, 2},
	} {
		start := time.Now()
		_, now, err := c.SetConfig(t.Context(), client.Target{Task: low.Task}, k.change)
		if err != nil || len(now) != 1 {
			t.Fatalf("%+v: %v, %v", k.change, now, err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%+v took %v", k.change, took)
		}
		gate, g := low.board.Device(0).Grant() // there when the answer is
		if gate.Open() || g.Threshold != k.want.Threshold || g.Batch != k.want.Batch || g.Level != k.want.Level || now[0].Settings.Batch != k.asked {
			t.Errorf("after %+v: %v %+v, want %+v and asked batch %d", k.change, gate, g, k.want, k.asked)
		}
	}
	high.ready(false)
	low.await("an open gate", open)
}

// TestCase35HintsOneByOne changes one hint after the other.
func TestCase35HintsOneByOne(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	p := join(t, c, client.Registration{TaskToken: "p", Priority: 7, Quantum: time.Millisecond})
	d, none := 2*time.Millisecond, time.Duration(0)
	for _, k := range []struct {
		change client.Hints
		want   string
	}{
		{client.Hints{IdleAfter: &d}, "7 1ms 2ms"},
		{client.Hints{Quantum: &d}, "7 2ms 2ms"},
		{client.Hints{Quantum: &none}, "7 0s 2ms"},
		{client.Hints{IdleAfter: &none}, "7 0s 0s"},
	} {
		_, h, err := c.SetHints(t.Context(), client.Target{Task: p.Task}, k.change)
		if err != nil {
			t.Fatal(err)
		}
		if have := fmt.Sprint(h.Priority, " ", time.Duration(h.QuantumNs), " ", time.Duration(h.IdleAfterNs)); have != k.want {
			t.Errorf("%+v: %q, want %q", k.change, have, k.want)
		}
	}
}

// TestSettingsOfATaskHoldForLaterProcesses, those of a process do not.
func TestSettingsOfATaskHoldForLaterProcesses(t *testing.T) {
	c := dial(t, serve(t, rundir(t)).dir)
	first := join(t, c, client.Registration{TaskToken: "job", Nonce: 1})
	if _, _, err := c.SetConfig(t.Context(), client.Target{PID: os.Getpid()}, client.Settings{Batch: number(1)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.SetConfig(t.Context(), client.Target{Task: first.Task}, client.Settings{Threshold: number(5)}); err != nil {
		t.Fatal(err)
	}
	first.await("its numbers", func(_ board.Gate, g board.Grant) bool { return g.Threshold == 5 && g.Batch == 1 })
	second := join(t, c, client.Registration{TaskToken: "job", Nonce: 2, Batch: 3})
	second.await("the task's threshold and its own batch", func(_ board.Gate, g board.Grant) bool { return g.Threshold == 5 && g.Batch == 3 })
}

// TestCase31SettingsOutliveTheDaemon kills a daemon after a task was configured.
func TestCase31SettingsOutliveTheDaemon(t *testing.T) {
	dir := rundir(t)
	first := spawn(t, part{Role: "daemon", Dir: dir})
	c := dial(t, dir)
	r := client.Registration{TaskToken: "token", Nonce: 77}
	p := join(t, c, r)
	if _, _, err := c.SetConfig(t.Context(), client.Target{Task: p.Task}, client.Settings{Level: "1", Threshold: number(33)}); err != nil {
		t.Fatal(err)
	}
	d := 3 * time.Millisecond
	if _, _, err := c.SetHints(t.Context(), client.Target{Task: p.Task}, client.Hints{Quantum: &d}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the journal", func() bool {
		text, err := os.ReadFile(dir + "/" + client.JournalFile)
		return err == nil && strings.Contains(string(text), `"threshold":33`) && strings.Contains(string(text), `"quantum":"3ms"`)
	})
	first.kill()
	p.Gone()
	serve(t, dir)
	c = dial(t, dir)
	again := join(t, c, r)
	again.await("its numbers", func(_ board.Gate, g board.Grant) bool { return g.Threshold == 33 && g.Batch == 8 })
	r.Nonce = 78 // a further process of the task
	later := join(t, c, r)
	later.await("the task's numbers", func(_ board.Gate, g board.Grant) bool { return g.Threshold == 33 && g.Batch == 8 })
	tasks := list(t, c)
	if len(tasks) != 1 || tasks[0].Hints.QuantumNs != uint64(d) || tasks[0].Processes[1].Settings.Level != "1" {
		t.Errorf("%v", tasks)
	}
}
