package device

import (
	"context"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sim-device" { // we are xrun; see ensure_test.go
		os.Exit(beDevice(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func closeDescriptor(fd int) { _ = unix.Close(fd) }

// startDevice serves until the test ends.
func startDevice(t *testing.T, cfg Config) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "xmdev")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Socket = filepath.Join(dir, "s")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if alive(cfg.Socket) {
			return cfg.Socket
		}
		if time.Now().After(deadline) {
			t.Fatal("the device does not start")
		}
	}
}

// rawClient speaks the protocol without the driver's manners.
type rawClient struct {
	t    *testing.T
	conn *net.UnixConn
	bell int
	mem  []byte
	ctx  uint64
	put  uint64
}

func dial(t *testing.T, socket string) *rawClient {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t: t, conn: conn, bell: -1}
	t.Cleanup(c.close)
	return c
}

func (c *rawClient) close() {
	_ = c.conn.Close()
	if c.bell >= 0 {
		closeDescriptor(c.bell)
		c.bell = -1
	}
	if c.mem != nil {
		_ = unix.Munmap(c.mem)
		c.mem = nil
	}
}

func (c *rawClient) call(q request) (reply, int) {
	c.t.Helper()
	if _, err := c.conn.Write(q.bytes()); err != nil {
		c.t.Fatal(err)
	}
	var r reply
	oob := make([]byte, unix.CmsgSpace(4))
	_, oobn, _, _, err := c.conn.ReadMsgUnix(r.bytes(), oob)
	if err != nil {
		c.t.Fatal(err)
	}
	fd := -1
	if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(msgs) > 0 {
		fds, err := unix.ParseUnixRights(&msgs[0])
		if err != nil {
			c.t.Fatal(err)
		}
		fd = fds[0]
	}
	return r, fd
}

func (c *rawClient) begin() {
	c.t.Helper()
	r, bell := c.call(request{Op: opHello, A: wireVersion})
	if r.Result != success || bell < 0 {
		c.t.Fatalf("hello: %d", r.Result)
	}
	c.bell = bell
	r, fd := c.call(request{Op: opContext})
	if r.Result != success {
		c.t.Fatalf("context: %d", r.Result)
	}
	c.adopt(r.A, fd)
}

// adopt works in a context from now on.
func (c *rawClient) adopt(ctx uint64, fd int) {
	c.t.Helper()
	if c.mem != nil {
		_ = unix.Munmap(c.mem)
	}
	c.ctx, c.put = ctx, 0
	var err error
	if c.mem, err = unix.Mmap(fd, 0, sharedBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		c.t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, 4096); err == nil {
		c.t.Error("a client can shrink the rings")
	}
	closeDescriptor(fd)
}

func (c *rawClient) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(c.bell, one[:])
}

// raw is an entry as it lies in a ring.
func (e *entry) raw() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(e)), unsafe.Sizeof(*e)) }

// submit puts an entry into ring 0, as the driver would.
func (c *rawClient) submit(e entry) {
	at := offEntries + int(c.put%ringEntries)*entryBytes
	copy(c.mem[at:at+entryBytes], (&e).raw())
	c.put++
	word64(c.mem, offRings).Store(c.put)
	c.ring()
}

func (c *rawClient) waitGet(want uint64) {
	c.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); word64(c.mem, offRings+ringGet).Load() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("get is %d, want %d", word64(c.mem, offRings+ringGet).Load(), want)
		}
	}
}

// well shows that the device serves: memory, a fill, a kernel over it.
func (c *rawClient) well() {
	c.t.Helper()
	c.begin()
	if r, _ := c.call(request{Op: opAlloc, A: c.ctx, B: 0x10000000, C: 4096}); r.Result != success {
		c.t.Fatalf("alloc: %d", r.Result)
	}
	c.submit(entry{Verb: uint32(verbFill), Kind: 4, A: 0x10000000, B: 7, C: 1024})
	c.waitGet(1)
	if r := word32(c.mem, offError).Load(); r != 0 {
		c.t.Fatalf("error %d", r)
	}
}

func TestHostileRings(t *testing.T) {
	socket := startDevice(t, Config{})
	random := rand.New(rand.NewSource(1))
	for name, attack := range map[string]func(*rawClient){
		"unknown command": func(c *rawClient) { c.submit(entry{Verb: 99}) },
		"put far ahead": func(c *rawClient) {
			word64(c.mem, offRings).Store(1 << 40)
			c.ring()
		},
		"put goes back": func(c *rawClient) {
			for range 3 {
				c.submit(entry{})
			}
			c.waitGet(3)
			word64(c.mem, offRings).Store(1)
			c.ring()
		},
		"wild kernel": func(c *rawClient) { c.submit(entry{Verb: uint32(verbLaunch), Kernel: 1 << 31}) },
		"arguments too long": func(c *rawClient) {
			c.submit(entry{Verb: uint32(verbLaunch), Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, ArgBytes: 1 << 30})
		},
		"event slot outside": func(c *rawClient) { c.submit(entry{Verb: uint32(verbEvent), A: eventSlots}) },
		"unmapped copy":      func(c *rawClient) { c.submit(entry{Verb: uint32(verbCopy), A: 1, B: 2, C: 1 << 62}) },
		"endless rows": func(c *rawClient) {
			c.submit(rowsEntry(verbCopyRows, 8, rows{1 << 40, 1 << 20, 8, 0, 8, 0}))
		},
		"unmapped wait": func(c *rawClient) { c.submit(entry{Verb: uint32(verbWait), Kind: 4, A: 4096}) },
		"noise": func(c *rawClient) {
			random.Read(c.mem[offRings:])
			c.ring()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, socket)
			c.begin()
			attack(c)
			for deadline := time.Now().Add(10 * time.Second); word32(c.mem, offError).Load() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the attack goes unnoticed")
				}
			}
			dial(t, socket).well()
		})
	}
}

func TestHostileRequests(t *testing.T) {
	socket := startDevice(t, Config{HBM: 64 << 20})
	c := dial(t, socket)
	c.begin()
	for _, k := range []struct {
		q    request
		want result
	}{
		{request{Op: 99}, notSupported},
		{request{Op: opAlloc, A: c.ctx + 1, B: 4096, C: 1}, invalidContext},
		{request{Op: opAlloc, A: c.ctx, B: 4097, C: 1}, invalidValue},
		{request{Op: opAlloc, A: c.ctx, B: 4096, C: ^uint64(0)}, outOfMemory},
		{request{Op: opAlloc, A: c.ctx, B: ^uint64(0) &^ 4095, C: 1 << 20}, invalidValue},
		{request{Op: opAlloc, A: c.ctx, B: 1 << 20, C: 4096}, success},
		{request{Op: opAlloc, A: c.ctx, B: 1 << 20, C: 4096}, alreadyMapped},
		{request{Op: opFree, A: 1<<20 + 8}, invalidValue},
		{request{Op: opHostEnd, A: 1 << 20}, invalidValue}, // not host memory
		{request{Op: opFree, A: 1 << 20}, success},
		{request{Op: opFree, A: 1 << 20}, invalidValue},
		{request{Op: opHostAlloc, B: 4096, C: ^uint64(0)}, outOfMemory},
		{request{Op: opHostRegister, B: 1 << 40, C: 1 << 62}, invalidValue},
		{request{Op: opContextEnd, A: c.ctx + 1}, invalidContext},
		{request{Op: opHello, A: 99}, systemMismatch},
	} {
		if r, _ := c.call(k.q); r.Result != k.want {
			t.Errorf("%+v answered %d, want %d", k.q, r.Result, k.want)
		}
	}
	if _, err := c.conn.Write([]byte("short")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.conn.Read(make([]byte, 16)); n > 0 || err == nil {
		t.Error("a malformed request is answered")
	}
	dial(t, socket).well()
}

// Memory that its owner can shrink is never mapped here: touching it after that
// would end the device.
func TestShrinkableMemoryIsNotMapped(t *testing.T) {
	fd, err := unix.MemfdCreate("loose", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer closeDescriptor(fd)
	if err := unix.Ftruncate(fd, 8192); err != nil {
		t.Fatal(err)
	}
	if mapForeign(fd, 0, 4096) != nil {
		t.Error("shrinkable memory was mapped")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		offset, n uint64
		ok        bool
	}{{0, 8192, true}, {4096, 4096, true}, {4096, 4097, false}, {12288, 1, false}, {100, 1, false}, {^uint64(4095), 4096, false}} {
		data := mapForeign(fd, k.offset, k.n)
		if (data != nil) != k.ok {
			t.Errorf("offset %d, %d bytes: mapped %v", k.offset, k.n, data != nil)
		}
		if data != nil {
			_ = unix.Munmap(data)
		}
	}
}

func TestCapacityIsShared(t *testing.T) {
	socket := startDevice(t, Config{HBM: 128 << 20})
	a, b := dial(t, socket), dial(t, socket)
	a.begin()
	b.begin()
	if r, _ := a.call(request{Op: opAlloc, A: a.ctx, B: 1 << 30, C: 100 << 20}); r.Result != success {
		t.Fatalf("100 of 112 MiB: %d", r.Result)
	}
	if r, _ := b.call(request{Op: opAlloc, A: b.ctx, B: 1 << 30, C: 20 << 20}); r.Result != outOfMemory {
		t.Fatalf("20 of 12 MiB: %d", r.Result)
	}
	a.close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if r, _ := b.call(request{Op: opMemInfo}); r.A == r.B-contextOverhead {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a client that left still has its memory")
		}
	}
}

func TestSecondDeviceRefuses(t *testing.T) {
	socket := startDevice(t, Config{})
	if err := Serve(context.Background(), Config{Socket: socket}); err == nil {
		t.Error("two devices serve one socket")
	}
}

func TestIdleExit(t *testing.T) {
	dir := t.TempDir()
	begun := time.Now()
	if err := Serve(context.Background(), Config{Socket: filepath.Join(dir, "s"), IdleExit: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begun); d < 50*time.Millisecond {
		t.Errorf("it left after %v", d)
	}
}
