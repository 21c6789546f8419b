package main

import (
	"debug/dwarf"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"xmsched/hal/cuda/abi/internal/facts"
)

const independentHeader = "/usr/include/ffnvcodec/dynlink_cuda.h"

// Debian's libffmpeg-nvenc-dev has function types of the driver written by
// others: signatures that both know must have the same machine shape.
func TestSignaturesAgreeWithAnIndependentHeader(t *testing.T) {
	if _, err := os.Stat(independentHeader); err != nil {
		t.Skipf("no independent header to compare with: %v (apt-get install libffmpeg-nvenc-dev)", err)
	}
	set, err := facts.Load(os.DirFS("../facts"))
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]facts.Signature{}
	for _, d := range set.Declarations {
		ours[d.Symbol] = d.Signature
	}
	shapes := shaper{}
	for _, d := range set.Typedefs {
		shapes[d.Name] = d.Type
	}
	compared := 0
	for symbol, theirs := range independentTypes(t) {
		sig, ok := ours[symbol]
		if !ok {
			continue
		}
		compared++
		var got []string
		for _, p := range sig.Params {
			got = append(got, shapes.of(p.Type))
		}
		if strings.Join(got, " ") != strings.Join(theirs, " ") {
			t.Errorf("%s: facts %v, %s %v", symbol, got, independentHeader, theirs)
		}
	}
	if compared < 40 {
		t.Errorf("only %d signatures compared", compared)
	}
}

// independentTypes reads the header's t<symbol> function types.
func independentTypes(t *testing.T) map[string][]string {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "types.so")
	src := filepath.Join(dir, "types.c")
	if err := os.WriteFile(src, []byte("#include <ffnvcodec/dynlink_cuda.h>\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("gcc", "-g", "-w", "-fno-eliminate-unused-debug-types", "-shared", "-fPIC", "-o", out, src).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
	file, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	types := map[string][]string{}
	for r := info.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return types
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if e.Tag != dwarf.TagTypedef || !strings.HasPrefix(name, "tcu") {
			continue
		}
		typ, err := info.Type(e.Offset)
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := typ.(*dwarf.TypedefType).Type.(*dwarf.FuncType); ok {
			shapes := []string{}
			for _, p := range f.ParamType {
				shapes = append(shapes, dwarfShape(p))
			}
			types[name[1:]] = shapes
		}
	}
}

func dwarfShape(t dwarf.Type) string {
	switch t := t.(type) {
	case *dwarf.TypedefType:
		return dwarfShape(t.Type)
	case *dwarf.QualType:
		return dwarfShape(t.Type)
	case *dwarf.PtrType:
		return "pointer"
	case *dwarf.EnumType:
		return "4"
	default:
		return string(rune('0' + t.Size()))
	}
}

// shaper gives the machine shape of a C type of the facts.
type shaper map[string]string

func (s shaper) of(typ string) string {
	typ = strings.TrimSpace(strings.TrimPrefix(typ, "const "))
	if strings.HasSuffix(typ, "*") || strings.Contains(typ, "(*)") {
		return "pointer"
	}
	if next, ok := s[typ]; ok {
		return s.of(next)
	}
	switch typ {
	case "int", "unsigned int", "uint32_t":
		return "4"
	case "size_t", "long long unsigned int", "uint64_t":
		return "8"
	case "unsigned char", "char":
		return "1"
	case "short unsigned int":
		return "2"
	}
	if strings.HasPrefix(typ, "enum ") {
		return "4"
	}
	return typ
}
