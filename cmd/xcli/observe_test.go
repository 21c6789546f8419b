package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"xmsched/cmd/internal/cli"
	"xmsched/hal/kernels"
	"xmsched/hal/sim/simtest"
	"xmsched/nvx/bpf"
)

func TestObserveRefuses(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"":                        {cli.ExitUsage, "no process: give its number, or --all"},
		"1 --all":                 {cli.ExitUsage, "1 and --all: give one of them"},
		"x":                       {cli.ExitUsage, `"x" is not the number of a process`},
		"-- -3":                   {cli.ExitUsage, `"-3" is not the number of a process`},
		"1 2":                     {cli.ExitUsage, "accepts at most 1 arg"},
		"1 --seconds 0":           {cli.ExitUsage, "--seconds 0: allowed are 0.1 to 86400"},
		"1 --seconds NaN":         {cli.ExitUsage, "--seconds NaN: allowed"},
		"1 --seconds soon":        {cli.ExitUsage, `--seconds "soon" is not a number; allowed: 0.1 to 86400`},
		"1 --limit 101":           {cli.ExitUsage, "--limit 101: allowed are 0 to 100 percent"},
		"1073741824":              {cli.ExitFailure, "there is no process 1073741824"},
		strconv.Itoa(os.Getpid()): {cli.ExitFailure, "uses no CUDA driver"},
	} {
		var out, errs bytes.Buffer
		code := cli.Run(command(), append([]string{"observe"}, strings.Fields(args)...), &out, &errs)
		if code != want.code || !strings.Contains(errs.String(), want.text) || out.Len() > 0 {
			t.Errorf("observe %s: exit %d, %q, %q; want %d, %q", args, code, out.String(), errs.String(), want.code, want.text)
		}
	}
}

// TestObserve looks at a program that was started without us, while it works.
func TestObserve(t *testing.T) {
	program, ptx := filepath.Join(t.TempDir(), "worker"), filepath.Join(t.TempDir(), "kernels.ptx")
	source := filepath.Join(simtest.Root(t), "nvx", "bpf", "testdata", "worker.c")
	if out, err := exec.Command("gcc", "-O2", source, "-o", program, "-ldl", "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("build worker: %v\n%s", err, out)
	}
	if err := os.WriteFile(ptx, kernels.PTX(), 0o644); err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(program, ptx)
	worker.Env = append(os.Environ(), simtest.Start(t)...)
	orders, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			_ = orders.Close()
			_ = worker.Wait()
		}
	}
	t.Cleanup(end)
	answers := bufio.NewReader(said)
	do := func(order string) {
		if _, err := fmt.Fprint(orders, order); err != nil {
			t.Fatal(err)
		}
		if line, err := answers.ReadString('\n'); line != "ok\n" {
			t.Fatalf("worker says %q: %v", line, err)
		}
	}
	do("")
	o, err := bpf.Open(bpf.Options{PID: worker.Process.Pid})
	var denied *bpf.PermissionError
	if errors.As(err, &denied) {
		t.Skipf("this kernel does not let us observe: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}

	// It is observed until it ends: long before the time that is given.
	var out bytes.Buffer
	progress, errs := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(command(), []string{"observe", strconv.Itoa(worker.Process.Pid), "--seconds", "600", "--json"}, &out, errs)
		_ = errs.Close()
	}()
	lines := bufio.NewReader(progress)
	if line, err := lines.ReadString('\n'); !strings.Contains(line, "observing for 600 s") {
		t.Fatalf("%q, %v", line, err)
	}
	for _, order := range []string{"launch 100\n", "copy 3 1000\n", "alloc 4096\n", "sync\n"} {
		do(order)
	}
	end()
	if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if c := <-code; c != cli.ExitOK {
		t.Errorf("exit %d", c)
	}
	var got struct {
		PID         int
		Launches    uint64
		Copies      uint64
		CopiedBytes uint64 `json:"copied_bytes"`
		Waits       uint64
		Ended       bool
		Memory      struct {
			Allocations uint64
			High        uint64 `json:"high_water_bytes"`
		}
		Command []string
		Xrun    []string
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if got.PID != worker.Process.Pid || got.Launches != 100 || got.Copies != 3 || got.CopiedBytes != 3000 || got.Waits != 4 || !got.Ended ||
		got.Memory.Allocations != 1 || got.Memory.High != 4096 {
		t.Errorf("%s", out.String())
	}
	if len(got.Command) != 2 || got.Command[0] != program || len(got.Xrun) < 4 || got.Xrun[0] != "xrun" {
		t.Errorf("line %q of %q", got.Xrun, got.Command)
	}
}
