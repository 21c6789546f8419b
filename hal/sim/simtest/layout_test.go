package simtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"xmsched/hal/cuda/abi"
	"xmsched/hal/sim/simtest"
)

// The structures of the simulated driver's memory calls lie as the recorded ones
// do, which hal/cuda/abi is held to.
func TestMemoryStructuresAreTheDrivers(t *testing.T) {
	var program, want strings.Builder
	program.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include \"cu_memory.h\"\nint main(void)\n{\n")
	same := func(c string, n uintptr) {
		fmt.Fprintf(&program, "printf(\"%%s %%zu\\n\", %q, (size_t)(%s));\n", c, c)
		fmt.Fprintf(&want, "%s %d\n", c, n)
	}
	for _, s := range []struct {
		c string
		g any
	}{
		{"CUDA_MEMCPY2D", abi.CUDA_MEMCPY2D{}}, {"CUDA_MEMCPY3D", abi.CUDA_MEMCPY3D{}}, {"CUDA_MEMCPY3D", abi.CUDA_MEMCPY3D_PEER{}},
		{"CUmemLocation", abi.CUmemLocation{}}, {"CUmemAccessDesc", abi.CUmemAccessDesc{}}, {"CUmemPoolProps", abi.CUmemPoolProps{}},
		{"CUmemcpyAttributes", abi.CUmemcpyAttributes{}},
	} {
		g := reflect.TypeOf(s.g)
		same("sizeof("+s.c+")", g.Size())
		for i := range g.NumField() {
			f := g.Field(i)
			if f.Name == "_" || strings.HasPrefix(f.Name, "Reserved") {
				continue
			}
			name := f.Name
			if !slices.Contains([]string{"WidthInBytes", "Height", "Depth"}, name) {
				name = strings.ToLower(name[:1]) + name[1:]
			}
			same("offsetof("+s.c+", "+name+")", f.Offset)
		}
	}
	program.WriteString("return 0;\n}\n")
	dir := t.TempDir()
	source, bin := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	include := "-I" + filepath.Join(simtest.Root(t), "hal", "sim", "libcuda")
	if out, err := exec.Command("gcc", "-std=c11", include, "-o", bin, source).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	got, err := exec.Command(bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Errorf("the header says\n%s\nwant\n%s", got, want.String())
	}
}
