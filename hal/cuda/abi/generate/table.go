package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"

	"xmsched/hal/cuda/abi/internal/facts"
)

// table maps (name, cudaVersion, flags) to an exported symbol, as the driver's
// cuGetProcAddress does.
type table struct {
	set     *facts.Set
	symbols []string // exported driver functions, sorted
	index   map[string]int
	names   []nameRow // sorted by name
	steps   []stepRow
}

// nameRow is one name that cuGetProcAddress knows. Its steps lie in table.steps:
// Plain of them from First on for the default and legacy flags, then PerThread
// for the per-thread flag; PerThread 0 means the same as plain.
type nameRow struct {
	name                    string
	first, plain, perThread int
}

type stepRow struct{ since, symbol int }

var driverFunction = regexp.MustCompile(`^cu[A-Z]`) // leaves out the debugger's cudbg…

func newTable(set *facts.Set) (*table, error) {
	t := &table{set: set, index: map[string]int{}}
	for _, e := range set.Exports {
		if driverFunction.MatchString(e.Symbol) {
			t.index[e.Symbol] = len(t.symbols)
			t.symbols = append(t.symbols, e.Symbol)
		}
	}
	if !slices.IsSorted(t.symbols) {
		return nil, fmt.Errorf("exports are not sorted")
	}
	for _, a := range set.Answers {
		if n := len(t.names); n == 0 || t.names[n-1].name != a.Name {
			if n > 0 && t.names[n-1].name > a.Name {
				return nil, fmt.Errorf("answers are not sorted at %s", a.Name)
			}
			t.names = append(t.names, nameRow{name: a.Name, first: len(t.steps)})
		}
		row := &t.names[len(t.names)-1]
		switch {
		case slices.Equal(a.Flags, []uint64{0, 1, 2}), slices.Equal(a.Flags, []uint64{0, 1}):
			row.plain = len(a.Steps)
		case slices.Equal(a.Flags, []uint64{2}):
			row.perThread = len(a.Steps)
		default:
			return nil, fmt.Errorf("%s: flags %v are no group that the table knows", a.Name, a.Flags)
		}
		for _, s := range a.Steps {
			symbol, ok := t.index[s.Symbol]
			if !ok {
				return nil, fmt.Errorf("%s: answer %s is not exported", a.Name, s.Symbol)
			}
			t.steps = append(t.steps, stepRow{s.From, symbol})
		}
	}
	return t, nil
}

// header is driver_table.h, and proc_table.h for the simulator. It holds no
// pointer, so that a shared library pays no relocation for it.
func (t *table) header() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(comment(origin(t.set) + "\n\nWhich exported function cuGetProcAddress means by (name, cudaVersion, flags),\nand which names are the driver's. Included by one C file, it has no pointers\nand needs no relocations."))
	b.WriteString(`#ifndef XM_GEN_DRIVER_TABLE_H
#define XM_GEN_DRIVER_TABLE_H

#include <stdint.h>
#include <string.h>

`)
	fmt.Fprintf(&b, "#define XM_DRIVER_VERSION %d /* of the driver that answered */\n\n", t.set.Origin.DriverVersion)

	b.WriteString("/* The exported functions, by their exact names, sorted. */\nenum xm_symbol {\n")
	for _, s := range t.symbols {
		fmt.Fprintf(&b, "    XM_SYM_%s,\n", s)
	}
	b.WriteString("    XM_SYM_COUNT\n};\n\n")

	symbolOffsets := pool(&b, "xm_symbol_pool", t.symbols)
	fmt.Fprintf(&b, "static const uint16_t xm_symbol_offset[XM_SYM_COUNT] = {\n")
	for i, off := range symbolOffsets {
		fmt.Fprintf(&b, "    %d,%s", off, lineEnd(i, len(symbolOffsets), 12))
	}
	b.WriteString("};\n\n")

	names := make([]string, 0, len(t.names))
	for _, n := range t.names {
		names = append(names, n.name)
	}
	nameOffsets := pool(&b, "xm_name_pool", names)
	b.WriteString(`/* A name that cuGetProcAddress knows: steps[first .. first+plain) answer the default and
 * legacy flags, the per_thread steps after them the per-thread flag; none: the same. */
struct xm_name {
    uint16_t name; /* offset into xm_name_pool */
    uint16_t first;
    uint8_t plain;
    uint8_t per_thread;
};

struct xm_step {
    uint16_t since; /* cudaVersion from which it is meant */
    uint16_t symbol;
};

`)
	fmt.Fprintf(&b, "#define XM_NAME_COUNT %d\n", len(t.names))
	b.WriteString("static const struct xm_name xm_names[XM_NAME_COUNT] = {\n")
	for i, n := range t.names {
		fmt.Fprintf(&b, "    {%d, %d, %d, %d}, /* %s */\n", nameOffsets[i], n.first, n.plain, n.perThread, n.name)
	}
	b.WriteString("};\n\n")
	fmt.Fprintf(&b, "static const struct xm_step xm_steps[%d] = {\n", len(t.steps))
	for _, s := range t.steps {
		fmt.Fprintf(&b, "    {%d, XM_SYM_%s},\n", s.since, t.symbols[s.symbol])
	}
	b.WriteString("};\n\n")
	b.WriteString(lookups)
	b.WriteString("#endif\n")
	return b.Bytes(), nil
}

// pool writes strings one after the other, each ended by NUL, and returns their
// offsets.
func pool(b *bytes.Buffer, name string, list []string) []int {
	fmt.Fprintf(b, "static const char %s[] =\n", name)
	offsets := make([]int, 0, len(list))
	at := 0
	for _, s := range list {
		offsets = append(offsets, at)
		at += len(s) + 1
		fmt.Fprintf(b, "    \"%s\\0\"\n", s)
	}
	b.WriteString("    ;\n\n")
	return offsets
}

func lineEnd(i, n, width int) string {
	if i == n-1 || i%width == width-1 {
		return "\n"
	}
	return ""
}

const lookups = `enum xm_lookup { XM_FOUND = 0, XM_NOT_FOUND = 1, XM_TOO_OLD = 2 }; /* as CUdriverProcAddressQueryResult */

__attribute__((unused)) static inline const char *xm_symbol_name(int symbol)
{
    return xm_symbol_pool + xm_symbol_offset[symbol];
}

/* The exported function with exactly this name, or -1. */
__attribute__((unused)) static inline int xm_symbol_find(const char *name)
{
    int low = 0, high = XM_SYM_COUNT - 1;

    while (low <= high) {
        int mid = (low + high) / 2;
        int order = strcmp(name, xm_symbol_name(mid));
        if (order == 0)
            return mid;
        if (order < 0)
            high = mid - 1;
        else
            low = mid + 1;
    }
    return -1;
}

/* What cuGetProcAddress(name, version, flags) means; flags as the caller gave them (bit 1:
 * per-thread stream). Any version from the last step's on gives the last step: refusing a
 * version newer than the driver is the driver's business. *symbol is set when found. */
__attribute__((unused)) static inline enum xm_lookup xm_resolve(const char *name, int version, uint64_t flags,
                                                                int *symbol)
{
    int low = 0, high = XM_NAME_COUNT - 1;

    while (low <= high) {
        int mid = (low + high) / 2;
        const struct xm_name *n = &xm_names[mid];
        int order = strcmp(name, xm_name_pool + n->name);
        if (order == 0) {
            int per_thread = (flags & 2) && n->per_thread;
            const struct xm_step *s = xm_steps + n->first + (per_thread ? n->plain : 0);
            /* a negative version counts as the newest, as in the driver */
            int i = per_thread ? n->per_thread : n->plain;
            while (--i >= 0)
                if ((unsigned)version >= s[i].since) {
                    *symbol = s[i].symbol;
                    return XM_FOUND;
                }
            return XM_TOO_OLD;
        }
        if (order < 0)
            high = mid - 1;
        else
            low = mid + 1;
    }
    return XM_NOT_FOUND;
}

`
