package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"xmsched/hal/cuda/abi/internal/facts"
)

const root = "../../../.."

func loadFacts(t *testing.T) *facts.Set {
	t.Helper()
	set, err := facts.Load(os.DirFS(filepath.Join(root, factsDir)))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// compile builds C sources into dir/name and returns the path. The compiler is
// part of what the project needs to build, so its absence is a failure.
func compile(t *testing.T, name string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	preload, err := filepath.Abs(filepath.Join(root, preloadDir))
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I", preload, "-o", out}, args...)
	if text, err := exec.Command("gcc", all...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(all, " "), err, text)
	}
	return out
}

func writeTemp(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommittedFilesAreWhatTheFactsGive(t *testing.T) {
	out, err := outputs(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range out {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run `go generate ./hal/cuda/abi`", name)
		}
	}
}

func TestImplementedNamesMustBeTheDrivers(t *testing.T) {
	set := loadFacts(t)
	tab, err := newTable(set)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stubsSource(set, tab, map[string]bool{"cuNoSuchFunction": true}); err == nil {
		t.Error("a name that the driver does not export was taken")
	}
	src, err := stubsSource(set, tab, map[string]bool{"cuInit": true})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(src, []byte("OURS(cuInit)\n")) || bytes.Contains(src, []byte("STUB(cuInit)\n")) {
		t.Error("an implemented function still has a stub")
	}
	if !bytes.Contains(src, []byte("STUB(cuMemAlloc_v2)\n")) {
		t.Error("a function that is not implemented has no stub")
	}
}

func TestImplementedListSkipsCommentsAndBlanks(t *testing.T) {
	got, err := readImplemented(writeTemp(t, "list", "# all\ncuInit\n\n  cuMemAlloc_v2 # plain\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !got["cuInit"] || !got["cuMemAlloc_v2"] {
		t.Errorf("read %v", got)
	}
	if got, err := readImplemented(filepath.Join(t.TempDir(), "absent")); err != nil || len(got) != 0 {
		t.Errorf("absent list: %v, %v; want none", got, err)
	}
}

// A pointer type of cudaTypedefs.h and the exported function that the driver
// returns for its (base, version, variant) are one ABI.
func TestVersionsOfTypedefsMatchTheAnsweredFunctions(t *testing.T) {
	set := loadFacts(t)
	typ, err := newTypes(set)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]facts.Signature{}
	for _, d := range set.Declarations {
		declared[d.Symbol] = d.Signature
	}
	for _, p := range set.Pointers {
		flags := uint64(0)
		if p.Variant != "" {
			flags = 2
		}
		symbol, known := recorded(set, p.Base, p.Version, flags)
		if !known || symbol == "" {
			t.Errorf("%s version %d %s: the driver does not answer", p.Base, p.Version, p.Variant)
			continue
		}
		if want, got := typ.shape(p.Signature), typ.shape(declared[symbol]); want != got {
			t.Errorf("%s version %d %s is %s; %s is %s", p.Base, p.Version, p.Variant, want, symbol, got)
		}
		if p.Variant != "" && !strings.HasSuffix(symbol, "_"+p.Variant) {
			t.Errorf("%s version %d %s: the driver answers %s", p.Base, p.Version, p.Variant, symbol)
		}
	}
}

// shape is a signature with all aliases followed, also behind pointers.
func (t *types) shape(s facts.Signature) string {
	list := []string{t.resolve(s.Result)}
	for _, p := range s.Params {
		list = append(list, identifier.ReplaceAllStringFunc(p.Type, t.resolve))
	}
	return strings.Join(list, ", ")
}

// recorded is the facts' own answer; known is false for a name that the driver
// does not know, symbol empty for a version that is too old.
func recorded(set *facts.Set, name string, version int, flags uint64) (symbol string, known bool) {
	for _, a := range set.Answers {
		if a.Name != name {
			continue
		}
		for _, f := range a.Flags {
			if f != flags {
				continue
			}
			known = true
			for _, s := range a.Steps {
				if s.From <= version {
					symbol = s.Symbol
				}
			}
		}
	}
	return symbol, known
}
