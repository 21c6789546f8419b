package simtest_test

import (
	"fmt"
	"strings"
	"testing"

	"xmsched/hal/sim/simtest"
)

// A process uses two devices: memory, copies, order, peers, pools, managed memory.
func TestTwoDevicesInOneProcess(t *testing.T) {
	if got := run(t, program(t, "devices", simtest.Start(t, simtest.Devices(2)))); got != "ok" {
		t.Errorf("devices says %q", got)
	}
}

// Which devices a program sees, and in what order: numbers or UUIDs, up to the first
// that means none; a device named twice makes the list empty.
func TestVisibleDevices(t *testing.T) {
	env := simtest.Start(t, simtest.Devices(4))
	bin := simtest.CompileC(t, "testdata/visible.c", simtest.Library(t))
	all := strings.Fields(run(t, command(t, bin, env)))
	if len(all) != 4 {
		t.Fatalf("%d devices: %v", len(all), all)
	}
	for list, want := range map[string][]int{
		"0":                                {0},
		"3,1":                              {3, 1},
		" 2 , 0":                           {2, 0},
		"1x,2y":                            {1, 2},
		"0,4,1":                            {0},
		"1,-1,2":                           {1},
		"":                                 nil,
		"-1":                               nil,
		"NoDevFiles":                       nil,
		"2,2":                              nil,
		"GPU-" + all[2] + ",GPU-" + all[0]: {2, 0},
		"GPU-" + all[1][:8]:                {1},
		"GPU-":                             nil, // means any
		"GPU-" + all[1] + ",1":             {1}, // no UUID ends the list
		"1,GPU-" + all[2]:                  {1},
		"GPU-" + all[3] + ",GPU-" + all[3]: nil,
		"GPU-" + all[3] + ",GPU-00000000,GPU-" + all[0]:    {3},
		strings.ToUpper("GPU-"+all[3]) + "F,GPU-" + all[0]: nil,
	} {
		got := strings.Fields(run(t, command(t, bin, append(env, "CUDA_VISIBLE_DEVICES="+list))))
		var expected []string
		for _, i := range want {
			expected = append(expected, all[i])
		}
		if want == nil {
			expected = []string{"none"}
		}
		if fmt.Sprint(got) != fmt.Sprint(expected) {
			t.Errorf("CUDA_VISIBLE_DEVICES=%q: %v, want %v", list, got, expected)
		}
	}
}

func TestDevicesSanitized(t *testing.T) {
	library := simtest.SanitizedLibrary(t)
	env := append(simtest.StartWith(t, library, simtest.Devices(2)), "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1")
	for _, name := range []string{"devices", "rm_objects"} {
		bin := simtest.CompileC(t, "testdata/"+name+".c", library, "-fsanitize=address,undefined")
		run(t, command(t, bin, env))
	}
}
