package main

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	"xmsched/hal/cuda/abi/internal/facts"
)

// types answers questions about the driver's types, and holds what of them is
// written out.
type types struct {
	set      *facts.Set
	typedefs map[string]string
	structs  map[string]facts.Struct // by the name that is no alias
	enums    map[string][]facts.Enumerator
	chosen   []facts.Struct // in an order in which C can declare them
}

func newTypes(set *facts.Set) (*types, error) {
	t := &types{
		set:      set,
		typedefs: map[string]string{},
		structs:  map[string]facts.Struct{},
		enums:    map[string][]facts.Enumerator{},
	}
	for _, d := range set.Typedefs {
		t.typedefs[d.Name] = d.Type
	}
	for _, s := range set.Structs {
		t.structs[s.Name] = s
	}
	for _, e := range set.Enumerators {
		t.enums[e.Enum] = append(t.enums[e.Enum], e)
	}
	for _, e := range enumTypes {
		if len(t.enums[e.c]) == 0 {
			return nil, fmt.Errorf("no enum %s in the facts", e.c)
		}
	}
	done := map[string]bool{}
	for _, name := range structTypes {
		if err := t.choose(name, done); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// choose adds a struct after those that it holds by value.
func (t *types) choose(name string, done map[string]bool) error {
	if done[name] {
		return nil
	}
	done[name] = true
	s, ok := t.structs[name]
	if !ok {
		return fmt.Errorf("no struct %s in the facts", name)
	}
	var inside func([]facts.Field) error
	inside = func(fields []facts.Field) error {
		for _, f := range fields {
			if err := inside(f.Fields); err != nil {
				return err
			}
			if strings.ContainsAny(f.Type, "[(") {
				return fmt.Errorf("%s.%s: type %q is not written out", name, f.Name, f.Type)
			}
			if base := t.resolve(f.Type); t.isStruct(base) {
				if err := t.choose(base, done); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := inside(s.Fields); err != nil {
		return err
	}
	t.chosen = append(t.chosen, s)
	return nil
}

// resolve follows aliases to a struct, enum, or plain type's own name.
func (t *types) resolve(name string) string {
	for {
		next, ok := t.typedefs[name]
		if !ok || strings.HasPrefix(next, "struct ") || strings.HasPrefix(next, "union ") || strings.HasPrefix(next, "enum ") {
			return name
		}
		name = next
	}
}

func (t *types) isStruct(name string) bool {
	_, ok := t.structs[name]
	return ok
}

func (t *types) isEnum(name string) bool {
	return strings.HasPrefix(t.typedefs[name], "enum ")
}

// enumBase is the integer type gcc gives an enum.
func (t *types) enumBase(name string) string {
	for _, e := range t.enums[name] {
		if e.Value < 0 {
			return "int"
		}
	}
	return "unsigned int"
}

var identifier = regexp.MustCompile(`[A-Za-z_]\w*`)

// orderedTypedefs lists type names so that each stands after those it uses.
// Names that only a pointer needs count too: they come as forward declarations.
func (t *types) orderedTypedefs() []string {
	var names []string
	for n := range t.typedefs {
		names = append(names, n)
	}
	sort.Strings(names)
	var out []string
	done := map[string]bool{}
	var visit func(string)
	visit = func(n string) {
		if done[n] {
			return
		}
		done[n] = true
		for _, used := range identifier.FindAllString(t.typedefs[n], -1) {
			if _, ok := t.typedefs[used]; ok && used != n {
				visit(used)
			}
		}
		out = append(out, n)
	}
	for _, n := range names {
		visit(n)
	}
	return slices.Clip(out)
}

// macro finds a macro's value.
func (t *types) macro(name string) (int64, error) {
	for _, m := range t.set.Macros {
		if m.Name == name {
			return m.Value, nil
		}
	}
	return 0, fmt.Errorf("no macro %s in the facts", name)
}
