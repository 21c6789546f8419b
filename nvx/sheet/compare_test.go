package sheet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSheetsThatDifferByMeasuringAloneAreEqual(t *testing.T) {
	after := sample()
	after.Tool = "v2"
	after.Probe.At = after.Probe.At.Add(time.Hour)
	after.Probe.Notes = []string{"x"}
	after.Measured.TookMS *= 2
	after.Measured.Levels[2].Request.Stop = &Times{540 * 1.2, 1080 * 1.9, 50}
	after.Measured.Switch.Cost.MedianUS -= 19
	after.Measured.Copy.ToDeviceGBs *= 0.95
	after.Measured.Isolation[0].FreeBytes = 7
	if d := Compare(sample(), after); len(d) != 0 {
		t.Errorf("differences: %v", d)
	}
}

func TestDifferencesAreNamed(t *testing.T) {
	after := sample()
	after.Driver.Version = "590.1.1"
	after.Probe.Level3, after.Probe.Why = false, "refused"
	after.Measured.Levels[2].Request.Stop.MedianUS = 810
	after.Measured.Levels[0].Idle = nil
	after.Measured.TimeSlice.Tried = append([]Slice{{AskedUS: 300}}, after.Measured.TimeSlice.Tried...)
	after.Measured.Copy.ToDeviceGBs = 27.75
	after.Measured.Remap = nil
	after.Measured.Isolation[0].WordsSeen = 12
	var have []string
	for _, d := range Compare(sample(), after) {
		have = append(have, d.String())
	}
	want := []string{
		"driver.version: 580.159.04 -> 590.1.1",
		"probe.level3: true -> false",
		"probe.why:  -> refused",
		"measured.levels.1.idle: there -> absent",
		"measured.levels.3.request.stop.median_us: 540 -> 810 (+50 %)",
		"measured.time_slice.tried.300: absent -> there",
		"measured.copy.to_device_gb_per_s: 55.5 -> 27.75 (-50 %)",
		"measured.remap.2097152: there -> absent",
		"measured.isolation.cuMemAlloc.words_seen: 0 -> 12",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
	// The other way round the same fields differ.
	if back := Compare(after, sample()); len(back) != len(want) {
		t.Errorf("backwards %d differences, forwards %d: %v", len(back), len(want), back)
	}
}

func TestEveryFieldIsComparedOrIgnored(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Sheet)
	}{
		{"device.copy_engines", func(s *Sheet) { s.Device.CopyEngines++ }},
		{"device.compute_preemption", func(s *Sheet) { s.Device.ComputePreemption = false }},
		{"probe.channels", func(s *Sheet) { s.Probe.Channels++ }},
		{"measured", func(s *Sheet) { s.Measured = nil }},
		{"measured.second_context.memory_bytes", func(s *Sheet) { s.Measured.Second.MemoryBytes *= 2 }},
		{"measured.time_slice.lowest_us", func(s *Sheet) { s.Measured.TimeSlice.LowestUS = 100 }},
		{"measured.host_isolation.words_seen", func(s *Sheet) { s.Measured.HostIsolation.WordsSeen = 1 }},
		{"measured.host_isolation", func(s *Sheet) { s.Measured.HostIsolation = nil }},
		{"measured.missing.foreground", func(s *Sheet) { s.Measured.Missing = nil }},
		{"measured.interfaces.level 2.public", func(s *Sheet) { s.Measured.Interfaces[0].Public = false }},
	} {
		after := sample()
		c.change(after)
		d := Compare(sample(), after)
		if len(d) != 1 || d[0].Field != c.name || strings.TrimSpace(d[0].After) == "" {
			t.Errorf("%s: %v", c.name, d)
		}
	}
}
