package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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

// startWorker builds and starts it; its driver is in use when this returns.
func startWorker(t *testing.T, environment ...string) *worker {
	t.Helper()
	dir := t.TempDir()
	program, ptx := filepath.Join(dir, "worker"), filepath.Join(dir, "kernels.ptx")
	if out, err := exec.Command("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "testdata/worker.c", "-o", program, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("build worker: %v\n%s", err, out)
	}
	if err := os.WriteFile(ptx, kernels.PTX(), 0o644); err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, cmd: exec.Command(program, ptx)}
	w.cmd.Env = append(append(os.Environ(), simtest.Start(t)...), environment...)
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
	w := startWorker(t)
	for _, oneByOne := range []bool{false, true} {
		t.Run(fmt.Sprintf("one by one %v", oneByOne), func(t *testing.T) {
			w.t = t
			o := open(t, Options{PID: w.cmd.Process.Pid, oneByOne: oneByOne})
			w.do("launch 100", "thread 20", "got 30", "extended 40", "copy 5 1000", "acopy 7 100", "box 3", "fill 2 16",
				"alloc 4194304", "free", "event", "esync", "ssync", "sync")
			s := snapshot(t, o)
			if len(s.Processes) != 1 {
				t.Fatalf("%d processes seen, want 1", len(s.Processes))
			}
			got := map[string]Call{}
			for _, c := range s.Processes[0].Calls {
				got[c.Function] = c
			}
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
			for name, c := range want {
				c.Function = name
				if got[name] != c {
					t.Errorf("%s: %+v, want %+v", name, got[name], c)
				}
			}
			if len(got) != len(want) {
				t.Errorf("functions seen: %v", s.Processes[0].Calls)
			}
			if n := s.Processes[0].Commands; n != 207 {
				t.Errorf("%d commands, want 207", n)
			}
		})
	}
}
