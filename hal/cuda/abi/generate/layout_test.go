package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// The compiler's own view of the generated header, against the facts. The
// header asserts the same when it is compiled; this holds the assertions
// themselves to the facts, and covers what they leave out (fields of unions).
func TestHeaderLayoutsAreTheRecorded(t *testing.T) {
	set := loadFacts(t)
	typ, err := newTypes(set)
	if err != nil {
		t.Fatal(err)
	}
	var src, want strings.Builder
	src.WriteString("#include \"cuda_prototypes.h\"\n#include <stdio.h>\n\nint main(void)\n{\n")
	for _, s := range typ.chosen {
		fmt.Fprintf(&src, "    printf(\"%s %%zu %%zu\\n\", sizeof(%s), _Alignof(%s));\n", s.Name, s.Name, s.Name)
		fmt.Fprintf(&want, "%s %d %d\n", s.Name, s.Size, s.Align)
		for _, f := range s.Fields {
			if f.Name == "" {
				continue
			}
			fmt.Fprintf(&src, "    printf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof ((%s *)0)->%s);\n", s.Name, f.Name, s.Name, f.Name, s.Name, f.Name)
			fmt.Fprintf(&want, "%s.%s %d %d\n", s.Name, f.Name, f.Offset, f.Size)
		}
	}
	for _, e := range set.Enumerators {
		if e.Enum == "CUresult" || e.Enum == "CUdevice_attribute" {
			fmt.Fprintf(&src, "    printf(\"%s %%lld\\n\", (long long)%s);\n", e.Name, e.Name)
			fmt.Fprintf(&want, "%s %d\n", e.Name, e.Value)
		}
	}
	src.WriteString("    return 0;\n}\n")
	out, err := exec.Command(compile(t, "layout", writeTemp(t, "layout.c", src.String()))).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(out), "\n")
	for i, line := range strings.Split(want.String(), "\n") {
		if i >= len(got) || got[i] != line {
			t.Errorf("the header gives %q, the facts %q", got[min(i, len(got)-1)], line)
		}
	}
}
