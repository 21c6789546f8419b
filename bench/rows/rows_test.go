package rows

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sample() Row {
	return Row{
		Schema: Schema, Row: "launch", Mode: ModeFree, Device: "Test GPU", UUID: "GPU-0",
		Driver: "CUDA 13.0", Commit: "0123456789abcdef",
		Time:    Time{time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)},
		N:       10,
		Params:  Params{"threads": 1.0, "kernel_us": 0.0, "level": "1"},
		Metrics: Metrics{"native_ns": 4200, "overhead_pct": 0.4, "identical": 1},
	}
}

func TestRoundTrip(t *testing.T) {
	want := sample()
	line, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(line)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, key := range []string{"schema", "row", "mode", "device", "uuid", "driver", "simulated", "commit", "time", "n", "params", "metrics"} {
		if !strings.Contains(string(line), `"`+key+`":`) {
			t.Errorf("line has no key %s: %s", key, line)
		}
	}
	if !strings.Contains(string(line), `"2026-11-29T12:00:00Z"`) {
		t.Errorf("time is not RFC 3339 UTC: %s", line)
	}
}

func TestEncodeRefuses(t *testing.T) {
	cases := map[string]func(*Row){
		"NaN":               func(r *Row) { r.Metrics["native_ns"] = math.NaN() },
		"+Inf":              func(r *Row) { r.Metrics["native_ns"] = math.Inf(1) },
		"end in a unit":     func(r *Row) { r.Metrics["latency"] = 1 },
		"no metrics":        func(r *Row) { r.Metrics = nil },
		"schema is 2":       func(r *Row) { r.Schema = 2 },
		"no commit":         func(r *Row) { r.Commit = "" },
		"n is 0":            func(r *Row) { r.N = 0 },
		"no time":           func(r *Row) { r.Time = Time{} },
		"row name":          func(r *Row) { r.Row = "Two Words" },
		"mode \"\"":         func(r *Row) { r.Mode = "" },
		"neither number":    func(r *Row) { r.Params["x"] = []int{1} },
		"param x: value is": func(r *Row) { r.Params["x"] = math.NaN() },
	}
	for want, spoil := range cases {
		r := sample()
		spoil(&r)
		_, err := Encode(r)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, repl string) string {
		s := strings.Replace(string(good), old, repl, 1)
		if s == string(good) {
			t.Fatalf("%q is not in the line", old)
		}
		return s
	}
	cases := map[string]string{
		"EOF":                  `{"schema":1`,
		"invalid character":    replace(`4200`, `NaN`),
		"native_ns is null":    replace(`4200`, `null`),
		"given twice":          replace(`"native_ns":4200`, `"native_ns":4200,"native_ns":1`),
		"unknown field":        replace(`"n":10`, `"n":10,"extra":1`),
		"more than one object": string(good) + string(good),
		"not UTC":              replace(`12:00:00Z`, `12:00:00+02:00`),
		"cannot parse":         replace(`2026-11-29T12:00:00Z`, `yesterday`),
		"cannot unmarshal":     replace(`"n":10`, `"n":"ten"`),
		"neither number":       replace(`"level":"1"`, `"level":{"a":1}`),
		"array":                `[1,2]`,
	}
	for want, line := range cases {
		_, err := Decode([]byte(line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("line %q: error %v, want it to say %q", line, err, want)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", FileName("launch", sample().Time.Time, sample().Commit))
	if want := "launch-2026-11-29-01234567.jsonl"; filepath.Base(path) != want {
		t.Errorf("file name %s, want %s", filepath.Base(path), want)
	}
	if got := FileName("p99", sample().Time.Time, "3996982-dirty"); got != "p99-2026-11-29-3996982.jsonl" {
		t.Errorf("file name of a modified tree: %s", got)
	}
	a, b := sample(), sample()
	b.Mode = ModeBounded
	if err := Append(path, a); err != nil {
		t.Fatal(err)
	}
	bad := sample()
	bad.N = 0
	if err := Append(path, b, bad); err == nil {
		t.Error("a bad row was appended")
	}
	if err := Append(path, b); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Row{a, b}, got); d != "" {
		t.Error(d)
	}

	if err := os.WriteFile(path, []byte("\n{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v, want the line number", err)
	}
	if _, err := ReadFile(filepath.Join(dir, "absent")); err == nil {
		t.Error("an absent file was read")
	}
}
