package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"

	"xmsched/hal/cuda/abi/internal/facts"
)

func goFile(set *facts.Set, body string) ([]byte, error) {
	src := "// " + strings.ReplaceAll(origin(set), "\n", "\n// ") + "\n\npackage abi\n\n" + body
	out, err := format.Source([]byte(src))
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, src)
	}
	return out, nil
}

// goResults is the Result constants and what the driver calls them.
func goResults(set *facts.Set) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Values of Result.\nconst (\n")
	for _, e := range set.Enumerators {
		if e.Enum == "CUresult" {
			fmt.Fprintf(&b, "%s Result = %d\n", e.Name, e.Value)
		}
	}
	b.WriteString(")\n\n// resultTexts is what the recorded driver's cuGetErrorName and cuGetErrorString say.\n")
	b.WriteString("var resultTexts = map[Result]struct{ name, text string }{\n")
	for _, e := range set.Errors {
		fmt.Fprintf(&b, "%d: {%q, %q},\n", e.Value, e.Name, e.Text)
	}
	b.WriteString("}\n")
	return goFile(set, b.String())
}

// goEnums is one integer type an enum, its values, and the macros.
func (t *types) goEnums() ([]byte, error) {
	var b bytes.Buffer
	for _, e := range enumTypes {
		base := "uint32"
		if t.enumBase(e.c) == "int" {
			base = "int32"
		}
		fmt.Fprintf(&b, "// %s is the driver's %s.\ntype %s %s\n\nconst (\n", e.goName, e.c, e.goName, base)
		for _, v := range t.enums[e.c] {
			fmt.Fprintf(&b, "%s %s = %d\n", v.Name, e.goName, v.Value)
		}
		b.WriteString(")\n\n")
	}
	b.WriteString("// Macros of the interface.\nconst (\n")
	for _, name := range macroNames {
		v, err := t.macro(name)
		if err != nil {
			return nil, err
		}
		typ := ""
		switch macroCasts[name] {
		case "CUstream":
			typ = "Stream"
		case "CUdevice":
			typ = "Device"
		case "void *":
			typ = "uintptr"
		}
		fmt.Fprintf(&b, "%s %s = %d\n", name, typ, v)
	}
	b.WriteString(")\n\n")
	fmt.Fprintf(&b, "// HeaderVersion is the CUDA_VERSION of the recorded header, DriverVersion what the\n// recorded driver's cuDriverGetVersion says.\nconst (\nHeaderVersion = %d\nDriverVersion = %d\n)\n",
		t.set.Origin.Header, t.set.Origin.DriverVersion)
	b.WriteString("\n// deviceAttributeNames are the vendor's names; a value with two names has its first.\nvar deviceAttributeNames = map[DeviceAttribute]string{\n")
	seen := map[int64]bool{}
	for _, v := range t.enums["CUdevice_attribute"] {
		if !seen[v.Value] {
			seen[v.Value] = true
			fmt.Fprintf(&b, "%d: %q,\n", v.Value, v.Name)
		}
	}
	b.WriteString("}\n")
	return goFile(t.set, b.String())
}

// goHandles maps C type names to Go's; anything else is worked out by shape.
var goHandles = map[string]string{
	"CUdeviceptr_v2": "DevicePtr",
	"CUdevice_v1":    "Device",
	"CUcontext":      "Context",
	"CUmodule":       "Module",
	"CUfunction":     "Function",
	"CUstream":       "Stream",
	"CUevent":        "Event",
	"CUresult":       "Result",
}

var goScalars = map[string]string{
	"char":                   "byte",
	"unsigned char":          "uint8",
	"short int":              "int16",
	"unsigned short":         "uint16",
	"short unsigned int":     "uint16",
	"int":                    "int32",
	"unsigned int":           "uint32",
	"uint32_t":               "uint32",
	"uint64_t":               "uint64",
	"size_t":                 "uint64",
	"long long unsigned int": "uint64",
	"long long int":          "int64",
}

func (t *types) goType(c string) (string, error) {
	for _, e := range enumTypes {
		if e.c == c {
			return e.goName, nil
		}
	}
	for name := c; ; {
		if g, ok := goHandles[name]; ok {
			return g, nil
		}
		next, ok := t.typedefs[name]
		if !ok {
			break
		}
		name = next
	}
	base := t.resolve(c)
	switch {
	case t.isStruct(base):
		return goStructName(base), nil
	case t.isEnum(base):
		if t.enumBase(base) == "int" {
			return "int32", nil
		}
		return "uint32", nil
	case strings.Contains(base, "(*)"), strings.HasSuffix(t.typedefs[base], "*"):
		return "uintptr", nil // function pointers and handles
	case strings.HasSuffix(base, "*"), strings.HasSuffix(base, "*const"):
		return "unsafe.Pointer", nil
	}
	if g, ok := goScalars[base]; ok {
		return g, nil
	}
	return "", fmt.Errorf("no Go type for %q (%q)", c, base)
}

// goStructName drops the version suffix of the layout that plain names mean.
func goStructName(c string) string {
	for _, suffix := range []string{"_v1", "_v2"} {
		if base, ok := strings.CutSuffix(c, suffix); ok {
			switch c {
			case "CUDA_KERNEL_NODE_PARAMS_v1", "CUDA_MEMSET_NODE_PARAMS_v2":
				return c // the plain name means the other one
			}
			return base
		}
	}
	return c
}

// goStructs is one Go struct with the same layout for each chosen one. A union
// becomes an array of the width that gives it its alignment.
func (t *types) goStructs() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("import \"unsafe\"\n\n")
	for _, s := range t.chosen {
		name := goStructName(s.Name)
		if s.Kind == "union" {
			fmt.Fprintf(&b, "// %s is the driver's union %s, %d bytes.\ntype %s %s\n\n", name, s.Name, s.Size, name, goUnion(s.Size, s.Align))
			continue
		}
		fmt.Fprintf(&b, "// %s is the driver's %s, %d bytes.\ntype %s struct {\n", name, s.Name, s.Size, name)
		if err := t.goFields(&b, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		b.WriteString("}\n\n")
	}
	return goFile(t.set, b.String())
}

func (t *types) goFields(b *bytes.Buffer, s facts.Struct) error {
	at, pads := int64(0), 0
	pad := func(to int64) {
		if to > at {
			fmt.Fprintf(b, "_ [%d]byte\n", to-at)
			pads++
		}
	}
	for i, f := range s.Fields {
		pad(f.Offset)
		typ, err := t.goFieldType(f, s.Align)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "%s %s // %d\n", goFieldName(f, i), typ, f.Offset)
		at = f.Offset + f.Size
	}
	pad(s.Size)
	return nil
}

func (t *types) goFieldType(f facts.Field, align int64) (string, error) {
	if f.Kind != "" {
		return goUnion(f.Size, min(align, largestPower(f.Offset, f.Size))), nil
	}
	typ, err := t.goType(f.Type)
	if err != nil {
		return "", err
	}
	if f.Count > 0 {
		typ = fmt.Sprintf("[%d]%s", f.Count, typ)
	}
	return typ, nil
}

// largestPower is the largest power of two that divides both, at most 8.
func largestPower(a, b int64) int64 {
	p := int64(8)
	for p > 1 && (a%p != 0 || b%p != 0) {
		p /= 2
	}
	return p
}

func goUnion(size, align int64) string {
	align = min(align, largestPower(size, size))
	return fmt.Sprintf("[%d]uint%d", size/align, align*8)
}

func goFieldName(f facts.Field, i int) string {
	if f.Name == "" {
		return fmt.Sprintf("Union%d", i)
	}
	return strings.ToUpper(f.Name[:1]) + f.Name[1:]
}

// goLayouts is the test data that holds the Go structs to the facts.
func (t *types) goLayouts() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("import \"unsafe\"\n\n// goLayouts is what the Go compiler makes of the structs: C name, size, offsets by C field name.\n")
	b.WriteString("var goLayouts = []struct {\nname string\nsize uintptr\noffsets map[string]uintptr\n}{\n")
	for _, s := range t.chosen {
		name := goStructName(s.Name)
		fmt.Fprintf(&b, "{%q, unsafe.Sizeof(%s{}), map[string]uintptr{\n", s.Name, name)
		if s.Kind == "struct" {
			for i, f := range s.Fields {
				if f.Name != "" {
					fmt.Fprintf(&b, "%q: unsafe.Offsetof(%s{}.%s),\n", f.Name, name, goFieldName(f, i))
				}
			}
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	return goFile(t.set, b.String())
}
