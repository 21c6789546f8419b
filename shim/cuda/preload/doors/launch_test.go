package doors

import (
	"fmt"
	"testing"
)

func TestCase04ClustersCooperativeAndGraphLaunchesHaveHooks(t *testing.T) {
	hooks := hooked(t)
	for _, name := range []string{
		"cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch", "cuGraphUpload", "cuLaunchHostFunc",
		"cuStreamAddCallback", "cuStreamBatchMemOp_v2", "cuStreamWaitValue32_v2", "cuStreamWriteValue64_v2", "cuMemAllocAsync",
		"cuMemFreeAsync", "cuMemAllocFromPoolAsync", "cuMemPrefetchAsync_v2", "cuMemcpyBatchAsync_v2", "cuMemcpy3DBatchAsync_v2",
		"cuMemcpyPeerAsync", "cuMemcpy3DPeerAsync", "cuMemcpy3DAsync_v2",
	} {
		for _, n := range []string{name, name + "_ptsz"} {
			if !hooks[n] {
				t.Errorf("%s has no hook", n)
			}
		}
	}
}

// TestWorkPassesUnchanged: results and bytes are the driver's own, linked and
// opened.
func TestWorkPassesUnchanged(t *testing.T) {
	for _, bare := range []bool{true, false} {
		out, _ := run{bare: bare}.output(t, host("linked_run"), "init", "work", "launch", "100", "work")
		if want := "init\nwork\nresult 0\nentered 100\nwork\n"; out != want {
			t.Errorf("bare %v: %q, want %q", bare, out, want)
		}
	}
	out, _ := run{}.output(t, host("linked_run"), "address", "cuInit")
	if out != "cuInit libxmsched.so\n" {
		t.Errorf("a linked program's reference: %q", out)
	}
}

// TestCase10NoOtherThreadLaunches: every launch enters the driver on the thread
// that made it.
func TestCase10NoOtherThreadLaunches(t *testing.T) {
	out, _ := run{}.output(t, host("linked_run"), "init", "threads", "8", "20000")
	if out != "init\nthreads 8\n" {
		t.Error(out)
	}
}

// TestCase16InvalidLaunchReturnsItsCode: the program sees the driver's code, for
// each launch, and goes on.
func TestCase16InvalidLaunchReturnsItsCode(t *testing.T) {
	for _, code := range []int{1, 400, 701, 719} {
		env := []string{fmt.Sprintf("FAKE_LAUNCH_ERROR=%d", code)}
		out, _ := run{env: env}.output(t, host("linked_run"), "init", "launch", "5000")
		if want := fmt.Sprintf("init\nresult %d\nentered 0\n", code); out != want {
			t.Errorf("%q, want %q", out, want)
		}
	}
}

// TestCase20SignalsDuringWaits: a timer of the program fires while it launches
// and waits; nothing ends, nothing is lost.
func TestCase20SignalsDuringWaits(t *testing.T) {
	out, stderr := run{env: []string{"FAKE_SLOW_US=2000"}}.output(t, host("linked_run"), "init", "timer", "100", "work")
	if out != "init\ntimer ticked\nwork\n" {
		t.Errorf("stdout %q, stderr %q", out, stderr)
	}
}
