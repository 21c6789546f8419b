package xserver

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/xserver/internal/peer"
)

func applicant(pid int, uid uint32, token string) application {
	return application{peer: peer.Peer{PID: pid, UID: uid, StartTime: 1}, nonce: uint64(pid), token: token}
}

func enrol(t *testing.T, r *registry, a application, now time.Time) *process {
	t.Helper()
	p, _, err := r.register(a, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTokensBelongToTheirUser(t *testing.T) {
	r, now := newRegistry(), time.Now()
	a, b := enrol(t, r, applicant(1, 10, "t"), now), enrol(t, r, applicant(2, 10, "t"), now)
	other := enrol(t, r, applicant(3, 20, "t"), now)
	single, double := enrol(t, r, applicant(4, 10, ""), now), enrol(t, r, applicant(5, 10, ""), now)
	if a.task != b.task || a.task == other.task || single.task == double.task || single.task == a.task {
		t.Errorf("tasks %d %d %d %d %d", a.task.id, b.task.id, other.task.id, single.task.id, double.task.id)
	}
	r.remove(a.id)
	if r.tasks[b.task.id] == nil {
		t.Error("the task went with the first of its processes")
	}
	r.remove(b.id)
	if r.tasks[b.task.id] != nil || len(r.byToken) != 1 {
		t.Error("the task outlived its processes")
	}
}

func TestTicketsExpireAndAreTheirOwners(t *testing.T) {
	r, now := newRegistry(), time.Now()
	p := enrol(t, r, applicant(1, 10, ""), now)
	if _, err := r.redeem(p.ticket, peer.Peer{PID: 2, UID: 10}, now); !errors.Is(err, errTicket) {
		t.Errorf("another process: %v", err)
	}
	ticket := p.ticket
	if got, err := r.redeem(ticket, p.peer, now); err != nil || got != p {
		t.Errorf("its owner: %v", err)
	}
	if _, err := r.redeem(ticket, p.peer, now); !errors.Is(err, errTicket) {
		t.Errorf("a second time: %v", err)
	}
	late := enrol(t, r, applicant(3, 10, ""), now)
	if _, err := r.redeem(late.ticket, late.peer, now.Add(ticketLife+1)); !errors.Is(err, errTicket) {
		t.Errorf("too late: %v", err)
	}
	if r.processes[late.id] != nil || r.processes[p.id] == nil {
		t.Error("what expires is the registration without a board, and no other")
	}
}

// TestDeadAreSweptBeforeTheirTime has a process die between its registration and
// its board: nobody can mean it any more, though its ticket is still good.
func TestDeadAreSweptBeforeTheirTime(t *testing.T) {
	r, now := newRegistry(), time.Now()
	dead := map[int]bool{}
	r.alive = func(p peer.Peer) bool { return !dead[p.PID] }
	p, attached := enrol(t, r, applicant(1, 10, ""), now), enrol(t, r, applicant(2, 10, ""), now)
	if _, err := r.redeem(attached.ticket, attached.peer, now); err != nil {
		t.Fatal(err)
	}
	who := peer.Peer{UID: 10}
	if task, _, err := r.target(who, 1, 0); err != nil || task != p.task {
		t.Errorf("while it lives: %v", err)
	}
	dead[1], dead[2] = true, true
	for _, try := range []struct {
		pid int32
		id  uint64
	}{{1, 0}, {0, uint64(p.task.id)}} {
		if _, _, err := r.target(who, try.pid, try.id); err == nil {
			t.Errorf("%+v: a dead process is a valid target", try)
		}
	}
	if r.processes[attached.id] == nil {
		t.Error("of those with a board it is the plane that tells")
	}
}

func TestLimitsOfOneUser(t *testing.T) {
	r, now := newRegistry(), time.Now()
	stranger := uint32(os.Geteuid()) + 1000
	for pid := 1; pid <= maxProcessesPerUser; pid++ {
		p := enrol(t, r, applicant(pid, stranger, ""), now)
		if _, err := r.redeem(p.ticket, p.peer, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.register(applicant(5000, stranger, ""), now); !errors.Is(err, errTooMany) {
		t.Errorf("one too many of a user: %v", err)
	}
	for pid := range maxPending {
		enrol(t, r, applicant(6000+pid, stranger+1, ""), now)
	}
	if _, _, err := r.register(applicant(7000, stranger+1, ""), now); !errors.Is(err, errPending) {
		t.Errorf("one too many without a board: %v", err)
	}
	enrol(t, r, applicant(7001, stranger+2, ""), now)
}

func TestEarlierTaskNumbersAreGivenBackOnce(t *testing.T) {
	r, now := newRegistry(), time.Now()
	again := func(previous compute.TaskID) compute.TaskID {
		a := applicant(int(previous), 10, "")
		a.previousTask = previous
		return enrol(t, r, a, now).task.id
	}
	if id := again(7); id != 7 {
		t.Errorf("task %d, want its earlier 7", id)
	}
	if id := again(7); id != 8 {
		t.Errorf("task %d, want 8: 7 is taken", id)
	}
	if id := again(1 << 40); id != 9 {
		t.Errorf("task %d, want 9: no number of ours is that large", id)
	}
}

func TestUncoveredNamesAreBoundedAndClean(t *testing.T) {
	r := newRegistry()
	p := enrol(t, r, applicant(1, 10, ""), time.Now())
	r.addUncovered(p, []string{"cuB", "cuA", "cuB", "", "cu\x1b[2JC\xff", strings.Repeat("x", 4*maxCallName)})
	if want := []string{"cuA", "cuB", "cu[2JC", strings.Repeat("x", maxCallName)}; len(p.uncovered) != 4 {
		t.Errorf("%q, want %q in some order", p.uncovered, want)
	}
	for i := range 2 * maxUncovered {
		r.addUncovered(p, []string{"cu" + strings.Repeat("y", i%100) + string(rune('a'+i/100))})
	}
	if len(p.uncovered) > maxUncovered {
		t.Errorf("%d names, at most %d", len(p.uncovered), maxUncovered)
	}
}

func TestCrowdOfOneUser(t *testing.T) {
	raw, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l := newCrowdListener(raw, 2)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("unix", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	third := dial()
	_ = third.SetReadDeadline(time.Now().Add(10 * time.Second))
	said, err := io.ReadAll(third)
	if err != nil || !strings.Contains(string(said), "has 2, which is the limit") {
		t.Errorf("the third of two: %q, %v, want that it is told why and closed", said, err)
	}
	_ = first.Close()
	_ = first.Close() // counted once
	dial()
	fourth := <-accepted
	_ = second.Close()
	_ = fourth.Close()
	_ = l.Close()
	for range accepted {
	}
	if len(l.open) != 0 {
		t.Errorf("still counted: %v", l.open)
	}
}
