package xserver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	mem "xmsched/memory"
	"xmsched/preempt/board"
	"xmsched/xserver"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

func withMemory(m xserver.ManagedMemory) func(*xserver.Config) {
	return func(c *xserver.Config) { c.Memory = &m }
}

// tell stores figures of a player's memory on its first device.
func (p *player) tell(allocated, resident mem.Bytes) {
	p.t.Helper()
	word, _ := p.board.Device(0).Memory()
	p.board.Device(0).TellMemory(board.MemoryView{
		Did: word, State: board.MemoryActive, Allocated: uint64(allocated), Resident: uint64(resident), Host: uint64(allocated - resident),
	})
	p.board.BeatClient()
	p.ring()
}

// memoryOf waits until a device's figures are as they should be.
func memoryOf(t *testing.T, c *client.Client, what string, good func(*xserverv1.DeviceMemory) bool) *xserverv1.MemoryStatsResponse {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r, err := c.Memory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Devices) == 1 && good(r.Devices[0]) {
			return r
		}
		if time.Now().After(end) {
			t.Fatalf("waited 10 s for %s; there is %+v", what, r)
		}
	}
}

// TestMemorySettingsOutliveARestart has what was changed hold for a daemon that is
// started in the same way, and not for one that is told another budget.
func TestMemorySettingsOutliveARestart(t *testing.T) {
	dir := rundir(t)
	flags := xserver.ManagedMemory{Budget: 16 * mem.GiB, Mode: mem.Allocation}
	d := serve(t, dir, withMemory(flags))
	c := dial(t, dir)
	budget, policy := uint64(12*mem.GiB), "swap"
	if _, err := c.SetMemory(t.Context(), client.MemoryChange{Budget: &budget, Policy: &policy}); err != nil {
		t.Fatal(err)
	}
	d.stop()
	for _, again := range []struct {
		flags  xserver.ManagedMemory
		budget mem.Bytes
		policy string
	}{
		{flags, 12 * mem.GiB, "swap"},
		{xserver.ManagedMemory{Budget: 8 * mem.GiB, Mode: mem.Allocation}, 8 * mem.GiB, "allocation"},
	} {
		d := serve(t, dir, withMemory(again.flags))
		r, err := dial(t, dir).SetMemory(t.Context(), client.MemoryChange{})
		if err != nil || r.Budget != uint64(again.budget) || r.Policy != again.policy {
			t.Errorf("started with %v: %+v, %v; want %v, %s", again.flags.Budget, r, err, again.budget, again.policy)
		}
		d.stop()
	}
}

// TestMemoryIsNotGivenTwiceOverARestart has one of two come back first, whose daemon has
// been replaced: what the other has is not given to it.
func TestMemoryIsNotGivenTwiceOverARestart(t *testing.T) {
	dir := rundir(t)
	flags := withMemory(xserver.ManagedMemory{Budget: 16 * mem.GiB})
	d := serve(t, dir, flags)
	c := dial(t, dir)
	here, there := join(t, c, client.Registration{}), join(t, c, client.Registration{})
	here.tell(6*mem.GiB, 6*mem.GiB)
	there.tell(10*mem.GiB, 10*mem.GiB)
	memoryOf(t, c, "both to be known", func(m *xserverv1.DeviceMemory) bool { return m.Resident == uint64(16*mem.GiB) })
	d.stop()

	begin := time.Now()
	serve(t, dir, flags)
	c = dial(t, dir)
	back := join(t, c, client.Registration{Nonce: here.Nonce})
	back.tell(6*mem.GiB, 6*mem.GiB)
	r := memoryOf(t, c, "the first to be back", func(m *xserverv1.DeviceMemory) bool { return m.Resident == uint64(6*mem.GiB) })
	_, given := back.board.Device(0).Memory()
	keptUp(t, begin, 4*time.Second) // those who are away are waited for 5 s
	if !r.Awaiting {
		t.Error("nobody is waited for")
	}
	if given.Target > uint64(6*mem.GiB) {
		t.Errorf("%v given while the other may have the rest", mem.Bytes(given.Target))
	}
	// The last one takes its time to tell what it has.
	again := attach(t, c, client.Registration{Nonce: there.Nonce})
	again.board.Device(0).Claim(gpu)
	for range 5 {
		time.Sleep(100 * time.Millisecond)
		if _, given := back.board.Device(0).Memory(); given.Target > uint64(6*mem.GiB) && time.Since(begin) < 4*time.Second {
			t.Fatalf("%v given before the other has told what it has", mem.Bytes(given.Target))
		}
	}
	again.tell(10*mem.GiB, 10*mem.GiB)
	keptUp(t, begin, 4*time.Second)
	memoryOf(t, c, "the wait to end", func(m *xserverv1.DeviceMemory) bool {
		return m.Committed == uint64(16*mem.GiB) && m.Resident == uint64(16*mem.GiB)
	})
}

// keptUp gives a test up on a machine so slow that the player kept the daemon waiting
// for longer than it waits.
func keptUp(t *testing.T, begin time.Time, limit time.Duration) {
	t.Helper()
	if took := time.Since(begin); took > limit && !t.Failed() {
		t.Skipf("the machine took %v for what has to be done in %v", took, limit)
	}
}

// TestProgramsOfAProbeHaveTheirMemoryManaged: what starts while the devices are probed for
// the first time is told to ask for its memory's management, which it has from its first
// allocation on if the probe is over by then.
func TestProgramsOfAProbeHaveTheirMemoryManaged(t *testing.T) {
	for name, result := range map[string]error{"passed": nil, "failed": errors.New("no such program")} {
		t.Run(name, func(t *testing.T) {
			state, begun, done := t.TempDir(), make(chan struct{}), make(chan struct{})
			probe := func(context.Context) error {
				close(begun)
				<-done
				if result == nil {
					sh := probed("580.1", "")
					sh.Device.MemoryBytes = uint64(16 * mem.GiB)
					save(t, state, sh)
				}
				return result
			}
			present := func(c *xserver.Config) { c.Sheets.Present = []string{gpu.UUID.String()} }
			conn := dial(t, serve(t, rundir(t), withMemory(xserver.ManagedMemory{}), with(state, probe), present).dir)
			managed := func() bool {
				s, err := conn.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return s.MemoryManaged
			}
			before := managed()
			<-begun
			if during := managed(); !before || !during {
				t.Errorf("managed before the probe: %t, during it: %t", before, during)
			}
			close(done)
			for end := time.Now().Add(700 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if !managed() {
					if result == nil {
						t.Error("not managed when the probe is over")
					}
					return
				}
			}
			if result != nil {
				t.Error("still managed though the probe failed")
			}
		})
	}
}
