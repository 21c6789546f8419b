package bpf

import (
	"bytes"
	"fmt"
)

var here = machine{
	names: func() map[string]uint16 {
		names := map[string]uint16{"sp": 248}
		for n := range uint16(31) {
			names[fmt.Sprintf("x%d", n)] = 8 * n
		}
		return names
	}(),
	parameters: []string{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"},
	openings:   openingARM64,
	stubs: map[opening][]byte{
		emulated: {0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6},                         // nop; ret
		stepped:  {0xff, 0x43, 0x00, 0xd1, 0xff, 0x43, 0x00, 0x91, 0xc0, 0x03, 0x5f, 0xd6}, // sub sp,sp,#16; add sp,sp,#16; ret
	},
}

// openingARM64: a nop is simulated, what else functions begin with is stepped.
func openingARM64(code []byte) opening {
	if bytes.HasPrefix(code, []byte{0x1f, 0x20, 0x03, 0xd5}) {
		return emulated
	}
	return stepped
}
