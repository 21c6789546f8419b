package rm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

const headerPath = "../../shim/cuda/preload/gen/rm.h"

func TestHeaderIsGenerated(t *testing.T) {
	var want bytes.Buffer
	if err := WriteHeader(&want); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(headerPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(have)); diff != "" {
		t.Errorf("run go generate ./nvx/rm (-want +have):\n%s", diff)
	}
}

// TestLayoutIsTheSameInC asks the C compiler, not our own arithmetic.
func TestLayoutIsTheSameInC(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no C compiler on this machine")
	}
	var want, prog strings.Builder
	prog.WriteString("#include <stdio.h>\n#include <sys/ioctl.h>\n#include \"rm.h\"\nint main(void) {\n")
	for _, s := range Structs() {
		fmt.Fprintf(&prog, "printf(\"%s %%zu\\n\", sizeof(struct %s));\n", s.Name, s.Name)
		fmt.Fprintf(&want, "%s %d\n", s.Name, reflect.TypeOf(s.Zero).Size())
		for _, f := range fields(s) {
			name := s.Name + "." + f.Tag.Get("c")
			fmt.Fprintf(&prog, "printf(\"%s %%zu %%zu\\n\", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s));\n",
				name, s.Name, f.Tag.Get("c"), s.Name, f.Tag.Get("c"))
			fmt.Fprintf(&want, "%s %d %d\n", name, f.Offset, f.Type.Size())
		}
	}
	for _, c := range Constants() {
		fmt.Fprintf(&prog, "printf(\"%s %%llu\\n\", (unsigned long long)%s);\n", c.Name, c.Name)
		fmt.Fprintf(&want, "%s %d\n", c.Name, c.Value)
	}
	prog.WriteString("printf(\"request %d\\n\", XM_RM_CONTROL == _IOWR('F', NV_ESC_RM_CONTROL, struct NVOS54_PARAMETERS));\n" +
		"printf(\"channel %d %d\\n\", XM_RM_IS_CHANNEL(HOPPER_CHANNEL_GPFIFO_A), XM_RM_IS_CHANNEL(KEPLER_CHANNEL_GROUP_A));\nreturn 0; }\n")
	want.WriteString("request 1\nchannel 1 0\n")

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

// TestRequestsAreThoseSeen compares with requests that a probe program made on
// the H200 and that the driver answered.
func TestRequestsAreThoseSeen(t *testing.T) {
	if have := Request(NV_ESC_RM_CONTROL, unsafe.Sizeof(NVOS54_PARAMETERS{})); have != 0xc020462a {
		t.Errorf("control request %#x, want 0xc020462a", have)
	}
	// The probe's struct for FIFO_DISABLE_CHANNELS, which the driver took.
	if have := unsafe.Sizeof(NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS{}); have != 24+2*64*4 {
		t.Errorf("disable channels has %d bytes", have)
	}
	// The engine is read at 12 of a group's parameters there.
	if have := unsafe.Offsetof(NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS{}.EngineType); have != 12 {
		t.Errorf("engine type at %d, want 12", have)
	}
}

func TestEveryFactHasItsOrigin(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Constants() {
		if c.Origin == "" || seen[c.Name] {
			t.Errorf("%s: origin %q, twice %v", c.Name, c.Origin, seen[c.Name])
		}
		seen[c.Name] = true
	}
	for _, s := range Structs() {
		if s.Origin == "" || s.Doc == "" {
			t.Errorf("%s: origin %q, doc %q", s.Name, s.Origin, s.Doc)
		}
	}
}

func TestChannelClasses(t *testing.T) {
	for _, c := range channels[1:] {
		if !IsChannel(uint32(c.Value)) {
			t.Errorf("%s is no channel", c.Name)
		}
	}
	for _, c := range append(append([]Constant(nil), classes...), refusing...) {
		if IsChannel(uint32(c.Value)) {
			t.Errorf("%s is a channel", c.Name)
		}
	}
}

func TestStatusNames(t *testing.T) {
	if got := StatusName(0x1b); got != "NV_ERR_INSUFFICIENT_PERMISSIONS" {
		t.Errorf("0x1b is %q", got)
	}
	if got := StatusName(0xffff); got != "" {
		t.Errorf("an unknown status is %q", got)
	}
}
