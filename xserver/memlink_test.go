package xserver

import (
	"testing"

	mem "xmsched/memory"
	"xmsched/nvx/sheet"
)

func TestLinkOfASheet(t *testing.T) {
	for _, c := range []struct {
		what string
		copy *sheet.Copy
		want mem.Rate
	}{
		{"without figures of it", nil, 0},
		{"of nothing", &sheet.Copy{}, 0},
		{"of an H200", &sheet.Copy{ToDeviceGBs: 54.7, FromDeviceGBs: 55.2, BothToGBs: 48, BothFromGBs: 51.4}, 48e9},
		{"one way only", &sheet.Copy{ToDeviceGBs: 25, FromDeviceGBs: 26}, 25e9},
		{"below nothing", &sheet.Copy{ToDeviceGBs: -1, FromDeviceGBs: 2}, 0},
	} {
		if got := linkOf(&sheet.Sheet{Measured: &sheet.Measured{Copy: c.copy}}); got != c.want {
			t.Errorf("a sheet %s: %g, want %g", c.what, float64(got), float64(c.want))
		}
	}
	if got := linkOf(&sheet.Sheet{}); got != 0 {
		t.Errorf("a sheet of a probe alone: %g", float64(got))
	}
}
