package xserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"xmsched/nvx/sheet"
	"xmsched/preempt/board"
	"xmsched/xserver"
	"xmsched/xserver/client"
)

// probed is the sheet of a probe of the test's device.
func probed(driver, why string) *sheet.Sheet {
	return &sheet.Sheet{
		Schema: sheet.Schema,
		Device: sheet.Device{UUID: gpu.UUID.String(), Name: gpu.Name},
		Driver: sheet.Driver{Version: driver},
		Probe:  &sheet.Probe{At: time.Unix(1, 0), Level3: why == "", Why: why},
	}
}

func save(t testing.TB, dir string, s *sheet.Sheet) {
	t.Helper()
	if err := sheet.Save(dir, s); err != nil {
		t.Error(err)
	}
}

// with has a daemon read the sheets of a directory, under driver 580.1.
func with(dir string, probe func(context.Context) error) func(*xserver.Config) {
	return func(c *xserver.Config) {
		c.Sheets = xserver.Sheets{Dir: dir, Driver: func() (string, error) { return "580.1", nil }, Probe: probe}
	}
}

// levelWhy is what the listing says of a player's level.
func levelWhy(t testing.TB, c *client.Client, task uint64) string {
	t.Helper()
	tasks, err := c.ListTasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tk := range tasks {
		if tk.Id == task && len(tk.Processes[0].Devices) == 1 {
			return tk.Processes[0].Devices[0].LevelWhy
		}
	}
	return "not listed"
}

// TestLevel3IsOfferedByTheSheet starts daemons beside sheets of all kinds.
func TestLevel3IsOfferedByTheSheet(t *testing.T) {
	for name, c := range map[string]struct {
		sheet *sheet.Sheet
		text  string // of a file that is no sheet
		level uint32
		why   string
	}{
		"passed":         {sheet: probed("580.1", ""), level: 3},
		"failed":         {sheet: probed("580.1", "the control was refused"), level: 2, why: "the control was refused"},
		"another driver": {sheet: probed("575.1", ""), level: 2, why: "not probed yet"},
		"none":           {level: 2, why: "not probed yet"},
		"garbage":        {text: "{", level: 2, why: "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			if c.sheet != nil {
				save(t, state, c.sheet)
			}
			if c.text != "" {
				path := sheet.Path(state, gpu.UUID.String())
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(c.text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			conn := dial(t, serve(t, rundir(t), with(state, nil)).dir)
			p := join(t, conn, client.Registration{Level: "3"})
			p.canDo(3, board.NothingInTheWay)
			p.awaitLevel(c.level)
			eventually(t, "the reason "+c.why, func() bool { return strings.Contains(levelWhy(t, conn, p.Task), c.why) })
			eventually(t, "the offer in the status", func() bool {
				s, err := conn.Status(t.Context())
				return err == nil && len(s.Offers) == 1 && s.Offers[0].Level3 == (c.level == 3) && s.Offers[0].Uuid == gpu.UUID.String()
			})
		})
	}
}

// TestUnknownDeviceIsProbedOnce has one come of which there is no sheet.
func TestUnknownDeviceIsProbedOnce(t *testing.T) {
	for name, result := range map[string]error{"passed": nil, "failed": errors.New("no such program")} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			var probes atomic.Int32
			conn := dial(t, serve(t, rundir(t), with(state, func(context.Context) error {
				probes.Add(1)
				if result == nil {
					save(t, state, probed("580.1", ""))
				}
				return result
			})).dir)
			p := join(t, conn, client.Registration{Level: "3"})
			p.canDo(3, board.NothingInTheWay)
			if result == nil {
				p.awaitLevel(3)
			} else {
				eventually(t, "the reason", func() bool {
					return strings.Contains(levelWhy(t, conn, p.Task), "no such program")
				})
			}
			// Devices that somebody makes up do not have it probed again.
			for i := range 5 {
				made := gpu
				made.UUID[5] = byte(1 + i)
				p.board.Device(1 + i).Claim(made)
				p.ring()
				time.Sleep(20 * time.Millisecond)
			}
			if n := probes.Load(); n != 1 {
				t.Errorf("%d probes", n)
			}
		})
	}
}

// TestProbeEndsWithTheDaemon has a probe that never ends by itself.
func TestProbeEndsWithTheDaemon(t *testing.T) {
	begun := make(chan struct{})
	d := serve(t, rundir(t), with(t.TempDir(), func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}))
	join(t, dial(t, d.dir), client.Registration{})
	<-begun
	start := time.Now()
	d.stop()
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("the daemon took %v to end", took)
	}
}

// TestCase08Level3IsRefusedByName asks for it where it is not to be had: nothing is
// changed, and the error names the level, the device, the reason and what there is.
func TestCase08Level3IsRefusedByName(t *testing.T) {
	conn := dial(t, serve(t, rundir(t), with(t.TempDir(), nil)).dir)
	for _, c := range []struct {
		can     uint32
		why     board.LevelWhy
		words   []string
		allowed []string
	}{
		{3, board.NothingInTheWay, []string{"not probed yet", "use level 2"}, []string{"auto", "1", "2"}},
		{2, board.ClientOfMPS, []string{"MPS", "use level 2"}, []string{"auto", "1", "2"}},
		{2, board.SlicedByMIG, []string{"MIG", "use level 2"}, []string{"auto", "1", "2"}},
		{1, board.NoStreamWaits, []string{"stream waits", "use level 1"}, []string{"auto", "1"}},
	} {
		p := join(t, conn, client.Registration{})
		p.canDo(c.can, c.why)
		p.awaitLevel(min(c.can, 2))
		_, _, err := conn.SetConfig(t.Context(), client.Target{Task: p.Task}, client.Settings{Level: "3"})
		var r *client.RejectedError
		if !errors.As(err, &r) || r.Field != "level" || !slices.Equal(r.Allowed, c.allowed) {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		for _, word := range append(c.words, "level 3 (interrupt)", gpu.Name) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%+v: %q does not name %q", c, err, word)
			}
		}
		if s := settingsOf(t, conn, p.Task).Settings; s.Level != "auto" {
			t.Errorf("%+v: changed to %q", c, s.Level)
		}
	}
}
