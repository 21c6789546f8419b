package main

import (
	"bytes"
	"fmt"
	"strings"

	"xmsched/hal/cuda/abi/internal/facts"
)

// comment frames text as a C comment.
func comment(text string) string {
	return strings.ReplaceAll("/* "+strings.ReplaceAll(text, "\n", "\n * ")+" */\n", " * \n", " *\n")
}

// header is cuda_abi.h: types, values, layouts, function-pointer types.
func (t *types) header() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(comment(origin(t.set) + "\n\nThe driver's binary interface: our own declarations of it. Never include it\ntogether with a vendor header."))
	b.WriteString("#ifndef XM_GEN_CUDA_ABI_H\n#define XM_GEN_CUDA_ABI_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n")
	fmt.Fprintf(&b, "#define CUDA_VERSION %d\n\n", t.set.Origin.Header)

	for _, e := range append([]struct{ c, goName string }{{"CUresult", ""}}, enumTypes...) {
		b.WriteString("typedef enum {\n")
		for _, v := range t.enums[e.c] {
			fmt.Fprintf(&b, "    %s = %s,\n", v.Name, cInt(v.Value))
		}
		fmt.Fprintf(&b, "} %s;\n\n", e.c)
	}
	t.writeTypedefs(&b)
	for _, name := range macroNames {
		v, err := t.macro(name)
		if err != nil {
			return nil, err
		}
		if cast := macroCasts[name]; cast != "" {
			if strings.HasPrefix(cast, "CUdevice") {
				fmt.Fprintf(&b, "#define %s ((%s)%d)\n", name, cast, v)
			} else {
				fmt.Fprintf(&b, "#define %s ((%s)(uintptr_t)%d)\n", name, cast, v)
			}
			continue
		}
		fmt.Fprintf(&b, "#define %s %d\n", name, v)
	}
	b.WriteString("\n")
	for _, s := range t.chosen {
		if err := t.writeStruct(&b, s); err != nil {
			return nil, err
		}
	}
	b.WriteString("/* One function-pointer type for each exported symbol, named after it. */\n")
	for _, d := range t.set.Declarations {
		fmt.Fprintf(&b, "typedef %s (*xm_pfn_%s)(%s);\n", d.Result, d.Symbol, parameters(d.Signature))
	}
	b.WriteString("\n#endif\n")
	return b.Bytes(), nil
}

func (t *types) writeTypedefs(b *bytes.Buffer) {
	written := map[string]bool{"CUresult": true}
	for _, e := range enumTypes {
		written[e.c] = true
	}
	for _, n := range t.orderedTypedefs() {
		typ := t.typedefs[n]
		switch {
		case written[n]:
		case strings.HasPrefix(typ, "enum "):
			fmt.Fprintf(b, "typedef %s %s;\n", t.enumBase(n), n)
		case strings.Contains(typ, "(*)"):
			fmt.Fprintf(b, "typedef %s;\n", strings.Replace(typ, "(*)", "(*"+n+")", 1))
		default:
			fmt.Fprintf(b, "typedef %s;\n", declare(typ, n))
		}
	}
	b.WriteString("\n")
}

// writeStruct writes a definition and the assertions that hold it to the facts.
func (t *types) writeStruct(b *bytes.Buffer, s facts.Struct) error {
	tag := t.typedefs[s.Name]
	fmt.Fprintf(b, "%s {\n", tag)
	if err := t.writeFields(b, s.Name, s.Fields, "    "); err != nil {
		return err
	}
	b.WriteString("};\n")
	fmt.Fprintf(b, "_Static_assert(sizeof(%s) == %d && _Alignof(%s) == %d, \"layout of %s\");\n", s.Name, s.Size, s.Name, s.Align, s.Name)
	for _, f := range s.Fields {
		if f.Name != "" && s.Kind == "struct" {
			fmt.Fprintf(b, "_Static_assert(offsetof(%s, %s) == %d, \"layout of %s\");\n", s.Name, f.Name, f.Offset, s.Name)
		}
	}
	b.WriteString("\n")
	return nil
}

func (t *types) writeFields(b *bytes.Buffer, owner string, fields []facts.Field, indent string) error {
	for _, f := range fields {
		array := ""
		if f.Count > 0 {
			array = fmt.Sprintf("[%d]", f.Count)
		}
		if f.Kind != "" {
			fmt.Fprintf(b, "%s%s {\n", indent, f.Kind)
			if err := t.writeFields(b, owner, f.Fields, indent+"    "); err != nil {
				return err
			}
			name := f.Name + array
			if name != "" {
				name = " " + name
			}
			fmt.Fprintf(b, "%s}%s;\n", indent, name)
			continue
		}
		if f.Name == "" {
			return fmt.Errorf("%s has a field without a name or fields", owner)
		}
		fmt.Fprintf(b, "%s%s%s;\n", indent, declare(f.Type, f.Name), array)
	}
	return nil
}

// prototypes is cuda_prototypes.h: whoever defines a driver function includes it
// so that the compiler holds the definition to the driver's signature.
func (t *types) prototypes() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(comment(origin(t.set) + "\n\nPrototypes of the driver's exported functions. XM_EXPORT, defined before the\ninclude, stands before each (a visibility attribute, say)."))
	b.WriteString("#ifndef XM_GEN_CUDA_PROTOTYPES_H\n#define XM_GEN_CUDA_PROTOTYPES_H\n\n#include \"cuda_abi.h\"\n\n#ifndef XM_EXPORT\n#define XM_EXPORT\n#endif\n\n")
	for _, d := range t.set.Declarations {
		fmt.Fprintf(&b, "XM_EXPORT %s %s(%s);\n", d.Result, d.Symbol, parameters(d.Signature))
	}
	b.WriteString("\n#endif\n")
	return b.Bytes(), nil
}

func parameters(s facts.Signature) string {
	if len(s.Params) == 0 {
		return "void"
	}
	list := make([]string, 0, len(s.Params))
	for _, p := range s.Params {
		list = append(list, declare(p.Type, p.Name))
	}
	return strings.Join(list, ", ")
}

// declare puts a name to a type that is no array and no function pointer.
func declare(typ, name string) string {
	if strings.HasSuffix(typ, "*") {
		return typ + name
	}
	return typ + " " + name
}

// cInt keeps the values that do not fit an int readable for a C compiler.
func cInt(v int64) string {
	if v > 1<<31-1 {
		return fmt.Sprintf("0x%xu", v)
	}
	return fmt.Sprint(v)
}
