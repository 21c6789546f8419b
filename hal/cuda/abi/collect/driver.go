package main

import (
	"debug/elf"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"xmsched/hal/cuda/abi/internal/facts"
)

//go:embed probe/probe.c
var probeSource string

var suffix = regexp.MustCompile(`(_v\d+)?(_ptds|_ptsz)?$`)

// askDriver compiles and runs the probe. The names it asks for are the bases of
// all pointer types, every exported symbol, and every exported symbol without
// its suffixes.
func askDriver(cc compiler, set *facts.Set) error {
	if _, err := cc.run("probe.c", probeSource, "-O1", "-o", "probe", "-ldl", "-Wl,--no-as-needed"); err != nil {
		return err
	}
	library, err := findLibrary()
	if err != nil {
		return err
	}
	table, err := readSymbols(library)
	if err != nil {
		return err
	}
	names := map[string]bool{"cuNoSuchFunction": true}
	for _, p := range set.Pointers {
		names[p.Base] = true
	}
	for _, e := range table.exports {
		names[e.Symbol] = true
		names[suffix.ReplaceAllString(e.Symbol, "")] = true
	}
	if err := writeLines(cc.path("names"), sorted(names)); err != nil {
		return err
	}
	if err := writeLines(cc.path("versions"), breakpoints(set)); err != nil {
		return err
	}
	codes := map[string]bool{}
	for _, e := range set.Enumerators {
		if e.Enum == "CUresult" {
			codes[strconv.FormatInt(e.Value, 10)] = true
		}
	}
	for _, v := range []string{"-1", "12", "42", "998", "1000", "123456"} {
		codes[v] = true
	}
	if err := writeLines(cc.path("errors"), sorted(codes)); err != nil {
		return err
	}
	set.Exports = table.exports
	var out strings.Builder
	for _, kind := range []string{"early", "answer", "error", "device"} {
		text, err := runProbe(cc, kind)
		if err != nil {
			return fmt.Errorf("probe %s: %w", kind, err)
		}
		out.WriteString(text)
	}
	for i := 0; ; i++ {
		text, err := runProbe(cc, "edge:"+strconv.Itoa(i))
		out.WriteString(text)
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.ExitCode() == noMoreEdges:
			return parseProbe(out.String(), table, set)
		case errors.As(err, &exit): // the driver killed it: kept as an answer
			fmt.Fprintf(&out, "edge\tquestion %d\tended the process: %v\n", i, exit)
		case err != nil:
			return fmt.Errorf("probe edge %d: %w", i, err)
		}
	}
}

const noMoreEdges = 3 // exit code of probe.c

func runProbe(cc compiler, kind string) (string, error) {
	cmd := exec.Command(cc.path("probe"), kind, "names", "versions", "errors")
	cmd.Dir = cc.dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

// breakpoints are the cudaVersions to ask for: each one at which a function
// changed, the one before it, and some far away.
func breakpoints(set *facts.Set) []string {
	seen := map[int]bool{0: true, 1: true, 1000: true, 13010: true, 13020: true, 14000: true, 99999: true}
	for _, p := range set.Pointers {
		seen[p.Version] = true
		seen[p.Version-1] = true
	}
	for major := 2; major <= 14; major++ {
		for minor := range 10 {
			seen[major*1000+minor*10] = true
		}
	}
	var list []int
	for v := range seen {
		list = append(list, v)
	}
	sort.Ints(list)
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, strconv.Itoa(v))
	}
	return out
}

// findLibrary is where the loader finds libcuda.so.1: asked of a tiny program,
// since this one is static.
func findLibrary() (string, error) {
	for line := range strings.Lines(output("ldconfig", "-p")) {
		if strings.Contains(line, "libcuda.so.1 ") && strings.Contains(line, "x86-64") {
			if _, path, ok := strings.Cut(line, "=> "); ok {
				return filepath.EvalSymlinks(strings.TrimSpace(path))
			}
		}
	}
	for dir := range strings.SplitSeq(os.Getenv("LD_LIBRARY_PATH")+":/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu", ":") {
		if p, err := filepath.EvalSymlinks(filepath.Join(dir, "libcuda.so.1")); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("libcuda.so.1 not found")
}

// symbols are the driver functions that a library exports.
type symbols struct {
	exports []facts.Export
	at      map[uint64][]string // address to names, in name order
}

func readSymbols(path string) (*symbols, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	all, err := file.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := &symbols{at: map[uint64][]string{}}
	for _, s := range all {
		if s.Section == elf.SHN_UNDEF || !isFunction(s) || !strings.HasPrefix(s.Name, "cu") {
			continue
		}
		t.at[s.Value] = append(t.at[s.Value], s.Name)
	}
	for _, names := range t.at {
		sort.Strings(names)
		for i, n := range names {
			e := facts.Export{Symbol: n}
			if i > 0 {
				e.Entry = names[0]
			}
			t.exports = append(t.exports, e)
		}
	}
	sort.Slice(t.exports, func(i, j int) bool { return t.exports[i].Symbol < t.exports[j].Symbol })
	return t, nil
}

func isFunction(s elf.Symbol) bool {
	t := elf.ST_TYPE(s.Info)
	return t == elf.STT_FUNC || t == elf.STT_GNU_IFUNC
}

// name finds the symbol at an address; of several the one that shares most with
// the name that was asked for. An address that has no symbol is given as "@hex".
func (t *symbols) name(address uint64, asked string) string {
	if address == 0 {
		return ""
	}
	names := t.at[address]
	if len(names) == 0 {
		return fmt.Sprintf("@%x", address)
	}
	best := names[0]
	for _, n := range names {
		if suffix.ReplaceAllString(n, "") == asked {
			best = n
			break
		}
	}
	return best
}

func writeLines(path string, lines []string) error {
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for n := range set {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
