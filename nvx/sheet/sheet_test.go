package sheet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSavedIsLoaded(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir, sampleUUID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a device without a sheet: %v", err)
	}
	if sheets, err := List(dir); len(sheets) != 0 || err != nil {
		t.Errorf("list of nothing: %v, %v", sheets, err)
	}
	if err := Save(dir, sample()); err != nil {
		t.Fatal(err)
	}
	have, err := Load(dir, sampleUUID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), have); diff != "" {
		t.Errorf("what was saved differs (-saved +loaded):\n%s", diff)
	}
	if sheets, err := List(dir); len(sheets) != 1 || err != nil {
		t.Errorf("list: %v, %v", sheets, err)
	}
	if files, _ := os.ReadDir(filepath.Join(dir, folder)); len(files) != 1 {
		t.Errorf("%d files lie there: %v", len(files), files)
	}
}

// TestProbeKeepsFigures: a sheet with a probe alone does not throw the figures
// of the same driver away, and those of another driver are kept beside.
func TestProbeKeepsFigures(t *testing.T) {
	dir := t.TempDir()
	probed := func(driver string, works bool) *Sheet {
		s := sample()
		s.Driver.Version, s.Measured = driver, nil
		if !works {
			s.Probe.Level3, s.Probe.Why = false, "refused"
		}
		return s
	}
	for _, s := range []*Sheet{sample(), probed("580.159.04", false)} {
		if err := Save(dir, s); err != nil {
			t.Fatal(err)
		}
	}
	have, err := Load(dir, sampleUUID)
	if err != nil || have.Measured == nil || have.Probe.Level3 {
		t.Fatalf("after a probe on the same driver: %+v, %v", have, err)
	}
	if _, err := LoadPrevious(dir, sampleUUID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the same driver made a previous sheet: %v", err)
	}
	for _, driver := range []string{"590.1", "590.2"} {
		if err := Save(dir, probed(driver, true)); err != nil {
			t.Fatal(err)
		}
		have, err = Load(dir, sampleUUID)
		if err != nil || have.Measured != nil || !have.On(driver) {
			t.Errorf("after a probe on %s: %+v, %v", driver, have, err)
		}
		previous, err := LoadPrevious(dir, sampleUUID)
		if err != nil || previous.Measured == nil || !previous.On("580.159.04") {
			t.Errorf("previous sheet on %s: %+v, %v", driver, previous, err)
		}
	}
	if sheets, err := List(dir); len(sheets) != 1 || err != nil {
		t.Errorf("the previous sheet is listed as a device: %v, %v", sheets, err)
	}
}

func TestBadSheetsAreRefusedInOneLine(t *testing.T) {
	good, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(old, new string) string {
		if !strings.Contains(string(good), old) {
			t.Fatalf("the sample has no %s", old)
		}
		return strings.Replace(string(good), old, new, 1)
	}
	for name, c := range map[string]struct{ text, says string }{
		"empty":            {"", "cut short"},
		"blank":            {" \n", "cut short"},
		"cut":              {string(good[:len(good)/2]), "cut short"},
		"no JSON":          {"\x1b[2J\x00", "no spec sheet"},
		"another thing":    {"[]", "no spec sheet"},
		"null":             {"null", "schema 0"},
		"two":              {string(good) + string(good), "behind the sheet"},
		"later schema":     {replaced(`"schema": 1`, `"schema": 2`), "schema 2"},
		"text for number":  {replaced(`"multiprocessors": 132`, `"multiprocessors": "x"`), "no spec sheet"},
		"negative":         {replaced(`"took_ms": 800`, `"took_ms": -1`), "probe.took_ms"},
		"too large":        {replaced(`"took_ms": 800`, `"took_ms": 1e19`), "probe.took_ms"},
		"out of range":     {replaced(`"took_ms": 800`, `"took_ms": 1e999`), "no spec sheet"},
		"control":          {replaced("NVIDIA H200", `NVIDIA\u001b[2J`), "device.name"},
		"line break":       {replaced("NVIDIA H200", `NVIDIA\n`), "device.name"},
		"long":             {replaced("NVIDIA H200", strings.Repeat("x", 501)), "device.name"},
		"no UUID":          {replaced(sampleUUID, "../../etc/passwd"), "no UUID"},
		"no driver":        {replaced("580.159.04", ""), "driver version"},
		"false simulated":  {replaced(`"simulated": false`, `"simulated": true`), "simulated"},
		"real simulated":   {replaced("580.159.04", SimulatedDriver), "simulated"},
		"probe undecided":  {replaced(`"level3": true`, `"level3": false`), "why not"},
		"probe contradict": {replaced(`"level3": true`, `"level3": true, "why": "no"`), "why not"},
		"levels":           {replaced(`"level": 2`, `"level": 7`), "level 7"},
		"many": {replaced(`"interfaces": [`, `"interfaces": [`+strings.Repeat(`{"name":"x","public":true,"call":"y"},`, 64)),
			"measured.interfaces"},
		"huge": {string(good) + strings.Repeat(" ", maxBytes), "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Decode([]byte(c.text))
			if err == nil {
				t.Fatalf("taken: %+v", s)
			}
			if text := err.Error(); !strings.Contains(text, c.says) || strings.ContainsAny(text, "\n\x1b\x00") || len(text) > 300 {
				t.Errorf("says %q, want one line with %q", text, c.says)
			}
		})
	}
}

// TestSheetsOfBeforeHostIsolationAreRead: they lack it, and nothing else.
func TestSheetsOfBeforeHostIsolationAreRead(t *testing.T) {
	now, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	before := regexp.MustCompile(`(?s)\s*"host_isolation": \{.*?\},`).ReplaceAll(now, nil)
	if len(before) == len(now) {
		t.Fatal("the sample has no host_isolation")
	}
	s, err := Decode(before)
	if err != nil || s.Measured == nil || s.Measured.HostIsolation != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	want := []Difference{{Field: "measured.host_isolation", Before: absent, After: "there"}}
	if diff := cmp.Diff(want, Compare(s, sample())); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

func TestLoadRefusesWhatIsNoSheetOfTheDevice(t *testing.T) {
	dir := t.TempDir()
	for _, uuid := range []string{"", "..", "../x", "GPU-1", sampleUUID + "/../x"} {
		if _, err := Load(dir, uuid); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", uuid, err)
		}
	}
	other := strings.Replace(sampleUUID, "01234567", "76543210", 1)
	if err := Save(dir, sample()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(Path(dir, sampleUUID), Path(dir, other)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, other); err == nil || !strings.Contains(err.Error(), "it is of "+sampleUUID) {
		t.Errorf("another device's sheet: %v", err)
	}
	if err := os.Mkdir(Path(dir, sampleUUID), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, sampleUUID); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a directory: %v", err)
	}
	if sheets, err := List(dir); len(sheets) != 0 || err == nil {
		t.Errorf("list with two bad sheets: %v, %v", sheets, err)
	}
	if err := os.Remove(Path(dir, sampleUUID)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(Path(dir, sampleUUID), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Load(dir, sampleUUID)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("a pipe: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("waits for who writes into a pipe")
	}
}

func TestSaveOverABadSheet(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(Path(dir, sampleUUID), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Save(dir, sample()); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, sampleUUID); err != nil {
		t.Error(err)
	}
	bad := sample()
	bad.Device.UUID = "x"
	if err := Save(dir, bad); err == nil {
		t.Error("a sheet that nobody could load was saved")
	}
}

func TestLevel3AndCosts(t *testing.T) {
	var nobody *Sheet
	if offered, why := nobody.Level3(); offered || why != "not probed yet" {
		t.Errorf("no sheet: %v, %q", offered, why)
	}
	if nobody.On("580.159.04") || nobody.Costs() != (Costs{}) {
		t.Error("no sheet says something")
	}
	if offered, why := sample().Level3(); !offered || why != "" {
		t.Errorf("the sample: %v, %q", offered, why)
	}
	want := Costs{Suspend: 540 * time.Microsecond, Resume: 360 * time.Microsecond, Switch: 180 * time.Microsecond, SetSlice: 1500 * time.Microsecond}
	if have := sample().Costs(); have != want {
		t.Errorf("costs %+v, want %+v", have, want)
	}
}

func TestDriverVersions(t *testing.T) {
	for text, want := range map[string][2]string{
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x)\nGCC version:  gcc version 13.3.0": {"580.159.04", "open"},
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n":                                 {"535.54.03", "proprietary"},
		"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86":                                                          {"570.86", "open"},
	} {
		version, module, err := parseDriver(text)
		if err != nil || version != want[0] || module != want[1] {
			t.Errorf("%q: %q, %q, %v", text, version, module, err)
		}
	}
	if _, _, err := parseDriver("no version\n580.1.1"); err == nil {
		t.Error("took a version from the second line")
	}
}

// TestCutAnywhere holds that no part of a sheet passes for a whole one.
func TestCutAnywhere(t *testing.T) {
	whole, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, len(whole)-3).Draw(t, "length")
		if _, err := Decode(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a sheet", n, len(whole))
		}
	})
}

func FuzzDecode(f *testing.F) {
	whole, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"schema":1,"device":{"uuid":"` + sampleUUID + `"},"driver":{"version":"580.1.1"}}`))
	f.Add([]byte(`{"schema":1,"measured":{"levels":[{"level":1,"idle":{"stop":{}}}]}}`))
	twice := sample()
	twice.Measured.Missing = append(twice.Measured.Missing, twice.Measured.Missing...)
	if whole, err = twice.Encode(); err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		// What is taken can be stored, is taken again, and is the same.
		again, err := s.Encode()
		if err != nil {
			t.Fatalf("taken, and not to be stored: %v", err)
		}
		other, err := Decode(again)
		if err != nil {
			t.Fatalf("stored, and not taken: %v", err)
		}
		if d := Compare(s, other); len(d) != 0 {
			t.Fatalf("stored and loaded differ: %v", d)
		}
	})
}
