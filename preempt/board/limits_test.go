package board

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestThresholdIsTheLibrarys compares the limit with the one that the preload
// library clamps to: what is accepted beyond that would do nothing.
func TestThresholdIsTheLibrarys(t *testing.T) {
	text, err := os.ReadFile("../../shim/cuda/preload/state.h")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`#define XM_FREE_LIMIT (\d+)u`).FindSubmatch(text)
	if m == nil {
		t.Fatal("state.h has no XM_FREE_LIMIT")
	}
	if n, err := strconv.Atoi(string(m[1])); err != nil || n != MaxThreshold {
		t.Errorf("XM_FREE_LIMIT is %s, MaxThreshold %d", m[1], MaxThreshold)
	}
}
