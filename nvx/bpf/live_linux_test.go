package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"xmsched/hal/kernels"
	"xmsched/hal/sim/simtest"
)

// worker is testdata/worker.c, running on the simulated device.
type worker struct {
	t      *testing.T
	cmd    *exec.Cmd
	orders io.WriteCloser
	said   *bufio.Reader
}

// shared is what tests build once.
var shared struct {
	dir             string
	worker, library sync.Once
	preload         string // folder of the preload library
}

// built are the worker and its kernels.
func built(t *testing.T) (program, ptx string) {
	t.Helper()
	program, ptx = filepath.Join(shared.dir, "worker"), filepath.Join(shared.dir, "kernels.ptx")
	shared.worker.Do(func() {
		if out, err := exec.Command("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "testdata/worker.c", "-o", program, "-ldl", "-lpthread").CombinedOutput(); err != nil {
			t.Fatalf("build worker: %v\n%s", err, out)
		}
		if err := os.WriteFile(ptx, kernels.PTX(), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	return program, ptx
}

// startWorker starts it, in new namespaces by the flags of clone; its
// driver is in use when this returns.
func startWorker(t *testing.T, flags uintptr, environment ...string) *worker {
	t.Helper()
	program, ptx := built(t)
	w := &worker{t: t, cmd: exec.Command(program, ptx)}
	w.cmd.Env = append(append(os.Environ(), simtest.Start(t)...), environment...)
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	w.cmd.Stderr = os.Stderr
	var err error
	if w.orders, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.said = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	w.answer()
	return w
}

func (w *worker) answer() string {
	w.t.Helper()
	line, err := w.said.ReadString('\n')
	if err != nil || !strings.HasSuffix(line, "ok\n") {
		w.t.Fatalf("worker says %q: %v", line, err)
	}
	return strings.TrimSpace(strings.TrimSuffix(line, "ok\n"))
}

// do has orders carried out, one after the other.
func (w *worker) do(orders ...string) (said string) {
	w.t.Helper()
	for _, o := range orders {
		if _, err := fmt.Fprintln(w.orders, o); err != nil {
			w.t.Fatalf("order %q: %v", o, err)
		}
		said = w.answer()
	}
	return said
}

func (w *worker) end() {
	_ = w.orders.Close() // that ends it
	_ = w.cmd.Wait()
}

// open observes, or skips the test with the kernel's reason.
func open(t *testing.T, o Options) *Observer {
	t.Helper()
	ob, err := Open(o)
	var denied *PermissionError
	if errors.As(err, &denied) {
		t.Skipf("this kernel does not let us observe: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ob.Close(); err != nil {
			t.Error(err)
		}
	})
	return ob
}

func snapshot(t *testing.T, o *Observer) *Snapshot {
	t.Helper()
	s, err := o.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCountsAreExact(t *testing.T) {
	want := map[string]Call{
		"cuLaunchKernel":       {Kind: KindLaunch, Count: 130},
		"cuLaunchKernel_ptsz":  {Kind: KindLaunch, Count: 20},
		"cuLaunchKernelEx":     {Kind: KindLaunch, Count: 40},
		"cuMemcpyHtoD_v2":      {Kind: KindCopy, Count: 5, Bytes: 5000},
		"cuMemcpyHtoDAsync_v2": {Kind: KindCopy, Count: 7, Bytes: 700},
		"cuMemcpy2D_v2":        {Kind: KindCopy, Count: 3, Bytes: 3 * 512},
		"cuMemsetD32_v2":       {Kind: KindFill, Count: 2, Bytes: 2 * 64},
		"cuMemAlloc_v2":        {Kind: kindAlloc, Count: 1},
		"cuMemFree_v2":         {Kind: kindFree, Count: 1},
		"cuEventRecord":        {Kind: kindRecord, Count: 1},
		"cuEventSynchronize":   {Kind: kindWait, Count: 1},
		"cuStreamSynchronize":  {Kind: kindWait, Count: 1},
		"cuCtxSynchronize":     {Kind: kindWait, Count: 1},
	}
	w := startWorker(t, 0)
	for name, options := range map[string]Options{
		"all hooks": {PID: w.cmd.Process.Pid},
		// Such a kernel takes long to take hooks away, so only those that are hit.
		"as without uprobe.multi": {PID: w.cmd.Process.Pid, oneByOne: true, only: func(name string) bool { return want[name].Count > 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			parent := w.t
			w.t = t
			defer func() { w.t = parent }()
			o := open(t, options)
			w.do("launch 100", "thread 20", "got 30", "extended 40", "copy 5 1000", "acopy 7 100", "box 3", "fill 2 16",
				"alloc 4194304", "free", "event", "esync", "ssync", "sync")
			f := figuresIn(t, o, w)
			got := map[string]Call{}
			for _, c := range f.Calls {
				got[c.Function] = c
			}
			for name, c := range want {
				c.Function = name
				if got[name] != c {
					t.Errorf("%s: %+v, want %+v", name, got[name], c)
				}
			}
			if len(got) != len(want) || f.Commands != 207 {
				t.Errorf("%d commands, want 207; functions seen: %v", f.Commands, f.Calls)
			}
		})
	}
}

// figuresIn are the worker's own.
func figuresIn(t *testing.T, o *Observer, w *worker) Figures {
	t.Helper()
	for _, f := range snapshot(t, o).Processes {
		if f.PID == w.cmd.Process.Pid {
			return f
		}
	}
	t.Fatalf("process %d is not seen", w.cmd.Process.Pid)
	return Figures{}
}

func TestMemoryIsExact(t *testing.T) {
	const mib = 1 << 20
	w := startWorker(t, 0)
	o := open(t, Options{PID: w.cmd.Process.Pid})
	w.do("alloc 4194304", "alloc 1048576", "free", "create 2097152", "release", "refused")
	pitch, err := strconv.ParseUint(w.do("pitch 1000 16"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w.do("early")
	want := Memory{
		Now: int64(4*mib + 16*pitch), High: 4*mib + 2*mib, Allocations: 4, Frees: 2, UnknownFrees: 1, Refused: 1, LargestRefused: 1 << 50,
	}
	if got := figuresIn(t, o, w).Memory; got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// TestBusyAndIdle: what a program does between its calls is idle, what it waits
// for is busy. Times are judged as shares of each other, widely.
func TestBusyAndIdle(t *testing.T) {
	w := startWorker(t, 0)
	o := open(t, Options{PID: w.cmd.Process.Pid})
	w.do("launch 3", "sync")
	for range 4 { // in the stream that it then waits for, by each of the three ways
		w.do("sleep 50", "spin 10000", "sync", "sleep 50", "spin 10000", "ssync", "sleep 50", "spin 10000", "event", "esync")
	}
	f := figuresIn(t, o, w)
	if n := f.Work.Blocks.Count(); n != 13 || f.Work.Busying {
		t.Errorf("%d blocks, busy %v; want 13, over", n, f.Work.Busying)
	}
	if n, _ := f.Work.Gaps.Long(); n < 12 {
		t.Errorf("%d long gaps, want at least 12", n)
	}
	if f.Work.Singles != 12 || f.Work.Waits != 13 {
		t.Errorf("%d blocks of one command, %d waits; want 12, 13", f.Work.Singles, f.Work.Waits)
	}
	if f.Work.Idle < 12*50*time.Millisecond || f.Work.Waited > f.Work.Busy || f.Work.Busy+f.Work.Idle > f.Seen {
		t.Errorf("idle %v, busy %v, waited %v in %v", f.Work.Idle, f.Work.Busy, f.Work.Waited, f.Seen)
	}

	w.do("launch 5", "event", "launch 1", "esync") // the event is not behind the last command
	if f := figuresIn(t, o, w); !f.Work.Busying || f.Work.Blocks.Count() != 14 {
		t.Errorf("%d blocks, busy %v; want a 14th that lasts", f.Work.Blocks.Count(), f.Work.Busying)
	}
	w.do("thread 2", "ssync") // another stream
	if f := figuresIn(t, o, w); !f.Work.Busying {
		t.Error("a stream that was not waited for is done")
	}
	w.do("sync")
	if f := figuresIn(t, o, w); f.Work.Busying {
		t.Error("the context was waited for, and something is outstanding")
	}
}

// TestThreads: many threads change the numbers of one process at the same time; none
// is lost, and nothing stays outstanding.
func TestThreads(t *testing.T) {
	const threads, times = 8, 200
	w := startWorker(t, 0)
	o := open(t, Options{PID: w.cmd.Process.Pid})
	w.do(fmt.Sprintf("crowd %d %d", threads, times), "launch 1", "sync")
	f := figuresIn(t, o, w)
	if f.Commands != threads*times+1 || f.Work.Busying {
		t.Errorf("%d commands, busy %v; want %d, idle", f.Commands, f.Work.Busying, threads*times+1)
	}
	if m := f.Memory; m.Now != 0 || m.Allocations != threads*times || m.Frees != threads*times || m.High < 4096 || m.High > threads*4096 {
		t.Errorf("%+v", m)
	}
	if f.Work.Busy+f.Work.Idle > f.Seen || f.Work.Waited > f.Work.Busy || f.Work.Blocks.Count() == 0 {
		t.Errorf("busy %v, idle %v, waited %v of %v", f.Work.Busy, f.Work.Idle, f.Work.Waited, f.Seen)
	}
}

// TestLimit: a program of which nothing but launches is seen is looked at less,
// and memory always.
func TestLimit(t *testing.T) {
	w := startWorker(t, 0)
	o := open(t, Options{PID: w.cmd.Process.Pid, LimitPercent: 0.001})
	w.do("launch 1000", "sync")
	deadline := time.Now().Add(time.Minute)
	for o.windows.open() {
		if err := o.Look(); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the window stays open")
		}
	}
	before := figuresIn(t, o, w)
	w.do("launch 50", "alloc 4096", "sync")
	after := figuresIn(t, o, w)
	if after.Commands != before.Commands || after.Commands != 1000 {
		t.Errorf("%d commands, then %d: want 1000 and no more", before.Commands, after.Commands)
	}
	if after.Memory.Allocations != 1 || after.Work.Waits != before.Work.Waits+1 {
		t.Errorf("%d allocations, %d waits more; want 1 and 1", after.Memory.Allocations, after.Work.Waits-before.Work.Waits)
	}
	if after.Looked >= after.Seen {
		t.Errorf("looked for %v of %v", after.Looked, after.Seen)
	}
	if err := o.resume(); err != nil {
		t.Fatal(err)
	}
	w.do("launch 7", "sync")
	if f := figuresIn(t, o, w); f.Commands != 1007 || f.Work.Busying {
		t.Errorf("%d commands, busy %v; want 1007, idle", f.Commands, f.Work.Busying)
	}
}

// TestAll: who is there, who comes, who has gone; also from other namespaces.
func TestAll(t *testing.T) {
	there := startWorker(t, 0)
	inside := startWorker(t, syscall.CLONE_NEWPID|syscall.CLONE_NEWNS)
	silent := startWorker(t, 0)
	o := open(t, Options{})
	comes := startWorker(t, 0)
	if err := o.Look(); err != nil {
		t.Fatal(err)
	}
	there.do("launch 1")
	inside.do("launch 2")
	comes.do("launch 3", "alloc 4096")
	snapshot(t, o) // it has asked who that is
	comes.end()
	if err := o.Look(); err != nil {
		t.Fatal(err)
	}
	for w, want := range map[*worker]uint64{there: 1, inside: 2, comes: 3, silent: 0} {
		f := figuresIn(t, o, w)
		if f.Commands != want || len(f.Command) != 2 || f.Left != (w == comes) || f.Name != "worker" {
			t.Errorf("%+v, want %d commands", f, want)
		}
	}
}

// TestUnderXmsched: at the preload library's own sites the same is seen as at the
// driver's functions.
func TestUnderXmsched(t *testing.T) {
	w := startWorker(t, 0, preload(t)...)
	o := open(t, Options{PID: w.cmd.Process.Pid})
	w.do("launch 100", "thread 20", "got 30", "extended 40", "copy 5 1000", "acopy 7 100", "box 3", "fill 2 16",
		"alloc 4194304", "alloc 1048576", "free", "create 2097152", "release", "sync")
	f := figuresIn(t, o, w)
	if !f.Ours {
		t.Fatalf("seen at the driver: %+v", f)
	}
	sums := map[Kind]Call{}
	for _, c := range f.Calls {
		sum := sums[c.Kind]
		sums[c.Kind] = Call{Count: sum.Count + c.Count, Bytes: sum.Bytes + c.Bytes}
	}
	if sums[KindLaunch].Count != 190 || sums[KindCopy] != (Call{Count: 15, Bytes: 5000 + 700 + 3*512}) || sums[KindFill] != (Call{Count: 2, Bytes: 128}) || f.Commands != 207 {
		t.Errorf("%d commands: %+v", f.Commands, f.Calls)
	}
	if want := (Memory{Now: 4 << 20, High: 6 << 20, Allocations: 3, Frees: 2}); f.Memory != want {
		t.Errorf("%+v, want %+v", f.Memory, want)
	}
	if f.Work.Busying {
		t.Error("the context was waited for, and something is outstanding")
	}
}

// preload is the environment of a program under the preload library, that of the
// build where it is up to date; without a daemon.
func preload(t *testing.T) []string {
	t.Helper()
	shared.library.Do(func() {
		lib := filepath.Join(simtest.Root(t), "lib")
		room := filepath.Join(simtest.Root(t), "shim", "cuda", "preload")
		shared.preload = lib
		if exec.Command("make", "-q", "-C", room, "OUT="+lib, "all").Run() != nil {
			shared.preload = shared.dir
			if out, err := exec.Command("make", "-s", "-j2", "-C", room, "OUT="+shared.dir, "all").CombinedOutput(); err != nil {
				t.Fatalf("build the preload library: %v\n%s", err, out)
			}
		}
	})
	return []string{"LD_PRELOAD=" + filepath.Join(shared.preload, "libxmsched.so"), "XMSCHED_DIR=" + t.TempDir()}
}

// TestUnderAFilter: what the kernel does for its hooks must not end a program
// whose filter allows no such calls.
func TestUnderAFilter(t *testing.T) {
	for name, environment := range map[string][]string{"at the driver": nil, "at our sites": preload(t)} {
		t.Run(name, func(t *testing.T) {
			w := startWorker(t, 0, environment...)
			w.do("filter")
			o := open(t, Options{PID: w.cmd.Process.Pid})
			w.do("launch 100", "alloc 4096", "sync", "free")
			f := figuresIn(t, o, w)
			if f.Commands != 100 || !o.kernel.noReturns && f.Memory.Allocations != 1 {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestWithoutReturns: a kernel that lacks one hook still has the rest.
func TestWithoutReturns(t *testing.T) {
	w := startWorker(t, 0)
	o := open(t, Options{PID: w.cmd.Process.Pid, without: "this is a test"})
	w.do("launch 10", "alloc 4096", "sync")
	f := figuresIn(t, o, w)
	if f.Commands != 10 || f.Memory.Allocations != 0 || f.Work.Waits != 0 || f.Work.Waited != 0 {
		t.Errorf("%+v", f)
	}
	if s := snapshot(t, o); !slices.Contains(s.Missing, Missing{"uretprobe", "this is a test", withoutReturns}) {
		t.Errorf("missing: %+v", s.Missing)
	}
}

func TestWhoCannotBeObserved(t *testing.T) {
	var none *NoDriverError
	if _, err := Open(Options{PID: os.Getpid()}); !errors.As(err, &none) || none.PID != os.Getpid() {
		t.Errorf("a process without the driver: %v", err)
	}
	if _, err := Open(Options{PID: 1 << 30}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no process: %v", err)
	}
	w := startWorker(t, 0)
	if _, err := Open(Options{PID: os.Getpid()}); !errors.As(err, &none) || !slices.Contains(none.Children, w.cmd.Process.Pid) {
		t.Errorf("a process whose child uses the driver: %v", err)
	}
}

// TestCostIsMeasured: a stepped instruction costs more than one that need not be. On a
// machine whose processors others take, one measurement says little.
func TestCostIsMeasured(t *testing.T) {
	var said []string
	for range 20 {
		if said = doubts(open(t, Options{}).cost); len(said) == 0 {
			return
		}
	}
	t.Error(said)
}

// doubts is what is wrong with measured costs.
func doubts(c Cost) (said []string) {
	for o, code := range here.stubs {
		if code != nil && (c.Entry[o] < 50*time.Nanosecond || c.Entry[o] > time.Millisecond) {
			said = append(said, fmt.Sprintf("a hit on a %v costs %v", o, c.Entry[o]))
		}
	}
	if c.Entry[stepped] <= c.Entry[nop5] {
		said = append(said, fmt.Sprintf("stepped %v, probe site %v", c.Entry[stepped], c.Entry[nop5]))
	}
	return said
}
