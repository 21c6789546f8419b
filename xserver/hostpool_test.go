package xserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	mem "xmsched/memory"
	"xmsched/preempt/board"
	"xmsched/xserver"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

const (
	poolDevice = "GPU-1"
	poolBytes  = uint64(2 * mem.MiB)
)

// pooling starts a daemon whose pool keeps up to an eighth of what it is given, and
// waits until it does.
func pooling(t *testing.T, host mem.Bytes) *daemon {
	t.Helper()
	d := serve(t, rundir(t), withMemory(xserver.ManagedMemory{Budget: 16 * mem.GiB, Host: host}))
	h := pooled(t, attach(t, dial(t, d.dir), client.Registration{}))
	fd := slot(t, "xm-probe", "")
	eventually(t, "the pool to keep something", func() bool {
		n, err := h.Give("probe", poolBytes, []int{fd})
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	fds, err := h.Take("probe", poolBytes, 1)
	if err != nil || len(fds) != 1 {
		t.Fatalf("%v, %v", fds, err)
	}
	closeFDs(append(fds, fd)...)
	return d
}

func pooled(t *testing.T, p *player) *client.HostPool {
	t.Helper()
	h, err := p.HostPool(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// slot is a memfd with a text in it. The name tells its descriptors from others.
func slot(t *testing.T, name, text string) int {
	t.Helper()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err == nil {
		_, err = unix.Pwrite(fd, []byte(text), 0)
	}
	if err == nil {
		err = unix.Ftruncate(fd, int64(mem.GiB))
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func slotsOf(t *testing.T, name string, n int) (fds []int) {
	t.Helper()
	for i := range n {
		fds = append(fds, slot(t, name, fmt.Sprint(i)))
	}
	return fds
}

// textIn reads what a slot has.
func textIn(t *testing.T, fd int) string {
	t.Helper()
	buf := make([]byte, 100)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(string(buf[:n]), "\x00")
}

func closeFDs(fds ...int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

func TestHostPoolPassesSlots(t *testing.T) {
	const name = "xm-pass"
	d := pooling(t, 512*mem.MiB)
	c := dial(t, d.dir)
	giver, taker := pooled(t, attach(t, c, client.Registration{})), pooled(t, attach(t, c, client.Registration{}))
	fds := slotsOf(t, name, 20) // more than go beside one line
	if n, err := giver.Give(poolDevice, poolBytes, fds); n != 20 || err != nil {
		t.Fatalf("gave %d of 20, %v", n, err)
	}
	for _, other := range []struct {
		device string
		bytes  uint64
	}{{poolDevice, 2 * poolBytes}, {"GPU-2", poolBytes}} {
		if got, err := taker.Take(other.device, other.bytes, 9); len(got) != 0 || err != nil {
			t.Errorf("%v of slots of another kind, %v", got, err)
		}
	}
	if got, err := taker.Take(poolDevice, poolBytes, 0); len(got) != 0 || err != nil {
		t.Errorf("%v of none that were wanted, %v", got, err)
	}
	first, err := taker.Take(poolDevice, poolBytes, 1)
	if err != nil || len(first) != 1 || textIn(t, first[0]) != "19" {
		t.Fatalf("%v, %v, want the newest", first, err)
	}
	// It is the same memory, and not a copy of it.
	if _, err := unix.Pwrite(first[0], []byte("written"), 0); err != nil {
		t.Fatal(err)
	}
	if have := textIn(t, fds[19]); have != "written" {
		t.Errorf("the giver finds %q in what the taker has written to", have)
	}
	if flags, err := unix.FcntlInt(uintptr(first[0]), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v: a program started by the taker has the slot", flags, err)
	}
	rest, err := taker.Take(poolDevice, poolBytes, 100)
	var texts []string
	for _, fd := range rest {
		texts = append(texts, textIn(t, fd))
	}
	want := strings.Fields("18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0")
	if err != nil || !slices.Equal(texts, want) {
		t.Errorf("took %q, %v, want %q", texts, err, want)
	}
	closeFDs(slices.Concat(fds, first, rest)...)
	eventually(t, "the daemon to close its own", func() bool { return xserver.OpenFDs(t, name) == 0 })
}

func TestHostPoolIsBounded(t *testing.T) {
	const name = "xm-bound"
	d := pooling(t, 32*mem.MiB) // 4 MiB wait at most
	h := pooled(t, attach(t, dial(t, d.dir), client.Registration{}))
	fds := slotsOf(t, name, 5)
	if n, err := h.Give(poolDevice, poolBytes, fds); n != 2 || err != nil {
		t.Errorf("kept %d slots of 2 MiB, %v; want 2", n, err)
	}
	got, err := h.Take(poolDevice, poolBytes, 1)
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if n, err := h.Give(poolDevice, 2*poolBytes, fds[2:3]); n != 0 || err != nil {
		t.Errorf("kept %d of 4 MiB beside one of 2, %v", n, err)
	}
	if n, err := h.Give(poolDevice, poolBytes, fds[2:]); n != 1 || err != nil {
		t.Errorf("kept %d where there is room for one, %v", n, err)
	}
	closeFDs(append(fds, got...)...)
	eventually(t, "only those that wait to be open", func() bool { return xserver.OpenFDs(t, name) == 2 })
}

// TestHostPoolKeepsNothing has a daemon that manages no memory: it knows of no bound.
func TestHostPoolKeepsNothing(t *testing.T) {
	h := pooled(t, attach(t, dial(t, serve(t, rundir(t)).dir), client.Registration{}))
	fd := slot(t, "xm-nothing", "")
	defer closeFDs(fd)
	if n, err := h.Give(poolDevice, poolBytes, []int{fd}); n != 0 || err != nil {
		t.Errorf("kept %d, %v", n, err)
	}
}

func TestHostPoolExpires(t *testing.T) {
	const name = "xm-old"
	d := pooling(t, 512*mem.MiB)
	h := pooled(t, attach(t, dial(t, d.dir), client.Registration{}))
	fd := slot(t, name, "")
	begin := time.Now()
	n, err := h.Give(poolDevice, poolBytes, []int{fd})
	closeFDs(fd)
	if n != 1 || err != nil || xserver.OpenFDs(t, name) != 1 {
		t.Fatalf("kept %d, %v; %d descriptors are open, want the daemon's", n, err, xserver.OpenFDs(t, name))
	}
	eventually(t, "nobody to have come", func() bool { return xserver.OpenFDs(t, name) == 0 })
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("closed after %v, want 3 s", took)
	}
	if got, err := h.Take(poolDevice, poolBytes, 1); len(got) != 0 || err != nil {
		t.Errorf("took %v, %v", got, err)
	}
}

func TestHostPoolEndsWithTheDaemon(t *testing.T) {
	const name = "xm-end"
	d := pooling(t, 512*mem.MiB)
	h := pooled(t, attach(t, dial(t, d.dir), client.Registration{}))
	fds := slotsOf(t, name, 3)
	if n, err := h.Give(poolDevice, poolBytes, fds); n != 3 || err != nil {
		t.Fatalf("gave %d, %v", n, err)
	}
	closeFDs(fds...)
	begin := time.Now()
	d.stop()
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the daemon took %v to end", took)
	}
	if have := xserver.OpenFDs(t, name); have != 0 {
		t.Errorf("%d slots are open after the daemon's end", have)
	}
	_, err := h.Take(poolDevice, poolBytes, 1)
	if err == nil {
		t.Fatal("taken from a daemon that is gone")
	}
	if _, again := h.Give(poolDevice, poolBytes, []int{0}); again != err {
		t.Errorf("after that: %v, want %v", again, err)
	}
}

// TestHostPoolEndsWithTheRegistration keeps what the process gave, whose end it is.
func TestHostPoolEndsWithTheRegistration(t *testing.T) {
	d := pooling(t, 512*mem.MiB)
	c := dial(t, d.dir)
	p := attach(t, c, client.Registration{})
	h := pooled(t, p)
	fd := slot(t, "xm-heir", "inherited")
	if n, err := h.Give(poolDevice, poolBytes, []int{fd}); n != 1 || err != nil {
		t.Fatalf("gave %d, %v", n, err)
	}
	closeFDs(fd)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection to end", func() bool { _, err := h.Take("none", poolBytes, 1); return err != nil })
	got, err := pooled(t, attach(t, c, client.Registration{})).Take(poolDevice, poolBytes, 2)
	if err != nil || len(got) != 1 || textIn(t, got[0]) != "inherited" {
		t.Fatalf("%v, %v", got, err)
	}
	closeFDs(got...)
}

// TestHostPoolByManyAtOnce has several devices of two processes pass slots to and fro.
func TestHostPoolByManyAtOnce(t *testing.T) {
	const name, each = "xm-many", 50
	d := pooling(t, 512*mem.MiB)
	c := dial(t, d.dir)
	pools := []*client.HostPool{pooled(t, attach(t, c, client.Registration{})), pooled(t, attach(t, c, client.Registration{}))}
	var devices sync.WaitGroup
	for i := range 6 {
		mine, device := slot(t, name, fmt.Sprint(i)), fmt.Sprint("GPU-", i/2)
		devices.Go(func() {
			defer closeFDs(mine)
			for range each {
				if n, err := pools[i%2].Give(device, poolBytes, []int{mine}); n != 1 || err != nil {
					t.Errorf("device %s: gave %d, %v", device, n, err)
					return
				}
				got, err := pools[1-i%2].Take(device, poolBytes, 1)
				if err != nil || len(got) != 1 { // two give, and each takes one
					t.Errorf("device %s: took %v, %v", device, got, err)
					return
				}
				if text := textIn(t, got[0]); text != fmt.Sprint(i) && text != fmt.Sprint(i^1) {
					t.Errorf("device %s has slot %s", device, text)
				}
				closeFDs(got...)
			}
		})
	}
	devices.Wait()
	eventually(t, "all to be closed", func() bool { return xserver.OpenFDs(t, name) == 0 })
}

// TestPoolsTakeNoHandshakesPlace opens more connections than may be at their first line.
func TestPoolsTakeNoHandshakesPlace(t *testing.T) {
	const most = 128
	c := dial(t, serve(t, rundir(t)).dir)
	for range most + 2 {
		pooled(t, attach(t, c, client.Registration{}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	a, err := c.Attach(ctx, client.Registration{})
	if err != nil {
		t.Fatalf("beside %d connections to the pool: %v", most+2, err)
	}
	_ = a.Close()
}

// raw is a connection to the board socket without a client behind it.
type raw struct {
	*net.UnixConn
	t     *testing.T
	lines *bufio.Reader
}

func connectRaw(t *testing.T, dir string) *raw {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: dir + "/" + client.BoardSocket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return &raw{conn, t, bufio.NewReader(conn)}
}

// say writes a line with descriptors beside it.
func (r *raw) say(line string, fds ...int) {
	r.t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := r.WriteMsgUnix([]byte(line), oob, nil); err != nil {
		r.t.Fatal(err)
	}
}

// hear reads a line, and drops what comes beside it. An empty error: there was none.
func (r *raw) hear() (problem string, err error) {
	line, err := r.lines.ReadBytes('\n')
	if err != nil {
		return "", err
	}
	var reply client.BoardReply
	err = json.Unmarshal(line, &reply)
	return reply.Error, err
}

// enterRaw opens a connection to the pool, again until the daemon has seen the end of the last.
func enterRaw(t *testing.T, dir string, session int) *raw {
	t.Helper()
	var r *raw
	eventually(t, "to be let in", func() bool {
		r = connectRaw(t, dir)
		r.say(fmt.Sprintf("{\"version\":1,\"ticket\":\"\",\"pool\":true,\"session\":%d}\n", session))
		problem, err := r.hear()
		if err != nil || problem != "" && !strings.Contains(problem, "has a connection") {
			t.Fatalf("%q, %v", problem, err)
		}
		if problem != "" {
			_ = r.Close()
		}
		return problem == ""
	})
	return r
}

func TestHostPoolIsForThoseWhoAreAttached(t *testing.T) {
	dir := serve(t, rundir(t)).dir
	c := dial(t, dir)
	mine := attach(t, c, client.Registration{}) // a daemon counts registrations from 1
	another := spawn(t, part{Role: "player", Dir: dir})
	conn, err := grpc.NewClient("unix:"+dir+"/"+client.ControlSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	half, err := xserverv1.NewXServerServiceClient(conn).Register(t.Context(), &xserverv1.RegisterRequest{BoardVersion: board.Version})
	if err != nil || half.Session != 3 {
		t.Fatalf("%v, %v, want session 3", half, err)
	}
	for name, bad := range map[string]struct{ line, why string }{
		"no session":        {`{"version":1,"pool":true}`, "no such registration"},
		"unknown":           {`{"version":1,"pool":true,"session":99}`, "no such registration"},
		"negative":          {`{"version":1,"pool":true,"session":-1}`, "first line"},
		"another process's": {`{"version":1,"pool":true,"session":2}`, "no such registration"},
		"without its board": {`{"version":1,"pool":true,"session":3}`, "no such registration"},
		"another version":   {`{"version":2,"pool":true,"session":1}`, "version 2"},
		"without pool":      {`{"version":1,"session":1}`, "ticket"},
	} {
		r := connectRaw(t, dir)
		r.say(bad.line + "\n")
		if problem, err := r.hear(); err != nil || !strings.Contains(problem, bad.why) {
			t.Errorf("%s: %q, %v", name, problem, err)
		}
	}
	h := pooled(t, mine)
	if _, err := mine.HostPool(t.Context()); err == nil || !strings.Contains(err.Error(), "has a connection") {
		t.Errorf("a second connection: %v", err)
	}
	if _, err := h.Take(poolDevice, poolBytes, 1); err != nil {
		t.Errorf("the first connection, after that: %v", err)
	}
	_ = h.Close()
	eventually(t, "the first one's end to be seen", func() bool {
		again, err := mine.HostPool(t.Context())
		if err == nil {
			_ = again.Close()
		}
		return err == nil
	})
	another.kill()
}

// TestHostPoolBelievesNobody sends what no client sends. Each costs its sender the
// connection, others nothing, and the daemon no descriptor.
func TestHostPoolBelievesNobody(t *testing.T) {
	const name = "xm-bad"
	dir := serve(t, rundir(t), withMemory(xserver.ManagedMemory{Budget: 16 * mem.GiB, Host: 512 * mem.MiB})).dir
	c := dial(t, dir)
	attach(t, c, client.Registration{}) // session 1
	good := pooled(t, attach(t, c, client.Registration{}))
	fds := slotsOf(t, name, 40)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file, err := unix.Open(dir+"/file", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	req := func(op, device, bytes, slots string) string {
		return fmt.Sprintf("{\"op\":%q,\"device\":%q,\"bytes\":%s,\"slots\":%s}\n", op, device, bytes, slots)
	}
	const size = "2097152"
	enterRaw(t, dir, 1).Close()
	before := xserver.OpenFDs(t, "")
	for what, bad := range map[string]struct {
		line string
		fds  []int
		why  string
	}{
		"a long line":            {strings.Repeat("x", 2000) + "\n", fds[:3], "1024 bytes"},
		"a line without end":     {strings.Repeat("x", 1024), fds[:3], "1024 bytes"},
		"no JSON":                {"GET / HTTP/1.1\n", fds[:1], "invalid character"},
		"two lines":              {req("take", "d", size, "1") + req("take", "d", size, "1"), nil, "more than a line"},
		"more than said":         {req("give", "d", size, "1"), fds[:2], "1 slots with 2 descriptors"},
		"less than said":         {req("give", "d", size, "3"), fds[:2], "3 slots with 2 descriptors"},
		"none of those said":     {req("give", "d", size, "1"), nil, "1 slots with 0"},
		"more than a line takes": {req("give", "d", size, "16"), fds, "more than 16"},
		"more, and says so":      {req("give", "d", size, "40"), fds, "more than 16"},
		"nothing given":          {req("give", "d", size, "0"), nil, "allowed are 1 to 16"},
		"less than nothing":      {req("take", "d", size, "-1"), nil, "allowed are 1 to 16"},
		"too many wanted":        {req("take", "d", size, "17"), nil, "allowed are 1 to 16"},
		"no bytes":               {req("give", "d", "0", "1"), fds[:1], "slots of 0 bytes"},
		"uneven bytes":           {req("give", "d", "3145728", "1"), fds[:1], "slots of 3145728 bytes"},
		"too many bytes":         {req("give", "d", "2147483648", "1"), fds[:1], "slots of 2147483648 bytes"},
		"far too many bytes":     {req("give", "d", "18446744073707454464", "1"), fds[:1], "slots of 18446744073707454464 bytes"},
		"more than a number":     {req("give", "d", "99999999999999999999", "1"), fds[:1], "cannot unmarshal"},
		"no device":              {req("give", "", size, "1"), fds[:1], "1 to 128 bytes"},
		"a long device":          {req("give", strings.Repeat("d", 129), size, "1"), fds[:1], "1 to 128 bytes"},
		"unknown":                {req("steal", "d", size, "1"), fds[:1], "neither"},
		"to take with something": {req("take", "d", size, "1"), fds[:1], "beside a request to take"},
		"a socket":               {req("give", "d", size, "2"), []int{fds[0], pair[0]}, "none of memory"},
		"a directory":            {req("give", "d", size, "2"), []int{folder, fds[0]}, "none of memory"},
		"a file":                 {req("give", "d", size, "1"), []int{file}, "none of memory"},
	} {
		r := enterRaw(t, dir, 1)
		r.say(bad.line, bad.fds...)
		if problem, err := r.hear(); err != nil || !strings.Contains(problem, bad.why) {
			t.Errorf("%s: %q, %v, want %q", what, problem, err, bad.why)
		}
		// What a line too long left unread is why the connection may end in a reset.
		if problem, err := r.hear(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %q, %v, want the connection to end", what, problem, err)
		}
		_ = r.Close()
		if _, err := good.Take("none", poolBytes, 1); err != nil {
			t.Fatalf("%s: another client: %v", what, err)
		}
	}
	eventually(t, "no descriptor to be left", func() bool { return xserver.OpenFDs(t, "") <= before && xserver.OpenFDs(t, name) == len(fds) })
	closeFDs(slices.Concat(fds, pair[:], []int{folder, file})...)
}

// TestHostPoolWaitsForNobody has clients stop in the middle of a line, ask for more
// than they read, and leave what they took.
func TestHostPoolWaitsForNobody(t *testing.T) {
	const name = "xm-slow"
	dir := pooling(t, 512*mem.MiB).dir // session 1
	c := dial(t, dir)
	attach(t, c, client.Registration{}) // session 2
	good := pooled(t, attach(t, c, client.Registration{}))
	fds := slotsOf(t, name, 4)
	give := func() {
		t.Helper()
		if n, err := good.Give(poolDevice, poolBytes, fds); n != len(fds) || err != nil {
			t.Fatalf("gave %d, %v", n, err)
		}
	}
	take := fmt.Sprintf("{\"op\":\"take\",\"device\":%q,\"bytes\":%d,\"slots\":2}\n", poolDevice, poolBytes)

	half := enterRaw(t, dir, 2)
	half.say(take[:20], fds[:2]...)
	eventually(t, "half a line to have come", func() bool { return xserver.OpenFDs(t, name) == len(fds)+2 })
	give()
	got, err := good.Take(poolDevice, poolBytes, 4)
	if err != nil || len(got) != 4 {
		t.Errorf("took %v, %v beside one who stops", got, err)
	}
	closeFDs(got...)
	if problem, err := half.hear(); err != nil || !strings.Contains(problem, "timeout") {
		t.Errorf("half a line: %q, %v", problem, err)
	}
	eventually(t, "what came with half a line to be closed", func() bool { return xserver.OpenFDs(t, name) == len(fds) })

	give()
	deaf := enterRaw(t, dir, 2)
	deaf.say(take)
	await(t, deaf, unix.POLLIN)
	deaf.say(take)
	await(t, deaf, unix.POLLRDHUP)
	first, err := deaf.hear()
	second, serr := deaf.hear()
	if err != nil || first != "" || serr != nil || !strings.Contains(second, "before the answer to the last was read") {
		t.Errorf("a request before the answer was read: %q, %v; %q, %v", first, err, second, serr)
	}

	leaver := enterRaw(t, dir, 2)
	leaver.say(take)
	await(t, leaver, unix.POLLIN)
	_ = leaver.Close()
	eventually(t, "what was left to be closed", func() bool { return xserver.OpenFDs(t, name) == len(fds) })
	if got, err := good.Take(poolDevice, poolBytes, 4); len(got) != 0 || err != nil {
		t.Errorf("took %v, %v of what others took before", got, err)
	}
	closeFDs(fds...)
}

// await waits until a connection has something to read, or its other side has closed it.
func await(t *testing.T, r *raw, event int16) {
	t.Helper()
	sock, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if cerr := sock.Control(func(fd uintptr) {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: event}}, 10_000)
	}); cerr != nil || err != nil || n != 1 {
		t.Fatalf("waited for event %#x: %d, %v, %v", event, n, err, cerr)
	}
}

// TestHostPoolStaysWithinUserAndNamespaces has children give a slot each, which is
// taken if they are like the taker, and not if they are another user, or have a user,
// pid or mount namespace of their own.
func TestHostPoolStaysWithinUserAndNamespaces(t *testing.T) {
	d := pooling(t, 512*mem.MiB)
	taker := pooled(t, attach(t, dial(t, d.dir), client.Registration{}))
	const nobody = 65534
	children := map[string]*syscall.SysProcAttr{"like": nil}
	if os.Geteuid() == 0 { // else there is no other user, and there may be no namespaces
		if err := os.Chmod(d.dir, 0o711); err != nil {
			t.Fatal(err)
		}
		for _, socket := range []string{client.ControlSocket, client.BoardSocket} {
			if err := os.Chmod(d.dir+"/"+socket, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		root := []syscall.SysProcIDMap{{Size: 1}}
		children["user"] = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		children["mnt"] = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		children["pid"] = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		children["userns"] = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: root, GidMappings: root}
	}
	for name, attr := range children {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestHostPoolGiver$", "-test.v")
			cmd.Env = append(os.Environ(), "XMSCHED_POOL_DIR="+d.dir, "XMSCHED_POOL_TEXT="+name, "GORACE=atexit_sleep_ms=0")
			cmd.SysProcAttr = attr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines, passed := bufio.NewScanner(out), false
			for lines.Scan() && lines.Text() != "given" {
				t.Log(lines.Text())
			}
			if n := xserver.OpenFDs(t, "xm-giver-"+name); n != 1 {
				t.Errorf("the daemon keeps %d slots, want 1", n)
			}
			got, err := taker.Take(poolDevice, poolBytes, 9)
			if err != nil || (len(got) == 1) != (attr == nil) || len(got) > 1 {
				t.Errorf("took %v, %v", got, err)
			}
			for _, fd := range got {
				if text := textIn(t, fd); text != name {
					t.Errorf("the slot has %q", text)
				}
			}
			closeFDs(got...)
			_ = in.Close()
			for lines.Scan() {
				passed = passed || strings.Contains(lines.Text(), "--- PASS: TestHostPoolGiver")
			}
			if err := cmd.Wait(); err != nil || !passed {
				t.Errorf("the giver: %v, passed: %v", err, passed)
			}
		})
	}
}

// TestHostPoolGiver is the giver's part of TestHostPoolStaysWithinUserAndNamespaces.
func TestHostPoolGiver(t *testing.T) {
	dir := os.Getenv("XMSCHED_POOL_DIR")
	if dir == "" {
		t.Skip("runs in a child of TestHostPoolStaysWithinUserAndNamespaces")
	}
	h := pooled(t, attach(t, dial(t, dir), client.Registration{}))
	text := os.Getenv("XMSCHED_POOL_TEXT")
	fd := slot(t, "xm-giver-"+text, text)
	defer closeFDs(fd)
	if n, err := h.Give(poolDevice, poolBytes, []int{fd}); n != 1 || err != nil {
		t.Errorf("gave %d, %v", n, err)
	}
	fmt.Println("given")
	_, _ = io.Copy(io.Discard, os.Stdin) // whoever takes it may see us meanwhile
}

// TestThePoolOpensAgainBesideAChild: a program that forked (a DataLoader's worker) has a
// copy of every descriptor. A connection that was closed is over for the daemon all the same.
func TestThePoolOpensAgainBesideAChild(t *testing.T) {
	d := pooling(t, 512*mem.MiB)
	p := attach(t, dial(t, d.dir), client.Registration{})
	before := socketsOf(t)
	h := pooled(t, p)
	for fd := range socketsOf(t) { // what fork does
		if !before[fd] {
			if dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
				t.Cleanup(func() { closeFDs(dup) })
			}
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 20 {
		time.Sleep(100 * time.Millisecond)
		var again *client.HostPool
		if again, err = p.HostPool(t.Context()); err == nil {
			_ = again.Close()
			return
		}
	}
	t.Errorf("2 s after the connection was closed: %v", err)
}

func socketsOf(t *testing.T) map[int]bool {
	set := map[int]bool{}
	for fd := range 4096 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			// the client's side only: its peer's address is the board socket
			if name, err := unix.Getpeername(fd); err == nil {
				if u, ok := name.(*unix.SockaddrUnix); ok && len(u.Name) > 0 {
					set[fd] = true
				}
			}
		}
	}
	return set
}
