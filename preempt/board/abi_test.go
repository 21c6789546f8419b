package board

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xmsched/preempt/board/internal/layout"
)

const headerPath = "../../shim/cuda/preload/gen/board.h"

func TestHeaderIsGeneratedFromTheLayout(t *testing.T) {
	var want bytes.Buffer
	if err := layout.WriteHeader(&want); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(headerPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(have)); diff != "" {
		t.Errorf("run go generate ./preempt/board (-want +have):\n%s", diff)
	}
}

// TestLayoutIsTheSameInC asks the C compiler, not our own arithmetic.
func TestLayoutIsTheSameInC(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		cc, err = exec.LookPath("gcc")
	}
	if err != nil {
		t.Skip("no C compiler on this machine")
	}
	var want, prog strings.Builder
	prog.WriteString("#include <stdio.h>\n#include \"board.h\"\nint main(void) {\n")
	for _, s := range layout.Structs() {
		typ := reflect.TypeOf(s.Zero)
		fmt.Fprintf(&prog, "printf(\"%s %%zu\\n\", sizeof(struct %s));\n", s.Name, s.Name)
		fmt.Fprintf(&want, "%s %d\n", s.Name, typ.Size())
		for i := range typ.NumField() {
			f := typ.Field(i)
			name := s.Name + "." + f.Tag.Get("c")
			fmt.Fprintf(&prog, "printf(\"%s %%zu %%zu\\n\", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s));\n",
				name, s.Name, f.Tag.Get("c"), s.Name, f.Tag.Get("c"))
			fmt.Fprintf(&want, "%s %d %d\n", name, f.Offset, f.Type.Size())
		}
	}
	for _, c := range layout.Constants() {
		fmt.Fprintf(&prog, "printf(\"%s %%llu\\n\", (unsigned long long)%s);\n", c.Name, c.Name)
		fmt.Fprintf(&want, "%s %d\n", c.Name, c.Value)
	}
	prog.WriteString("return 0; }\n")

	dir := t.TempDir()
	src, bin := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(src, []byte(prog.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", filepath.Dir(headerPath), "-o", bin, src)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	have, err := exec.Command(bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(have)); diff != "" {
		t.Errorf("layout differs (-Go +C):\n%s", diff)
	}
}

// TestLayoutRules holds what the layout promises in words.
func TestLayoutRules(t *testing.T) {
	var b layout.Board
	typ := reflect.TypeOf(b)
	if typ.Size() != layout.Size {
		t.Errorf("a board has %d bytes, want %d", typ.Size(), layout.Size)
	}
	for name, want := range map[string]uintptr{"Devices": layout.DevicesOffset, "Slots": layout.SlotsOffset} {
		f, _ := typ.FieldByName(name)
		if f.Offset != want {
			t.Errorf("%s at %d, want %d", name, f.Offset, want)
		}
	}
	lines := []any{layout.DaemonHeader{}, layout.ClientHeader{}, layout.DaemonLine{}, layout.ClientLine{}, layout.Identity{}}
	for _, l := range lines {
		if size := reflect.TypeOf(l).Size(); size != 128 {
			t.Errorf("%T has %d bytes, want 128", l, size)
		}
	}
	completed, _ := reflect.TypeOf(layout.Slot{}).FieldByName("Completed")
	if completed.Offset != 64 {
		t.Errorf("completed at %d of its slot, want a cache line of its own at 64", completed.Offset)
	}
}
