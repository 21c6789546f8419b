package main

import (
	"debug/elf"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"xmsched/hal/cuda/abi/internal/facts"
)

// __CUDA_API_VERSION_INTERNAL makes cuda.h declare every version of every
// function under its exported name.
const preamble = `
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#if __has_include(<cudaProfiler.h>)
#include <cudaProfiler.h>
#endif
#include <cudaTypedefs.h>
#if __has_include(<cudaProfilerTypedefs.h>)
#include <cudaProfilerTypedefs.h>
#endif
`

func readHeaders(cc compiler, set *facts.Set) error {
	text, err := cc.run("all.c", preamble, "-E", "-P")
	if err != nil {
		return err
	}
	macros, err := cc.run("all.c", preamble, "-E", "-dM")
	if err != nil {
		return err
	}
	names := parameterNames(string(text))

	// A variable of each declared function's type brings the declaration into
	// the debug information.
	var src strings.Builder
	src.WriteString(preamble)
	for _, d := range declared(string(text)) {
		fmt.Fprintf(&src, "extern __typeof__(%s) *decl_%s; __typeof__(%s) *decl_%s;\n", d, d, d, d)
	}
	if _, err := cc.run("types.c", src.String(), "-g", "-w", "-fno-eliminate-unused-debug-types", "-shared", "-fPIC",
		"-o", "types.so"); err != nil {
		return err
	}
	file, err := elf.Open(cc.path("types.so"))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.DWARF()
	if err != nil {
		return err
	}
	if err := readTypes(info, names, set); err != nil {
		return err
	}
	if err := readAlignments(cc, set); err != nil {
		return err
	}
	return readMacros(cc, string(macros), set)
}

var (
	attribute   = regexp.MustCompile(`__attribute__\s*\(\(.*?\)\)\)?`)
	pointerType = regexp.MustCompile(`\(\s*\*\s*(PFN_\w+)\s*\)\s*\((.*)\)$`)
	declaration = regexp.MustCompile(`\b(cu[A-Z]\w*)\s*\((.*)\)$`)
)

// statements cuts preprocessed C at the semicolons outside braces.
func statements(text string) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			depth--
		case ';':
			if depth == 0 {
				s := attribute.ReplaceAllString(text[start:i], " ")
				out = append(out, strings.Join(strings.Fields(s), " "))
				start = i + 1
			}
		}
	}
	return out
}

// parameterNames maps function and pointer-type names to their parameters'.
func parameterNames(text string) map[string][]string {
	out := map[string][]string{}
	for _, s := range statements(text) {
		m := pointerType.FindStringSubmatch(s)
		if m == nil && !strings.HasPrefix(s, "typedef") {
			m = declaration.FindStringSubmatch(s)
		}
		if m != nil {
			out[m[1]] = splitNames(m[2])
		}
	}
	return out
}

// splitNames gives the last identifier of each parameter at bracket depth 0.
func splitNames(params string) []string {
	var out []string
	depth, start := 0, 0
	add := func(p string) {
		p = strings.TrimSpace(p)
		if i := strings.IndexByte(p, '['); i >= 0 {
			p = strings.TrimSpace(p[:i])
		}
		i := len(p)
		for i > 0 && (p[i-1] == '_' || p[i-1] >= '0' && p[i-1] <= '9' || p[i-1]|0x20 >= 'a' && p[i-1]|0x20 <= 'z') {
			i--
		}
		if i == 0 { // only a type
			out = append(out, "")
			return
		}
		out = append(out, p[i:])
	}
	for i := 0; i < len(params); i++ {
		switch params[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				add(params[start:i])
				start = i + 1
			}
		}
	}
	add(params[start:])
	return out
}

// declared lists the driver functions that the preprocessed text declares.
func declared(text string) []string {
	seen := map[string]bool{}
	for _, s := range statements(text) {
		if strings.HasPrefix(s, "typedef") || strings.Contains(s, "{") {
			continue
		}
		if m := declaration.FindStringSubmatch(s); m != nil && strings.HasPrefix(s, "CUresult") {
			seen[m[1]] = true
		}
	}
	out := make([]string, 0, len(seen))
	for n := range seen {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// readAlignments asks the compiler for what debug information leaves out.
func readAlignments(cc compiler, set *facts.Set) error {
	var src strings.Builder
	src.WriteString(preamble + "#include <stdio.h>\nint main(void) {\n")
	for i, s := range set.Structs {
		fmt.Fprintf(&src, "printf(\"%d %%zu %%zu\\n\", sizeof(%s), _Alignof(%s));\n", i, s.Name, s.Name)
	}
	src.WriteString("return 0; }\n")
	if _, err := cc.run("align.c", src.String(), "-w", "-o", "align"); err != nil {
		return err
	}
	for line := range strings.Lines(output(cc.path("align"))) {
		var i int
		var size, align int64
		if _, err := fmt.Sscan(line, &i, &size, &align); err != nil {
			return fmt.Errorf("alignment line %q: %w", line, err)
		}
		if size != set.Structs[i].Size {
			return fmt.Errorf("%s: compiler says size %d, debug information %d", set.Structs[i].Name, size, set.Structs[i].Size)
		}
		set.Structs[i].Align = align
	}
	return nil
}

var macroLine = regexp.MustCompile(`^#define ((?:CU|CUDA)_\w+)\s+(\S.*)$`)

// readMacros evaluates every object-like CU_… and CUDA_… macro that the compiler
// accepts as an integer. Those that are no integer fail one by one and are left
// out.
func readMacros(cc compiler, text string, set *facts.Set) error {
	var names []string
	for line := range strings.Lines(text) {
		m := macroLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || strings.HasPrefix(m[2], `"`) {
			continue
		}
		names = append(names, m[1])
	}
	sort.Strings(names)
	var ok []string
	for _, n := range names {
		src := preamble + fmt.Sprintf("unsigned long long f(void) { return (unsigned long long)(%s); }\n", n)
		if _, err := cc.run("macro.c", src, "-w", "-fsyntax-only"); err == nil {
			ok = append(ok, n)
		}
	}
	var src strings.Builder
	src.WriteString(preamble + "#include <stdio.h>\nint main(void) {\n")
	for _, n := range ok {
		fmt.Fprintf(&src, "printf(\"%s %%lld\\n\", (long long)(%s));\n", n, n)
	}
	src.WriteString("return 0; }\n")
	if _, err := cc.run("macros.c", src.String(), "-w", "-o", "macros"); err != nil {
		return err
	}
	for line := range strings.Lines(output(cc.path("macros"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("macro %s: %w", name, err)
		}
		if name == "CUDA_VERSION" {
			set.Origin.Header = int(v)
		}
		set.Macros = append(set.Macros, facts.Macro{Name: name, Value: v})
	}
	if set.Origin.Header == 0 {
		return fmt.Errorf("no CUDA_VERSION in %s", os.ExpandEnv(cc.include))
	}
	return nil
}
