package workloads

import (
	"testing"
	"time"
)

func TestSuspendedProgramsValidate(t *testing.T) {
	if err := (Cycles{Count: 1, Hold: "all"}).Validate(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]Cycles{
		"no hold":      {Count: 1},
		"none":         {Count: 1, Hold: "none"},
		"no cycles":    {Hold: "all"},
		"unknown work": {Count: 1, Hold: "all", Work: []string{"sleep"}},
		"long hold":    {Count: 1, Hold: "all", HoldFor: time.Minute},
	} {
		if c.Validate() == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := (Beats{Iterations: 1, Every: 1, InFlight: 1}).Validate(); err != nil {
		t.Error(err)
	}
	for _, b := range []Beats{{Every: 1, InFlight: 1}, {Iterations: 1, InFlight: 1}, {Iterations: 1, Every: 1}} {
		if b.Validate() == nil {
			t.Errorf("%+v was taken", b)
		}
	}
	if (First{}).Validate() == nil || (Pin{Bytes: 1}).Validate() == nil || (BeatWatch{Pid: 2, WordsFD: 3}).Validate() == nil {
		t.Error("settings without a sense were taken")
	}
}

func TestDifferingCountsWords(t *testing.T) {
	if n := differing([]byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 1}, []uint32{1, 2, 3}); n != 1 {
		t.Errorf("%d words differ, want 1", n)
	}
}

func TestChannelsErrors(t *testing.T) {
	if channelsError("hold", 0) != nil {
		t.Error("0 is an error")
	}
	minusEINVAL := int32(-22)
	for r, want := range map[uintptr]string{
		uintptr(uint32(minusEINVAL)): "xm_channels: hold: invalid argument",
		0x1b:                         "xm_channels: hold: the driver's status is 0x1b",
	} {
		if err := channelsError("hold", r); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestEvenlySpreads(t *testing.T) {
	low, high := 0, 0
	for i := range 100 {
		d := evenly(i, time.Second)
		if d < 0 || d >= time.Second {
			t.Fatalf("%v", d)
		}
		if d < time.Second/2 {
			low++
		} else {
			high++
		}
	}
	if low < 45 || high < 45 {
		t.Errorf("%d below the half, %d above", low, high)
	}
}
