package measure

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"xmsched/hal/sim/simtest"
	"xmsched/nvx/sheet"
)

// preload gives the preload library.
func preload(t *testing.T) string {
	t.Helper()
	return filepath.Join(simtest.Built(t, "lib/libxmsched.so"), "lib", "libxmsched.so")
}

// simulated is a configuration for a simulated device of the test's own.
func simulated(t *testing.T, library string, env ...string) Config {
	t.Helper()
	return Config{
		Program: os.Args[0], Args: []string{workerArg}, Preload: library, Tool: "test",
		Env: append(append(os.Environ(), simtest.Start(t)...), env...),
	}
}

func only(t *testing.T, cfg Config) *sheet.Sheet {
	t.Helper()
	all, err := Devices(context.Background(), cfg)
	if err != nil || len(all) != 1 {
		t.Fatalf("devices: %v, %v", all, err)
	}
	return all[0]
}

func TestProbeOnTheSimulatedDevice(t *testing.T) {
	library := preload(t)
	for _, c := range []struct {
		name, env, preload string
		says               string // why not; empty: it works
	}{
		{name: "works", preload: library},
		{name: "without the library", says: "the preload library is not in this process"},
		{name: "refused", env: "XMSCHED_SIM_RM=refuse", preload: library, says: "NV_ERR_"},
		{name: "unknown layout", env: "XMSCHED_SIM_RM=unknown", preload: library, says: "channels"},
		{name: "MPS", env: "XMSCHED_SIM_RM=mps", preload: library, says: "channels"},
		{name: "no objects", env: "XMSCHED_SIM_RM=none", preload: library, says: "channels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := simulated(t, c.preload, c.env)
			device := only(t, cfg)
			s, err := Probe(context.Background(), cfg, device.Device.UUID)
			if err != nil {
				t.Fatal(err)
			}
			offered, why := s.Level3()
			if offered != (c.says == "") || !strings.Contains(why, c.says) {
				t.Errorf("offered %v, why %q, want %q", offered, why, c.says)
			}
			if !s.Simulated || s.Driver.Version != sheet.SimulatedDriver || s.Measured != nil {
				t.Errorf("%+v", s)
			}
			if offered && (s.Probe.ComputeGroups != 1 || s.Probe.Groups != 4 || s.Probe.Channels != 20) {
				t.Errorf("known objects: %+v", s.Probe)
			}
		})
	}
}

func TestUnknownDevice(t *testing.T) {
	cfg := simulated(t, preload(t))
	if s, err := Probe(context.Background(), cfg, fakeUUID); err == nil || !strings.Contains(err.Error(), fakeUUID) {
		t.Errorf("%+v, %v", s, err)
	}
	cfg.Env = append(cfg.Env, "LD_LIBRARY_PATH=/nonexistent")
	if all, err := Devices(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "libcuda") {
		t.Errorf("devices without a driver: %v, %v", all, err)
	}
}

// TestMeasureOnTheSimulatedDevice holds that every figure is taken or missing with
// a reason; what they are says nothing about a GPU.
func TestMeasureOnTheSimulatedDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds or more")
	}
	cfg := simulated(t, preload(t))
	steps := 0
	cfg.Progress = func(_ string, done, total int) {
		if done != steps || done >= total {
			t.Errorf("step %d of %d comes at place %d", done, total, steps)
		}
		steps++
	}
	s, err := Measure(context.Background(), cfg, only(t, cfg).Device.UUID)
	if err != nil {
		t.Fatal(err)
	}
	m := s.Measured
	if offered, why := s.Level3(); !offered || m == nil {
		t.Fatalf("level 3 offered %v, why %q; measured %+v", offered, why, m)
	}
	missing := map[string]bool{}
	for _, one := range m.Missing {
		missing[one.Figure] = true
		if one.Why == "" {
			t.Errorf("%s is missing without a reason", one.Figure)
		}
	}
	there := map[string]bool{
		"level 1, GPU idle": m.Levels[0].Idle != nil, "level 1, GPU busy": m.Levels[0].Busy != nil,
		"level 2, GPU idle": m.Levels[1].Idle != nil, "level 2, GPU busy": m.Levels[1].Busy != nil,
		"level 3, GPU idle": m.Levels[2].Idle != nil, "level 3, GPU busy": m.Levels[2].Busy != nil, "level 3, for a request": m.Levels[2].Request != nil,
		"context switch": m.Switch != nil, "time slices": m.TimeSlice != nil, "foreground": m.Foreground != nil,
		"queue depth": m.Queue != nil, "copies": m.Copy != nil, "second context": m.Second != nil,
		"remap of 2 MiB": len(m.Remap) > 0, "remap of 32 MiB": len(m.Remap) > 1,
		"isolation of cuMemAlloc": len(m.Isolation) > 0, "isolation of cuMemCreate": len(m.Isolation) > 1,
		"isolation of cuMemCreate HOST_NUMA": m.HostIsolation != nil,
	}
	for figure, taken := range there {
		if taken == missing[figure] {
			t.Errorf("%s: taken %v, missing %v", figure, taken, missing[figure])
		}
	}
	for _, needed := range []string{"level 1, GPU idle", "level 2, GPU idle", "level 3, GPU idle", "level 3, GPU busy", "level 3, for a request", "context switch", "time slices", "foreground", "copies"} {
		if missing[needed] {
			t.Errorf("%s is missing: %+v", needed, m.Missing)
		}
	}
	if steps != len(there)+1 {
		t.Errorf("%d steps for %d figures and the probe", steps, len(there))
	}
	checkFigures(t, m)
}

// checkFigures looks for what holds on any machine, however slow and busy.
func checkFigures(t *testing.T, m *sheet.Measured) {
	t.Helper()
	for _, l := range m.Levels {
		for _, s := range []*sheet.Stops{l.Idle, l.Busy, l.Request} {
			if s == nil {
				continue
			}
			for name, v := range map[string]*sheet.Times{"stop": s.Stop, "resume": s.Resume} {
				if v == nil || v.Samples != rounds || v.MedianUS < 0 || v.WorstUS < v.MedianUS {
					t.Errorf("level %d %s: %+v", l.Level, name, v)
				}
			}
		}
	}
	if f := m.Foreground; f != nil {
		for name, v := range map[string]*sheet.Times{"alone": f.Alone, "beside": f.Beside, "armed": f.Armed, "stopped": f.Stopped} {
			if v == nil || v.Samples != requests {
				t.Errorf("foreground %s: %+v", name, v)
			}
		}
	}
	if s := m.TimeSlice; s != nil && (s.LowestUS != 1 || len(s.Tried) != len(shared) || s.Tried[0].SharePercent > s.Tried[len(shared)-1].SharePercent) {
		t.Errorf("time slices: %+v", s)
	}
	isolation := m.Isolation
	if m.HostIsolation != nil {
		isolation = append(slices.Clone(isolation), *m.HostIsolation)
	}
	for _, i := range isolation {
		if i.Visible() || i.WrittenBytes == 0 || i.ReadBytes == 0 {
			t.Errorf("isolation: %+v", i)
		}
	}
	if t.Failed() {
		t.Logf("%+v", m)
	}
}
