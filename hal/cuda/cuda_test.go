package cuda

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// runWithDriver runs one test of this binary again, in a process that finds
// libcuda.so.1 in dir first. A process has one driver, so each needs its own.
func runWithDriver(t *testing.T, test, dir string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+regexp.QuoteMeta(test)+"$", "-test.v")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "XMSCHED_TEST_INNER="+test)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", test, err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+test) {
		t.Fatalf("%s did not run:\n%s", test, out)
	}
}

func inner(t *testing.T) {
	t.Helper()
	if os.Getenv("XMSCHED_TEST_INNER") != t.Name() {
		t.Skip("runs as a process of its own, started by another test")
	}
}

func TestWithoutDriver(t *testing.T) {
	if paths, _ := filepath.Glob("/usr/l*/*/libcuda.so.1"); len(paths) > 0 {
		t.Skipf("this machine has a driver: %v", paths)
	}
	runWithDriver(t, "TestInnerAbsent", t.TempDir())
}

func TestInnerAbsent(t *testing.T) {
	inner(t)
	_, err := Open()
	var absent *NotFoundError
	if !errors.As(err, &absent) || absent.Library != Library {
		t.Fatalf("open without a library: %v; want *NotFoundError", err)
	}
	if err := (Stream{}).Synchronize(); !errors.As(err, &absent) {
		t.Errorf("legacy stream without a driver: %v", err)
	}
}

func TestWithFakeDriver(t *testing.T) {
	dir := t.TempDir()
	text, err := exec.Command("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden",
		"-Wl,-soname,"+Library, "-o", filepath.Join(dir, Library), "testdata/fakedriver/fake.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
	runWithDriver(t, "TestInnerFake", dir)
}

func TestInnerFake(t *testing.T) {
	inner(t)
	d, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Open(); again != d || err != nil {
		t.Errorf("a second open gives %p, %v; want the same driver %p", again, err, d)
	}
	t.Run("device", func(t *testing.T) { checkDevice(t, d) })
	t.Run("adopted", func(t *testing.T) { checkAdopted(t, d) })
	t.Run("errors", func(t *testing.T) { checkErrors(t, d) })
	t.Run("launch", func(t *testing.T) { checkLaunch(t, d) })
	t.Run("mappable memory", func(t *testing.T) { checkMapping(t, d) })
	t.Run("contexts", func(t *testing.T) { checkContexts(t, d) })
}

// checkAdopted has a driver of functions that were found elsewhere.
func checkAdopted(t *testing.T, d *Driver) {
	asked := 0
	find := func(symbol string) uintptr {
		asked++
		p, err := d.Proc(symbol)
		if err != nil || symbol == "cuDeviceGetCount" {
			return 0
		}
		return p.Address()
	}
	a, err := Adopt(find)
	if err != nil || asked != int(procCount) {
		t.Fatalf("%v after %d questions, want %d", err, asked, procCount)
	}
	checkLaunch(t, a)
	var lacks *SymbolError
	if _, err := a.DeviceCount(); !errors.As(err, &lacks) || lacks.Symbol != "cuDeviceGetCount" {
		t.Errorf("a function that was not found: %v", err)
	}
	if _, err := a.Proc("cuNothing"); !errors.As(err, &lacks) {
		t.Errorf("a symbol that is not there: %v", err)
	}
	if _, err := Adopt(func(string) uintptr { return 0 }); !errors.As(err, &lacks) || lacks.Symbol != "cuInit" {
		t.Errorf("no functions at all: %v", err)
	}
	if again, err := Open(); again != d || err != nil {
		t.Errorf("the process's driver is %p, %v; want %p", again, err, d)
	}
}

func checkDevice(t *testing.T, d *Driver) {
	if err := d.Init(); err != nil {
		t.Fatal(err)
	}
	if n, err := d.DeviceCount(); n != 2 || err != nil {
		t.Errorf("count %d, %v", n, err)
	}
	dev, err := d.Device(1)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := dev.Name(); name != "Fake GPU 1" || err != nil {
		t.Errorf("name %q, %v", name, err)
	}
	uuid, err := dev.UUID()
	if got := uuid.String(); got != "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f" || err != nil {
		t.Errorf("uuid %s, %v", got, err)
	}
}

func checkErrors(t *testing.T, d *Driver) {
	if _, err := d.Device(7); !errors.Is(err, abi.CUDA_ERROR_INVALID_DEVICE) || !strings.HasPrefix(err.Error(), "cuDeviceGet: ") {
		t.Errorf("device 7: %v", err)
	}
	var missing *SymbolError
	if _, err := d.MemAlloc(1); !errors.As(err, &missing) || missing.Symbol != "cuMemAlloc_v2" {
		t.Errorf("a function that the driver lacks: %v", err)
	}
	if err := d.MemsetD32(0x123456789abc, 0xdeadbeef, 1<<40); err != nil {
		t.Errorf("64-bit arguments arrive changed: %v", err)
	}
	s, err := d.NewStreamWithPriority(1, -5)
	if err != nil || s.Handle != 1006 {
		t.Errorf("a negative priority arrives changed: handle %d, %v", s.Handle, err)
	}
	if done, err := s.Query(); done || err != nil {
		t.Errorf("busy stream: %v, %v; want false, no error", done, err)
	}
	if done, err := (Stream{}).Query(); !done || err != nil {
		t.Errorf("legacy stream: %v, %v; want true", done, err)
	}
}

func checkLaunch(t *testing.T, d *Driver) {
	args, err := NewLaunchArgs(abi.DevicePtr(0x1122334455667788), uint32(99), int32(-3))
	if err != nil {
		t.Fatal(err)
	}
	fn, s := Function{Handle: 0xf00}, Stream{driver: d, Handle: 0x57}
	launch := func() error { return d.Launch(fn, [3]uint32{1, 2, 3}, [3]uint32{4, 5, 6}, 7, s, args) }
	if err := launch(); err != nil {
		t.Fatal(err)
	}
	proc, err := d.Proc("fakeWords")
	if err != nil {
		t.Fatal(err)
	}
	var got [16]uint64
	if r := proc.Call(uintptr(unsafe.Pointer(&got))); r != abi.CUDA_SUCCESS {
		t.Fatal(r)
	}
	want := []uint64{0xf00, 1, 2, 3, 4, 5, 6, 7, 0x57, 0, 0x1122334455667788, 99, 0xfffffffd}
	if !slices.Equal(got[:len(want)], want) {
		t.Errorf("the driver saw %x, want %x", got[:len(want)], want)
	}
	if err := d.Launch(Function{}, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, s, nil); !errors.Is(err, abi.CUDA_ERROR_INVALID_HANDLE) {
		t.Errorf("launch of nothing: %v", err)
	}
	if n := testing.AllocsPerRun(1000, func() { _ = launch() }); n != 0 {
		t.Errorf("a launch allocates %v times", n)
	}
}

// checkMapping: the driver answers success only to the arguments it should see.
func checkMapping(t *testing.T, d *Driver) {
	dev, err := d.Device(1)
	if err != nil {
		t.Fatal(err)
	}
	const n = 32 << 20
	unit, err := d.Granularity(dev)
	if unit != 2<<20 || err != nil {
		t.Errorf("granularity %d, %v", unit, err)
	}
	h, err := d.CreateMem(dev, n)
	if err != nil {
		t.Fatal(err)
	}
	at, err := d.ReserveAddress(n)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"map": d.Map(at, n, h), "access": d.SetAccess(at, n, dev), "unmap": d.Unmap(at, n),
		"free addresses": d.FreeAddress(at, n), "release": d.ReleaseMem(h),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func checkContexts(t *testing.T, d *Driver) {
	dev, err := d.Device(1)
	if err != nil {
		t.Fatal(err)
	}
	primary, err := d.PrimaryContext(dev)
	if err != nil {
		t.Fatal(err)
	}
	own, err := d.NewContext(dev, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(primary.Release(), own.Release()); err != nil {
		t.Error(err)
	}
}

func TestLaunchArgsRefuseOtherTypes(t *testing.T) {
	if _, err := NewLaunchArgs(uint32(1), "two"); err == nil || !strings.Contains(err.Error(), "argument 1: type string") {
		t.Errorf("a string as an argument: %v", err)
	}
}

// Every symbol of the binding is one that the recorded driver exports.
func TestSymbolsAreTheDrivers(t *testing.T) {
	exports, err := os.ReadFile("abi/facts/exports.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range procNames {
		if name == "" || !strings.Contains(string(exports), `{"symbol":"`+name+`"}`) {
			t.Errorf("the recorded driver exports no %q", name)
		}
	}
}
