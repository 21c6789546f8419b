package doors

import (
	"os"
	"path/filepath"
	"strconv"
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
	t.Parallel()
	device := simtest.Start(t, simtest.HBM(1<<30), simtest.Scale(0.2))
	folder, err := keeper()
	if err != nil {
		t.Fatal(err)
	}
	ptx := filepath.Join(t.TempDir(), "kernels.ptx")
	if err := os.WriteFile(ptx, kernels.PTX(), 0o600); err != nil {
		t.Fatal(err)
	}
	// What looks like a daemon, so that the first allocation waits for its answer.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "board.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := run{driver: "-", env: append(append(device, "XM_PTX="+ptx, "XMSCHED_LIB="+folder, "XMSCHED_DIR="+dir, "XMSCHED_MEMORY=1"), env...)}
	r.output(t, filepath.Join(folder, "memory_run"), name)
}

// Each of these runs a program whose memory moves; what the cases look at stands
// in memory_run.c.
func TestCopiesWaitForMemoryThatIsGone(t *testing.T)     { memory(t, "door") }
func TestMemoryInUseStays(t *testing.T)                  { memory(t, "busy") }
func TestMemoryComesBackWhenDaemonDies(t *testing.T)     { memory(t, "lease") }
func TestMemoryComesBackWhenEngineDies(t *testing.T)     { memory(t, "engine_dies") }
func TestMemoryComesBackWhenSessionEnds(t *testing.T)    { memory(t, "session_ends") }
func TestMemoryOfDrainedProcess(t *testing.T)            { memory(t, "drained") }
func TestLeavingWithMemoryGone(t *testing.T)             { memory(t, "leaves") }
func TestMemoryEndsWithItsContext(t *testing.T)          { memory(t, "contexts") }
func TestSmallAllocationsShareSegments(t *testing.T)     { memory(t, "small") }
func TestThreadsWhileMemoryMoves(t *testing.T)           { memory(t, "threads") }
func TestMemoryOfForkedChild(t *testing.T)               { memory(t, "forks") }
func TestMemoryUnmanagedIsTheDrivers(t *testing.T)       { memory(t, "plain", "KEEPER_PLAIN=1") }
func TestMemoryAnsweredTooLateIsTheDrivers(t *testing.T) { memory(t, "plain", "KEEPER_LATE=1") }

// TestCase25MemoryToldAsOne and 28 and 30: what is told of memory is the same wherever it is,
// and what cannot be shared is refused.
func TestCase25MemoryToldAsOne(t *testing.T)           { memory(t, "answers") }
func TestCase28SharingIsRefused(t *testing.T)          { memory(t, "answers") }
func TestCase30GoneMemoryIsTheDevices(t *testing.T)    { memory(t, "answers") }
func TestCase23HostMemoryIsNotTheDevices(t *testing.T) { bounded(t) }
func TestCase22TargetAndLimit(t *testing.T)            { bounded(t) }

func bounded(t *testing.T) {
	memory(t, "bounded", "KEEPER_TARGET="+strconv.Itoa(64<<20), "KEEPER_LIMIT="+strconv.Itoa(128<<20))
}

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
