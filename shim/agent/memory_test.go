package agent

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
	"xmsched/hal/sim/device"
	"xmsched/hal/sim/simtest"
	"xmsched/memory"
	"xmsched/nvx/mover"
	"xmsched/preempt/board"
)

// underLibrary runs a test of this binary again, in a process with the preload
// library on a simulated device.
func underLibrary(t *testing.T, test string, options ...simtest.Option) {
	t.Helper()
	out := filepath.Join(simtest.Built(t, "lib/libxmsched.so"), "lib")
	preload := filepath.Join(simtest.Root(t), "shim", "cuda", "preload")
	gcc := exec.Command("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I"+preload, "-o", filepath.Join(out, "libxagent.so"), "testdata/host.c")
	if said, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", gcc.Args, err, said)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+regexp.QuoteMeta(test)+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(append(os.Environ(), simtest.Start(t, append(options, simtest.HBM(1<<30))...)...),
		"XMSCHED_TEST_INNER="+out, "XMSCHED_LIB="+out, "XMSCHED_MEMORY=1", "LD_PRELOAD="+filepath.Join(out, "libxmsched.so"))
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "--- PASS: "+test) {
		t.Fatalf("%s: %v\n%s", test, err, said)
	}
}

// governed is a process with the preload library, whose daemon and agent is the
// test.
type governed struct {
	t        *testing.T
	driver   *cuda.Driver
	board    *board.Board
	device   board.Device
	table    lentTable
	commands uintptr // struct xm_commands
	want     uint32  // of memory
	wish     uint32
	ctx      context.Context
	parts    sync.WaitGroup
}

func (g *governed) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func govern(t *testing.T) *governed {
	out := os.Getenv("XMSCHED_TEST_INNER")
	if out == "" {
		t.Skip("runs as a process of its own, started by another test")
	}
	runtime.LockOSThread()
	g := &governed{t: t}
	var err error
	g.driver, err = cuda.Open()
	g.must(err)
	g.must(g.driver.Init())
	host := g.host(out)
	g.board, err = board.Create(1, 1)
	g.must(err)
	g.device = g.board.Device(0)
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	g.must(err)
	fd, err := unix.FcntlInt(g.board.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	g.must(err)
	if r, _, _ := purego.SyscallN(at(host+8), uintptr(fd), uintptr(bell)); r != 0 {
		t.Fatalf("attach: %d", int32(r))
	}
	g.table = lentTable(at(host + 48))
	g.commands = at(host + 56)
	ctx, cancel := context.WithCancel(context.Background())
	g.ctx = ctx
	t.Cleanup(func() { cancel(); g.parts.Wait() })
	g.every(50*time.Millisecond, g.board.BeatDaemon)
	g.order(memory.GiB)
	g.device.Publish(0, board.Grant{Open: true, Level: 3})
	return g
}

// host waits for what the library lends.
func (g *governed) host(out string) uintptr {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		lib, err := purego.Dlopen(filepath.Join(out, "libxagent.so"), purego.RTLD_NOW)
		g.must(err)
		ask, err := purego.Dlsym(lib, "test_host")
		g.must(err)
		if host, _, _ := purego.SyscallN(ask); host != 0 {
			return host
		}
	}
	g.t.Fatal("the library starts no agent")
	return 0
}

func (g *governed) every(pause time.Duration, f func()) {
	g.parts.Go(func() {
		for g.ctx.Err() == nil {
			f()
			time.Sleep(pause)
		}
	})
}

// order gives the process a target.
func (g *governed) order(target memory.Bytes) {
	g.want = g.device.SetMemory(g.want, board.Memory{Flags: board.MemoryManaged, Target: uint64(target)})
	g.device.WakeMemory()
}

// hold suspends or resumes the process, and waits until it is done.
func (g *governed) hold(h board.Hold) {
	g.wish = g.device.Ask(g.wish, board.Wish{Hold: h})
	g.device.WakeWish()
	for began := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		v := g.board.HoldView(0)
		if v.Did == g.wish && v.Held == h {
			return
		}
		if v.Did == g.wish || time.Since(began) > time.Minute {
			g.t.Errorf("hold %s: %+v", h, v)
			return
		}
	}
}

// await waits until the figures are good.
func (g *governed) await(what string, good func(v board.MemoryView) bool) (v board.MemoryView) {
	g.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if v = g.board.MemoryView(0); good(v) {
			return v
		}
		if time.Since(began) > 20*time.Second {
			g.t.Fatalf("waited for %s: %+v", what, v)
		}
	}
}

// primary is the program's context, current on this thread.
func (g *governed) primary() *cuda.Context {
	device, err := g.driver.Device(0)
	g.must(err)
	own, err := g.driver.PrimaryContext(device)
	g.must(err)
	g.must(own.SetCurrent())
	return own
}

func (g *governed) serve() *mover.Engine {
	e := mover.New(mover.Config{Memory: g.table, Go: func(f func()) { g.parts.Go(f) }, Journal: func(e mover.Entry) {
		if strings.Contains(e.Error, abi.CUDA_ERROR_ILLEGAL_ADDRESS.String()) {
			g.t.Errorf("a copy found nothing at its address: %+v", e)
		}
	}})
	served := make(chan struct{})
	g.parts.Go(func() { defer close(served); e.Serve(g.ctx, 0, memoryLines{g.board, g.device, 0, -1}, nil) })
	g.parts.Go(func() { <-served; e.Close() })
	return e
}

func TestMovesUnderTheLibrary(t *testing.T) { underLibrary(t, "TestInnerMovesUnderTheLibrary") }

// TestInnerMovesUnderTheLibrary has a program count in memory of which a part is
// on the device at any time, while it is suspended and resumed at random, in the
// midst of kernels, and its target changes. Every word must have been counted as often
// as every other.
func TestInnerMovesUnderTheLibrary(t *testing.T) {
	g := govern(t)
	own := g.primary()
	module, err := g.driver.LoadModule(kernels.PTX())
	g.must(err)
	count, err := module.Function("xm_increment")
	g.must(err)
	const bytes, blocks = 48 * memory.MiB, 4
	var data [blocks]abi.DevicePtr
	var args [blocks]*cuda.LaunchArgs
	for i := range data {
		data[i], err = g.driver.MemAlloc(uint64(bytes))
		g.must(err)
		g.must(g.driver.MemsetD32(data[i], 7, uint64(bytes/4)))
		args[i], err = cuda.NewLaunchArgs(data[i], uint32(bytes/4))
		g.must(err)
	}
	g.must(own.Synchronize()) // a memset is not waited for
	if v := g.board.MemoryView(0); !v.State.Movable() || v.Allocated < uint64(blocks*bytes) {
		t.Fatalf("memory is not managed: %+v", v)
	}
	g.serve()

	var done atomic.Bool
	g.parts.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		for !done.Load() && g.ctx.Err() == nil {
			g.order(memory.Bytes(random.IntN(7)) * 40 * memory.MiB)
			g.hold(board.HoldAll)
			time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
			g.hold(board.HoldNone)
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
	})
	stream, err := g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING))
	g.must(err)
	passes := 0
	for began := time.Now(); time.Since(began) < 3*time.Second; passes++ {
		for i := range args {
			g.must(g.driver.Launch(count, [3]uint32{64, 1, 1}, [3]uint32{128, 1, 1}, 0, stream, args[i]))
		}
		g.must(stream.Synchronize())
	}
	host := make([]byte, bytes)
	for i := range data {
		g.must(g.driver.MemcpyDtoH(host, data[i]))
		from, last := 0, binary.LittleEndian.Uint32(host)
		for k := 0; k <= len(host); k += 4 {
			if k < len(host) && binary.LittleEndian.Uint32(host[k:]) == last {
				continue
			}
			if last != uint32(7+passes) {
				t.Errorf("block %d, %#x to %#x: %d after %d passes from 7", i, from, k, last, passes)
			}
			if k < len(host) {
				from, last = k, binary.LittleEndian.Uint32(host[k:])
			}
		}
	}
	done.Store(true)
	v := g.board.MemoryView(0)
	t.Logf("%d passes, %d holds, %+v", passes, g.board.HoldView(0).Holds, v)
	if v.In < uint64(64*memory.MiB) || v.Out < uint64(64*memory.MiB) {
		t.Errorf("hardly anything moved: %+v", v)
	}
}

func TestCleanMemoryUnderTheLibrary(t *testing.T) { underLibrary(t, "TestInnerCleanUnderTheLibrary") }

// TestInnerCleanUnderTheLibrary has a segment go and come: what the program did not write to
// is not copied the second time, and where it altered one bit it is, and has that bit
// afterwards.
func TestInnerCleanUnderTheLibrary(t *testing.T) {
	g := govern(t)
	own := g.primary()
	const bytes = 32 * memory.MiB
	data, err := g.driver.MemAlloc(uint64(bytes))
	g.must(err)
	g.must(g.driver.MemsetD32(data, 7, uint64(bytes/4)))
	g.must(own.Synchronize())
	g.serve()
	round := func() board.MemoryView {
		g.hold(board.HoldAll)
		g.order(0)
		g.await("it to go", func(v board.MemoryView) bool { return v.Resident == 0 })
		g.order(memory.GiB)
		v := g.await("it to come", func(v board.MemoryView) bool {
			return v.Resident == uint64(bytes) && v.Loading == 0 && v.Kept == uint64(bytes)
		})
		g.hold(board.HoldNone)
		return v
	}
	flip := func(byteAt uint64, bit byte) {
		var b [1]byte
		g.must(g.driver.MemcpyDtoH(b[:], data+abi.DevicePtr(byteAt)))
		b[0] ^= bit
		g.must(g.driver.MemcpyHtoD(data+abi.DevicePtr(byteAt), b[:]))
	}
	if v := round(); v.Out != uint64(bytes) || v.Clean.Spared != 0 {
		t.Fatalf("the first time: %+v", v)
	}
	if v := round(); v.Out != uint64(bytes) || v.Clean.Spared != uint64(bytes) || v.Clean.Wrong != 0 {
		t.Errorf("unchanged: %+v", v)
	}
	flip(uint64(bytes)-1, 0x80)
	if v := round(); v.Out != 2*uint64(bytes) || v.Clean.Spared != uint64(bytes) || v.Clean.Wrong != uint64(bytes) {
		t.Errorf("one bit altered: %+v", v)
	}
	flip(uint64(bytes)-1, 0x80)
	round() // it is not looked at this time, as it had changed the last
	host := make([]byte, bytes)
	g.must(g.driver.MemcpyDtoH(host, data))
	for k := 0; k < len(host); k += 4 {
		if n := binary.LittleEndian.Uint32(host[k:]); n != 7 {
			t.Fatalf("word at %#x is %d", k, n)
		}
	}
}

func TestASlowLinkUnderTheLibrary(t *testing.T) {
	underLibrary(t, "TestInnerSlowLinkUnderTheLibrary", func(c *device.Config) {
		c.Model.LinkOneWay, c.Model.LinkBoth = 75_000_000, 75_000_000
	})
}

// TestInnerSlowLinkUnderTheLibrary resumes a process while what is under way takes longer
// than the library waits for an engine that does nothing: it is waited for all the same, as a
// copy that finds nothing at its address ends every context of the process (H200). What came
// in has all its bytes, the process runs on, and memory moves as before.
func TestInnerSlowLinkUnderTheLibrary(t *testing.T) {
	g := govern(t)
	own := g.primary()
	const bytes = 160 * memory.MiB // a batch, which takes 1.8 s, and a part of one
	data, err := g.driver.MemAlloc(uint64(bytes))
	g.must(err)
	g.must(g.driver.MemsetD32(data, 7, uint64(bytes/4)))
	g.must(own.Synchronize())
	g.serve()
	g.hold(board.HoldAll)
	g.order(0)
	g.await("it to go", func(v board.MemoryView) bool { return v.Resident == 0 })
	for round := range uint32(2) {
		var v board.MemoryView
		// On a busy machine nothing may have begun to be copied when the process is resumed:
		// then what was only mapped goes back.
		for tries := 0; v.Resident == 0 && tries < 10; tries++ {
			g.hold(board.HoldAll)
			g.order(memory.GiB)
			g.await("a batch to be coming", func(v board.MemoryView) bool { return v.Loading >= uint64(memory.BatchBytes) })
			g.hold(board.HoldNone)
			v = g.board.MemoryView(0)
		}
		if v.Resident < uint64(memory.BatchBytes) || v.Loading != 0 {
			t.Errorf("what was coming did not come: %+v", v)
		}
		for at := abi.DevicePtr(0); at < abi.DevicePtr(bytes); at += abi.DevicePtr(2 * memory.MiB) {
			var word [4]byte
			g.must(g.driver.MemcpyDtoH(word[:], data+at))
			if n := binary.LittleEndian.Uint32(word[:]); n != 7+round {
				t.Fatalf("round %d: word at %#x is %d", round, at, n)
			}
		}
		g.must(g.driver.MemsetD32(data, 8+round, uint64(bytes/4)))
		g.must(own.Synchronize())
		g.hold(board.HoldAll)
		g.order(0)
		g.await("it to go again", func(v board.MemoryView) bool { return v.Resident == 0 })
	}
	g.hold(board.HoldNone)
}
