package board

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// pair gives the two ends of one board: the daemon's and the client's.
func pair(t *testing.T) (daemon, client *Board) {
	t.Helper()
	daemon, err := Create(7, 9)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Close() })
	fd, err := unix.FcntlInt(daemon.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	client, err = Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return daemon, client
}

func TestOpenSeesWhatCreateWrote(t *testing.T) {
	_, client := pair(t)
	if client.Nonce() != 7 || client.Epoch() != 9 {
		t.Errorf("nonce %d epoch %d, want 7 and 9", client.Nonce(), client.Epoch())
	}
}

func TestBoardCannotShrink(t *testing.T) {
	daemon, _ := pair(t)
	if err := unix.Ftruncate(int(daemon.File().Fd()), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncate: %v, want EPERM", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	memfd := func(t *testing.T, size int64, seal bool, edit func(*Board)) int {
		t.Helper()
		fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		if seal {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
				t.Fatal(err)
			}
		}
		if edit != nil {
			b, err := mapped(os.NewFile(uintptr(fd), "x"))
			if err != nil {
				t.Fatal(err)
			}
			edit(b)
			dup, err := unix.Dup(fd)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			fd = dup
		}
		return fd
	}
	valid := func(b *Board) {
		h := &b.page.Daemon
		h.Magic, h.Version, h.Size, h.Slots, h.Devices = 0x31424d58, 1, Size, Slots, Devices
	}
	for name, fd := range map[string]int{
		"a short file":    memfd(t, 4096, true, nil),
		"an open size":    memfd(t, Size, false, valid),
		"no magic":        memfd(t, Size, true, nil),
		"a later version": memfd(t, Size, true, func(b *Board) { valid(b); b.page.Daemon.Version = 2 }),
		"more slots":      memfd(t, Size, true, func(b *Board) { valid(b); b.page.Daemon.Slots = Slots + 1 }),
	} {
		if _, err := Open(fd); !errors.Is(err, ErrNotBoard) {
			t.Errorf("%s: %v, want ErrNotBoard", name, err)
		}
	}
	if b, err := Open(memfd(t, Size, true, valid)); err != nil {
		t.Errorf("a valid one: %v", err)
	} else if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestGateWords(t *testing.T) {
	if g := Gate(0); !g.Open() || g.ByLease() {
		t.Error("an unanswered gate counts as open, and nobody opened it")
	}
	rapid.Check(t, func(t *rapid.T) {
		g := Gate(rapid.Uint32().Draw(t, "word"))
		open := rapid.Bool().Draw(t, "open")
		n := g.next(open)
		if n == 0 || n == g || n.Epoch() == g.Epoch() || n.Open() != open || n.ByLease() {
			t.Fatalf("%v.next(%v) = %v", g, open, n)
		}
	})
}

func TestPublishReachesTheOtherSide(t *testing.T) {
	daemon, client := pair(t)
	g := Grant{Open: false, Mode: Bounded, Threshold: 16, Batch: 8, Level: 1, Task: 3}
	word := daemon.Device(2).Publish(0, g)
	gate, have := client.Device(2).Grant()
	if gate != word || have != g {
		t.Errorf("client reads %v %+v, want %v %+v", gate, have, word, g)
	}
}

func TestWaitGateIsWoken(t *testing.T) {
	daemon, client := pair(t)
	closed := daemon.Device(0).Publish(0, Grant{})
	woken := make(chan error, 1)
	go func() {
		var err error
		for err == nil && client.Device(0).Gate() == closed {
			err = client.Device(0).WaitGate(closed, time.Minute)
		}
		woken <- err
	}()
	time.Sleep(20 * time.Millisecond) // let it fall asleep; a wake before that is seen by the value
	daemon.Device(0).Publish(closed, Grant{Open: true})
	select {
	case err := <-woken:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the waiter slept through the wake")
	}
}

func TestWaitGateHasALimit(t *testing.T) {
	daemon, client := pair(t)
	closed := daemon.Device(0).Publish(0, Grant{})
	start := time.Now()
	if err := client.Device(0).WaitGate(closed, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("waited %v for a limit of 10 ms", d)
	}
}

func TestOpenByLeaseWinsOnceAndLoses(t *testing.T) {
	daemon, client := pair(t)
	d := client.Device(0)
	closed := daemon.Device(0).Publish(0, Grant{})
	if !d.OpenByLease(closed) || d.OpenByLease(closed) {
		t.Error("the closed gate opens once")
	}
	if g := d.Gate(); !g.Open() || !g.ByLease() {
		t.Errorf("gate is %v, want opened by lease", g)
	}
	again := daemon.Device(0).Publish(closed, Grant{})
	if d.OpenByLease(closed) {
		t.Error("an old word opened a newer gate")
	}
	if d.Gate() != again {
		t.Errorf("gate is %v, want %v", d.Gate(), again)
	}
	if v := daemon.Snapshot(0); v.OpenedByLease != 1 {
		t.Errorf("%d gates opened by lease, want 1", v.OpenedByLease)
	}
}

func TestClientClaims(t *testing.T) {
	daemon, client := pair(t)
	id := Identity{UUID: UUID{0xaa, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, Ordinal: 1, Name: "NVIDIA H200"}
	d := client.Device(3)
	d.Claim(id)
	d.SetReady(true)
	d.SetWaiting(2)
	d.AddLaunches(5)
	d.Ack(Gate(4))
	want := ClientView{Present: true, Ready: true, Edge: 1, Acked: 4, Waiting: 2, Launches: 5}
	if have := daemon.Snapshot(3); have != want {
		t.Errorf("daemon reads %+v, want %+v", have, want)
	}
	if have := daemon.Identity(3); have != id {
		t.Errorf("daemon reads %+v, want %+v", have, id)
	}
	if s := id.UUID.String(); s != "GPU-aa010203-0405-0607-0809-0a0b0c0d0e0f" {
		t.Errorf("uuid prints as %s", s)
	}
	d.Leave()
	if daemon.Present(3) {
		t.Error("the section is still claimed")
	}
}

func TestSlotCountersAreExtendedAndClamped(t *testing.T) {
	const wrap = 1 << 32
	for _, c := range []struct {
		low    uint32
		marked uint64
		want   uint64
	}{
		{0, 0, 0},
		{5, 7, 5},
		{7, 7, 7},
		{9, 7, 0}, // never marked
		{0xfffffff0, wrap + 3, 0xfffffff0},
		{2, wrap + 3, wrap + 2},
		{0xffffffff, 3 * wrap, 3*wrap - 1},
	} {
		if have := Extend(c.low, c.marked); have != c.want {
			t.Errorf("Extend(%#x, %#x) = %#x, want %#x", c.low, c.marked, have, c.want)
		}
	}
	_, client := pair(t)
	s := client.Slot(1)
	s.Take(0xfeed, 99, PerThread)
	s.Submit(10)
	s.Mark(8)
	s.Complete(8)
	s.Sync(9)
	v := s.Snapshot()
	if v.Outstanding() != 1 || v.Device != Devices-1 || v.Flags != PerThread || v.Handle != 0xfeed {
		t.Errorf("%+v has %d outstanding, want 1", v, v.Outstanding())
	}
}

// TestGarbageBoard writes noise over the whole page, as a hostile client may,
// and reads everything back through the daemon's accessors.
func TestGarbageBoard(t *testing.T) {
	daemon, client := pair(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		for i := range client.mem {
			client.mem[i] = byte(rnd.Uint32())
		}
		for i := range Devices {
			if v := daemon.Snapshot(i); v.Waiting < 0 || v.Waiting > maxWaiting {
				t.Fatalf("waiting %d is not clamped", v.Waiting)
			}
			id := daemon.Identity(i)
			if id.Ordinal < 0 || id.Ordinal > maxOrdinal || len(id.Name) > 64*4 {
				t.Fatalf("identity %+v is not clamped", id)
			}
		}
		for i := range Slots {
			v := daemon.Slot(i).Snapshot()
			if v.Device < 0 || v.Device >= Devices || v.Outstanding() > v.Submitted {
				t.Fatalf("slot %+v is not clamped", v)
			}
		}
		word := daemon.Device(0).Publish(Gate(rnd.Uint32()), Grant{})
		if client.Device(0).Gate() != word {
			t.Fatal("the daemon's word does not stand")
		}
	}
}
