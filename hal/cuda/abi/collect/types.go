package main

import (
	"debug/dwarf"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"xmsched/hal/cuda/abi/internal/facts"
)

var pointerName = regexp.MustCompile(`^PFN_(cu\w+?)_v(\d+)(?:_(ptds|ptsz))?$`)

// readTypes fills in everything that the debug information says: functions,
// enums, structs and type names of the driver interface.
func readTypes(info *dwarf.Data, names map[string][]string, set *facts.Set) error {
	t := typeReader{names: names, set: set, done: map[string]bool{}}
	r := info.Reader()
	for {
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		switch e.Tag {
		case dwarf.TagTypedef:
			typ, err := info.Type(e.Offset)
			if err != nil {
				return fmt.Errorf("typedef %s: %w", name, err)
			}
			t.typedef(name, typ.(*dwarf.TypedefType))
		case dwarf.TagVariable:
			symbol, ok := strings.CutPrefix(name, "decl_")
			off, has := e.Val(dwarf.AttrType).(dwarf.Offset)
			if !ok || !has {
				continue
			}
			typ, err := info.Type(off)
			if err != nil {
				return fmt.Errorf("declaration %s: %w", symbol, err)
			}
			t.declaration(symbol, typ)
		}
	}
	t.sort()
	return nil
}

type typeReader struct {
	names map[string][]string
	set   *facts.Set
	done  map[string]bool // kind and name, so that nothing comes twice
}

func (t *typeReader) first(kind, name string) bool {
	key := kind + " " + name
	seen := t.done[key]
	t.done[key] = true
	return !seen
}

func (t *typeReader) typedef(name string, typ *dwarf.TypedefType) {
	if m := pointerName.FindStringSubmatch(name); m != nil && t.first("pointer", name) {
		version, _ := strconv.Atoi(m[2])
		if sig, ok := t.signature(name, typ.Type); ok {
			t.set.Pointers = append(t.set.Pointers, facts.Pointer{Base: m[1], Version: version, Variant: m[3], Signature: sig})
		}
		return
	}
	if !strings.HasPrefix(name, "CU") && !strings.HasPrefix(name, "cuuint") {
		return
	}
	if !t.first("typedef", name) {
		return
	}
	t.set.Typedefs = append(t.set.Typedefs, facts.Typedef{Name: name, Type: typeName(typ.Type)})
	switch u := typ.Type.(type) {
	case *dwarf.StructType:
		if !u.Incomplete {
			t.set.Structs = append(t.set.Structs, facts.Struct{Name: name, Kind: u.Kind, Size: u.ByteSize, Fields: fields(u)})
		}
	case *dwarf.EnumType:
		t.enum(name, u)
	}
}

func (t *typeReader) enum(name string, e *dwarf.EnumType) {
	key := e.EnumName
	if key == "" {
		key = name
	}
	if !t.first("enum", key) {
		return
	}
	for _, v := range e.Val {
		t.set.Enumerators = append(t.set.Enumerators, facts.Enumerator{Enum: name, Name: v.Name, Value: v.Val})
	}
}

func (t *typeReader) declaration(symbol string, typ dwarf.Type) {
	if !t.first("declaration", symbol) {
		return
	}
	if sig, ok := t.signature(symbol, typ); ok {
		t.set.Declarations = append(t.set.Declarations, facts.Declaration{Symbol: symbol, Signature: sig})
	}
}

func (t *typeReader) signature(name string, typ dwarf.Type) (facts.Signature, bool) {
	p, ok := typ.(*dwarf.PtrType)
	if !ok {
		return facts.Signature{}, false
	}
	f, ok := p.Type.(*dwarf.FuncType)
	if !ok {
		return facts.Signature{}, false
	}
	sig := facts.Signature{Result: typeName(f.ReturnType), Params: []facts.Param{}}
	names := t.names[name]
	for i, p := range f.ParamType {
		param := facts.Param{Type: typeName(p)}
		if len(names) == len(f.ParamType) {
			param.Name = names[i]
		}
		sig.Params = append(sig.Params, param)
	}
	return sig, true
}

func fields(s *dwarf.StructType) []facts.Field {
	out := make([]facts.Field, 0, len(s.Field))
	for _, f := range s.Field {
		field := facts.Field{Name: f.Name, Offset: f.ByteOffset, Size: f.Type.Size()}
		typ := f.Type
		if a, ok := typ.(*dwarf.ArrayType); ok {
			field.Count, typ = a.Count, a.Type
		}
		// A struct that is no type name's is spelled out where it stands.
		if inner, ok := typ.(*dwarf.StructType); ok {
			field.Kind, field.Fields = inner.Kind, fields(inner)
		} else {
			field.Type = typeName(typ)
		}
		out = append(out, field)
	}
	return out
}

// typeName spells a type in C, keeping type names as the header has them.
func typeName(t dwarf.Type) string {
	switch t := t.(type) {
	case nil:
		return "void"
	case *dwarf.VoidType:
		return "void"
	case *dwarf.TypedefType:
		return t.Name
	case *dwarf.PtrType:
		if f, ok := t.Type.(*dwarf.FuncType); ok {
			return functionName(f)
		}
		n := typeName(t.Type)
		if strings.HasSuffix(n, "*") {
			return n + "*"
		}
		return n + " *"
	case *dwarf.QualType:
		n := typeName(t.Type)
		if strings.HasSuffix(n, "*") {
			return n + t.Qual
		}
		return t.Qual + " " + n
	case *dwarf.StructType:
		return t.Kind + " " + t.StructName
	case *dwarf.EnumType:
		return "enum " + t.EnumName
	case *dwarf.ArrayType:
		return fmt.Sprintf("%s[%d]", typeName(t.Type), t.Count)
	case *dwarf.FuncType:
		return functionName(t)
	default:
		return t.Common().Name
	}
}

func functionName(f *dwarf.FuncType) string {
	params := make([]string, 0, len(f.ParamType))
	for _, p := range f.ParamType {
		params = append(params, typeName(p))
	}
	return typeName(f.ReturnType) + " (*)(" + strings.Join(params, ", ") + ")"
}

func (t *typeReader) sort() {
	s := t.set
	sort.Slice(s.Pointers, func(i, j int) bool {
		a, b := s.Pointers[i], s.Pointers[j]
		if a.Base != b.Base {
			return a.Base < b.Base
		}
		if a.Version != b.Version {
			return a.Version < b.Version
		}
		return a.Variant < b.Variant
	})
	sort.Slice(s.Declarations, func(i, j int) bool { return s.Declarations[i].Symbol < s.Declarations[j].Symbol })
	sort.Slice(s.Typedefs, func(i, j int) bool { return s.Typedefs[i].Name < s.Typedefs[j].Name })
	sort.Slice(s.Structs, func(i, j int) bool { return s.Structs[i].Name < s.Structs[j].Name })
	sort.SliceStable(s.Enumerators, func(i, j int) bool {
		a, b := s.Enumerators[i], s.Enumerators[j]
		if a.Enum != b.Enum {
			return a.Enum < b.Enum
		}
		return uint64(a.Value) < uint64(b.Value)
	})
}
