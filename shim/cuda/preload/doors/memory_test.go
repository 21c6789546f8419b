package doors

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"xmsched/hal/kernels"
	"xmsched/hal/sim/simtest"
)

// keeper builds memory_run with its agent, daemon and engine, and returns their folder.
var keeper = sync.OnceValues(func() (string, error) {
	return filepath.Join(built, "memory"), build("memory")
})

// memory runs one case of memory_run on a simulated device of its own.
func memory(t *testing.T, name string, env ...string) {
	t.Helper()
	managed(t, "memory_run", name, 1, env...)
}

// managed runs one case of a program whose memory is managed, on so many devices.
func managed(t *testing.T, program, name string, devices int, env ...string) {
	t.Helper()
	t.Parallel()
	folder, err := keeper()
	if err != nil {
		t.Fatal(err)
	}
	r := onMemory(t, folder, simtest.Devices(devices))
	r.env = append(r.env, env...)
	r.output(t, filepath.Join(folder, program), name)
}

// onMemory returns how to run memory_run and its like on a simulated device.
func onMemory(t testing.TB, folder string, options ...simtest.Option) run {
	t.Helper()
	device := simtest.Start(t, append(options, simtest.HBM(1<<30), simtest.Scale(0.2))...)
	ptx := filepath.Join(t.TempDir(), "kernels.ptx")
	if err := os.WriteFile(ptx, kernels.PTX(), 0o600); err != nil {
		t.Fatal(err)
	}
	// What looks like a daemon, so that the first allocation waits for its answer.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "board.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return run{driver: "-", env: append(device, "XM_PTX="+ptx, "XMSCHED_LIB="+folder, "XMSCHED_DIR="+dir, "XMSCHED_MEMORY=1")}
}

// bounds are a target and a limit that the program's memory goes beyond.
func bounds() []string {
	return []string{"KEEPER_TARGET=" + strconv.Itoa(64<<20), "KEEPER_LIMIT=" + strconv.Itoa(128<<20)}
}

// Each of these runs a program whose memory moves; what the cases look at stands
// in memory_run.c.
func TestCopiesWaitForMemoryThatIsGone(t *testing.T)     { memory(t, "door") }
func TestMemoryInUseStays(t *testing.T)                  { memory(t, "busy") }
func TestMemoryComesBackWhenDaemonDies(t *testing.T)     { memory(t, "lease") }
func TestMemoryComesBackWhenEngineDies(t *testing.T)     { memory(t, "engine_dies") }
func TestMemoryComesBackWhenSessionEnds(t *testing.T)    { memory(t, "session_ends") }
func TestMemoryOfDrainedProcess(t *testing.T)            { memory(t, "drained") }
func TestMemoryOfBusyDrainedProcess(t *testing.T)        { memory(t, "drained_busy") }
func TestLeavingWithMemoryGone(t *testing.T)             { memory(t, "leaves") }
func TestMemoryEndsWithItsContext(t *testing.T)          { memory(t, "contexts") }
func TestSmallAllocationsShareSegments(t *testing.T)     { memory(t, "small") }
func TestThreadsWhileMemoryMoves(t *testing.T)           { memory(t, "threads") }
func TestMemoryOfForkedChild(t *testing.T)               { memory(t, "forks") }
func TestMemoryUnmanagedIsTheDrivers(t *testing.T)       { memory(t, "plain", "KEEPER_PLAIN=1") }
func TestMemoryAnsweredTooLateIsTheDrivers(t *testing.T) { memory(t, "plain", "KEEPER_LATE=1") }

func TestCase22BeyondTheTargetIsTheHosts(t *testing.T)      { memory(t, "bounded", bounds()...) }
func TestAPartOfTheHostIsAskedFor(t *testing.T)             { memory(t, "part") }
func TestSlotsArePassedOn(t *testing.T)                     { memory(t, "passed") }
func TestAnAllocationHasRoomBesideAMove(t *testing.T)       { memory(t, "taken") }
func TestFreeSlotsThatAreTooSmallAreNoRefusal(t *testing.T) { memory(t, "likely") }
func TestForeignSlotsMakeRoom(t *testing.T)                 { memory(t, "full") }
func TestAnswersThatBringNothingAreNoRefusal(t *testing.T)  { memory(t, "late") }
func TestWhatNeverFitsIsRefusedAtOnce(t *testing.T)         { memory(t, "never") }
func TestCase23WhatTheProgramMapsIsCounted(t *testing.T)    { memory(t, "mapped") }
func TestCase25FreeAndTotalAgree(t *testing.T)              { memory(t, "answers") }
func TestCase28SharingIsRefused(t *testing.T)               { memory(t, "shared") }
func TestPinnedMemoryIsTheDrivers(t *testing.T)             { memory(t, "pinned", "XMSCHED_PIN_MEMORY=1") }
func TestCase30GoneMemoryIsTheDevices(t *testing.T)         { memory(t, "told") }

// TestCase25ManagementLibraryAgrees: NVML is found by dlsym, under exact names.
func TestCase25ManagementLibraryAgrees(t *testing.T) {
	if err := build("hosts"); err != nil {
		t.Fatal(err)
	}
	memory(t, "management", "XM_NVML="+host("libnvml.so"))
}

// TestMemoryHistories: random histories of allocations, writes, kernels and moves, to the byte.
func TestMemoryHistories(t *testing.T) {
	for seed := range 2 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) { memory(t, "history", "XM_SEED="+strconv.Itoa(seed+1)) })
	}
}

// TestMemorySanitized runs what moves most with library and host built with sanitizers.
func TestMemorySanitized(t *testing.T) {
	if testing.Short() {
		t.Skip("short: builds everything once more")
	}
	runtime, err := exec.Command("gcc", "-print-file-name=libasan.so").Output()
	if err != nil || !filepath.IsAbs(strings.TrimSpace(string(runtime))) {
		t.Skip("gcc has no AddressSanitizer here")
	}
	if err := build("asan"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(built, "asan")
	for _, c := range []struct {
		program string
		names   []string
	}{
		{"memory_run", []string{"history", "threads", "engine_dies", "bounded", "contexts", "leaves"}},
		{"pool_run", []string{"order", "limited", "pools_end", "contexts_end", "default_streams", "pool_threads"}},
	} {
		for _, name := range c.names {
			r := onMemory(t, filepath.Join(dir, "memory"))
			r.bare = true
			r.env = append(r.env, "LD_PRELOAD="+strings.TrimSpace(string(runtime))+":"+filepath.Join(dir, "libxmsched.so"), "ASAN_OPTIONS=detect_leaks=0")
			if name == "bounded" || name == "limited" {
				r.env = append(r.env, bounds()...)
			}
			r.sanitized(t, filepath.Join(dir, "memory", c.program), name)
		}
	}
}
