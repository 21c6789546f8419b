package xserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	mem "xmsched/memory"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

// memfds makes slots whose number of open descriptors can be told by their name.
func memfds(t *testing.T, name string, n int) (fds []int) {
	t.Helper()
	for range n {
		fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	return fds
}

// OpenFDs counts the descriptors that this process, in which the daemon is too, has of
// memfds of a name; of all kinds where it is empty.
func OpenFDs(t *testing.T, name string) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && (name == "" || strings.HasPrefix(to, "/memfd:"+name+" ")) {
			n++
		}
	}
	return n
}

func TestPoolKeepsWithinItsBounds(t *testing.T) {
	const name = "xm-bounds"
	now := time.Unix(1000, 0)
	small, large := slotKey{device: "a", bytes: 2 * mem.MiB}, slotKey{device: "a", bytes: 8 * mem.MiB}
	h := newHostPool()
	h.most = 5
	fds := memfds(t, name, 12)
	if n := h.keep(small, fds[:1], now); n != 0 {
		t.Errorf("kept %d before the bound was known", n)
	}
	h.setLimit(13 * mem.MiB)
	if n := h.keep(small, fds[:3], now); n != 3 || h.kept() != 6*mem.MiB {
		t.Errorf("kept %d, %v", n, h.kept())
	}
	if n := h.keep(large, fds[3:4], now); n != 0 {
		t.Errorf("kept %d of 8 MiB beside 6 under a bound of 13", n)
	}
	h.setLimit(mem.GiB)
	if n := h.keep(large, fds[3:8], now.Add(time.Second)); n != 2 || h.kept() != 22*mem.MiB {
		t.Errorf("kept %d of 5, where there may be 5 and were 3; %v", n, h.kept())
	}
	h.setLimit(18 * mem.MiB) // the two oldest go
	if have := OpenFDs(t, name); h.kept() != 18*mem.MiB || have != 10 {
		t.Errorf("%v kept under a bound of 18 MiB, %d of 12 descriptors are open", h.kept(), have)
	}
	h.close()
	if n := h.keep(small, fds[8:9], now); n != 0 || h.kept() != 0 {
		t.Errorf("kept %d after the end, %v", n, h.kept())
	}
	closeSlots(fds[5:])
	if have := OpenFDs(t, name); have != 0 {
		t.Errorf("%d descriptors are still open", have)
	}
}

func TestPoolGivesTheNewestOfItsKind(t *testing.T) {
	now := time.Unix(1000, 0)
	key := slotKey{slotOwner{7, 1, 2, 3}, "a", 2 * mem.MiB}
	h := newHostPool()
	h.setLimit(mem.GiB)
	defer h.close()
	fds := memfds(t, "xm-newest", 4)
	h.keep(key, fds, now)
	for _, other := range []slotKey{
		{slotOwner{8, 1, 2, 3}, "a", 2 * mem.MiB}, {slotOwner{7, 0, 2, 3}, "a", 2 * mem.MiB}, {slotOwner{7, 1, 0, 3}, "a", 2 * mem.MiB},
		{slotOwner{7, 1, 2, 0}, "a", 2 * mem.MiB}, {slotOwner{7, 1, 2, 3}, "b", 2 * mem.MiB}, {slotOwner{7, 1, 2, 3}, "a", 4 * mem.MiB},
	} {
		if got := h.take(other, 9); len(got) != 0 {
			t.Errorf("%+v has %v of %+v", other, got, key)
		}
	}
	for _, want := range [][]int{{fds[3], fds[2]}, {fds[1], fds[0]}, nil} {
		got := h.take(key, 2)
		if !slices.Equal(got, want) {
			t.Errorf("took %v of %v, want %v", got, fds, want)
		}
		closeSlots(got)
	}
	if h.kept() != 0 || h.passed() != 4*key.bytes {
		t.Errorf("%v kept of nothing, and %v taken in all, want %v", h.kept(), h.passed(), 4*key.bytes)
	}
}

func TestPoolClosesWhatNobodyTakes(t *testing.T) {
	const name = "xm-expire"
	start := time.Unix(1000, 0)
	key := slotKey{device: "a", bytes: 2 * mem.MiB}
	h := newHostPool()
	h.setLimit(mem.GiB)
	defer h.close()
	h.keep(key, memfds(t, name, 2), start)
	h.keep(key, memfds(t, name, 3), start.Add(time.Second))
	for _, at := range []struct {
		after time.Duration
		want  int
	}{{poolLife - 1, 5}, {poolLife, 3}, {poolLife + time.Second - 1, 3}, {poolLife + time.Second, 0}} {
		h.expire(start.Add(at.after))
		if have := OpenFDs(t, name); have != at.want || h.kept() != mem.Bytes(at.want)*key.bytes {
			t.Errorf("after %v %d are open and %v kept, want %d", at.after, have, h.kept(), at.want)
		}
	}
}

func TestPoolLetsAProcessInOnce(t *testing.T) {
	h := newHostPool()
	p := &process{id: 1, peer: peer.Peer{UID: 7}}
	if err := h.enter(p); err != nil {
		t.Fatal(err)
	}
	if err := h.enter(p); err != errPoolled {
		t.Errorf("a second time: %v", err)
	}
	h.leave(p)
	for i := range maxProcessesPerUser {
		if err := h.enter(&process{id: plane.ProcessID(1 + i), peer: p.peer}); err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
	}
	if err := h.enter(&process{id: maxProcesses, peer: p.peer}); err != errTooMany {
		t.Errorf("one more than a user may have: %v", err)
	}
	if err := h.enter(&process{id: maxProcesses, peer: peer.Peer{UID: 8}}); err != nil {
		t.Errorf("another user: %v", err)
	}
}

func TestOwnerOf(t *testing.T) {
	own, err := peer.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	o, err := ownerOf(peer.Peer{PID: os.Getpid(), UID: 7, StartTime: own})
	link, lerr := os.Readlink("/proc/self/ns/mnt")
	if err != nil || lerr != nil || o.uid != 7 || o.user == 0 || o.pid == 0 || link != fmt.Sprintf("mnt:[%d]", o.mount) {
		t.Errorf("%+v, %v; /proc says %s, %v", o, err, link, lerr)
	}
	for _, p := range []peer.Peer{{UID: 7}, {PID: os.Getpid()}, {PID: os.Getpid(), StartTime: own + 1}, {PID: 1 << 30, StartTime: 1}} {
		if o, err := ownerOf(p); err == nil {
			t.Errorf("%+v of %+v", o, p)
		}
	}
}

// TestTheLoopKnowsWhoPassesOn: the host is divided by who can give another what.
func TestTheLoopKnowsWhoPassesOn(t *testing.T) {
	own, err := peer.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistry()
	of := func(p peer.Peer) string { return r.wire(&process{peer: p, task: &task{}}, nil).HostOf }
	a, b := of(peer.Peer{PID: os.Getpid(), UID: 7, StartTime: own}), of(peer.Peer{PID: os.Getpid(), UID: 7, StartTime: own})
	other, gone := of(peer.Peer{PID: os.Getpid(), UID: 8, StartTime: own}), of(peer.Peer{PID: 1 << 30, UID: 7, StartTime: 1})
	if a == "" || a != b || other == a || gone != "" {
		t.Errorf("two of a user %q, %q, of another %q, one that is gone %q", a, b, other, gone)
	}
}

// TestEndDoesNotWaitForEver has a goroutine hang, as one that closes a descriptor of a
// file system whose server does not answer.
func TestEndDoesNotWaitForEver(t *testing.T) {
	var open sync.WaitGroup
	hung := make(chan struct{})
	open.Go(func() { <-hung })
	if endsWithin(&open, 10*time.Millisecond) {
		t.Error("one that hangs has ended")
	}
	close(hung)
	if !endsWithin(&open, time.Minute) {
		t.Error("one that has ended is waited for")
	}
}

// TestWhatMayBeASlot holds kinds of descriptors against the check.
func TestWhatMayBeASlot(t *testing.T) {
	closing := func(fd int, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	dir := t.TempDir()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	closing(pair[1], nil)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	closing(pipe[1], nil)
	file := func(path string) int {
		t.Helper()
		return closing(unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600))
	}
	unlinked := file(dir + "/unlinked")
	if err := unix.Unlink(dir + "/unlinked"); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]struct {
		fd   int
		want bool
	}{
		"memfd":            {closing(unix.MemfdCreate("xm-kind", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)), true},
		"character device": {file("/dev/null"), true},
		"anonymous inode":  {closing(unix.Eventfd(0, unix.EFD_CLOEXEC)), true},
		"socket":           {closing(pair[0], nil), false},
		"pipe":             {closing(pipe[0], nil), false},
		"directory":        {closing(unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)), false},
		"file":             {file(dir + "/file"), false},
		"unlinked file":    {unlinked, false},
		"no descriptor":    {-1, false},
	}
	if unix.Mknod(dir+"/block", unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))) == nil { // root may
		kinds["block device"] = struct {
			fd   int
			want bool
		}{closing(unix.Open(dir+"/block", unix.O_PATH|unix.O_CLOEXEC, 0)), false}
	}
	if devices, _ := filepath.Glob("/dev/nvidiactl"); len(devices) > 0 {
		kinds["NVIDIA's"] = struct {
			fd   int
			want bool
		}{file(devices[0]), true}
	}
	for name, k := range kinds {
		if have := allMemory([]int{kinds["memfd"].fd, k.fd}, 0); have != k.want {
			t.Errorf("%s: %v", name, have)
		}
	}
	if allMemory([]int{kinds["memfd"].fd}, 2*mem.MiB) {
		t.Error("an empty file counts as 2 MiB")
	}
}

// TestOneUserLeavesRoomInThePool: what one user keeps in the pool does not take all of it.
func TestOneUserLeavesRoomInThePool(t *testing.T) {
	h := newHostPool()
	defer h.close()
	h.setLimit(8 * mem.GiB)
	fd := func() int {
		f, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	hostile := slotKey{owner: slotOwner{uid: 66}, device: "none", bytes: mem.GiB}
	for range 9 {
		f := fd()
		if h.keep(hostile, []int{f}, time.Now()) == 0 {
			closeSlots([]int{f})
		}
	}
	honest := slotKey{owner: slotOwner{uid: 7}, device: "GPU-1", bytes: 32 * mem.MiB}
	f := fd()
	if h.keep(honest, []int{f}, time.Now()) == 0 {
		closeSlots([]int{f})
		t.Errorf("user 66 has %v of 8 GiB in the pool; of user 7 no slot is kept", h.kept())
	}
}
