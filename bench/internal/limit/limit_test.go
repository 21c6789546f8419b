package limit

import (
	"math"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	for want, err := range map[string]error{
		"backgrounds is 100000, want 1 to 64": Check("backgrounds", 100000, 1, 64),
		"backgrounds is 0, want 1 to 64":      Check("backgrounds", 0, 1, 64),
		"gap-us is NaN, want 0 to 1.5":        Check("gap-us", math.NaN(), 0, 1.5),
		"idle is 1ms, want 1s to 10m0s":       Check("idle", time.Millisecond, time.Second, 10*time.Minute),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, v := range []int{1, 30, 64} {
		if err := Check("backgrounds", v, 1, 64); err != nil {
			t.Error(err)
		}
	}
}

func TestFirst(t *testing.T) {
	if err := First(nil, nil); err != nil {
		t.Error(err)
	}
	a, b := Check("a", 2, 0, 1), Check("b", 2, 0, 1)
	if err := First(nil, a, b); err != a {
		t.Errorf("%v, want the first refusal", err)
	}
}
