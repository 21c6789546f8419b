package memory

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "512": 512, "16GiB": 16 * GiB, "16 gib": 16 * GiB, "1.5g": 3 * GiB / 2, "512m": 512 * MiB,
		"64KB": 64 * KiB, "2T": 2 * TiB, " 7 b ": 7, "1024TiB": MaxBytes,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "1e9", "0x10", "1.2.3g", "12 parsecs", "inf", "nan", "1025TiB", "9999999999999999999", "1 g b", "１g"} {
		var bad *SizeError
		if got, err := ParseBytes(text); !errors.As(err, &bad) || bad.Text != text {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// FuzzParseBytes: no text is an amount below 0 or beyond what there can be, and
// what is whole in its unit reads back as it was written.
func FuzzParseBytes(f *testing.F) {
	for _, text := range []string{"16GiB", "1.5g", "-1", "", "99999999999999999999t", ".", "1 kib"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBytes(text)
		if err != nil {
			return
		}
		if b < 0 || b > MaxBytes {
			t.Fatalf("%q: %d", text, b)
		}
		again, err := ParseBytes(b.String())
		if err != nil || !strings.Contains(b.String(), ".") && again != b {
			t.Fatalf("%q: %s, which reads as %d, %v", text, b, again, err)
		}
	})
}

func TestClaimsAreClamped(t *testing.T) {
	for _, c := range []struct {
		claimed uint64
		most    Bytes
		want    Bytes
	}{{5, 10, 5}, {11, 10, 10}, {math.MaxUint64, 10, 10}, {1 << 63, MaxBytes, MaxBytes}, {5, 0, 0}, {5, -1, 0}} {
		if got := Clamp(c.claimed, c.most); got != c.want {
			t.Errorf("%d of %d: %d, want %d", c.claimed, c.most, got, c.want)
		}
	}
}

func TestRates(t *testing.T) {
	if got := LinkRate.Time(8 * GiB).Round(time.Millisecond); got != 169*time.Millisecond {
		t.Errorf("8 GiB take %v", got)
	}
	if got := Rate(1e9).Over(time.Second); got != 1e9 {
		t.Errorf("a second carries %d", got)
	}
	if Rate(0).Time(GiB) != 0 || LinkRate.Time(-1) != 0 {
		t.Error("a time without a rate, or without bytes")
	}
}

func TestDeviceBudget(t *testing.T) {
	for _, c := range []struct{ card, driver, want Bytes }{
		{143771 * MiB, 3 * GiB, (143771*MiB - 143771*MiB/50 - 3*GiB).Down()}, // an H200
		{16 * GiB, 512 * MiB, 16*GiB - 2*GiB - 512*MiB},
		{8 * GiB, 0, 7 * GiB},                            // of a small one an eighth stays
		{GiB, 0, 896 * MiB}, {GiB, 512 * MiB, 384 * MiB}, // the simulated one
		{64 * MiB, 0, 56 * MiB}, {2 * MiB, 0, 0}, {0, 0, 0}, {-1, -1, 0}, {16 * GiB, math.MaxInt64, 0},
	} {
		if got := DeviceBudget(c.card, c.driver); got != c.want {
			t.Errorf("card %s, driver %s: %s, want %s", c.card, c.driver, got, c.want)
		}
	}
}

// TestCase29HostBudgetByCgroup: the pool is bounded by the cgroup, not the
// machine.
func TestCase29HostBudgetByCgroup(t *testing.T) {
	machine := HostFigures{Available: 100 * GiB}
	for _, c := range []struct {
		change func(*HostFigures)
		want   Bytes
		by     HostLimit
	}{
		{func(*HostFigures) {}, 50 * GiB, LimitAvailable},
		{func(f *HostFigures) { f.Limit, f.Used = 20*GiB, 8*GiB }, 12 * GiB, LimitCgroup},
		{func(f *HostFigures) { f.Limit, f.Used = 20*GiB, 30*GiB }, 0, LimitCgroup},
		{func(f *HostFigures) { f.Limit, f.Used, f.Wanted = 20*GiB, 8*GiB, 4*GiB }, 4 * GiB, LimitWanted},
		{func(f *HostFigures) { f.Wanted = 80 * GiB }, 50 * GiB, LimitAvailable},
		// What the pool has is not available any more, and still ours.
		{func(f *HostFigures) { f.Available, f.Ours = 60*GiB, 40*GiB }, 50 * GiB, LimitAvailable},
		{func(f *HostFigures) { f.Available = -5 }, 0, LimitAvailable},
	} {
		f := machine
		c.change(&f)
		if got, by := HostBudget(f); got != c.want || by != c.by {
			t.Errorf("%+v: %s by %s, want %s by %s", f, got, by, c.want, c.by)
		}
	}
}
