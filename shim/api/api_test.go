package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestInterface(t *testing.T) {
	if out := run(t, nil, compile(t, "testdata/interface.c")); out != "ok" {
		t.Errorf("the program says %q", out)
	}
}

// What the header declares is what the library gives, and nothing else.
func TestExportsAreTheHeaders(t *testing.T) {
	header, err := os.ReadFile("../include/xmsched.h")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, m := range regexp.MustCompile(`(?m)^(?:XResult|const char \*)\s?(\w+)\(`).FindAllStringSubmatch(string(header), -1) {
		declared = append(declared, m[1])
	}
	out, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(library(t), "libxmsched_api.so")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var exported []string
	for line := range strings.Lines(string(out)) {
		exported = append(exported, strings.Fields(line)[2])
	}
	slices.Sort(declared)
	slices.Sort(exported)
	if len(declared) < 40 || !slices.Equal(declared, exported) {
		t.Errorf("declared %v\nexported %v", declared, exported)
	}
}

// The header is C++'s, too.
func TestHeaderInCPlusPlus(t *testing.T) {
	source := filepath.Join(t.TempDir(), "header.cc")
	text := "#include \"xmsched.h\"\nint main() { return XResultName(kXSchedSuccess) == nullptr; }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cxx, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no g++ here")
	}
	out, err := exec.Command(cxx, "-std=c++11", "-Wall", "-Wextra", "-Werror", "-I../include", "-fsyntax-only", source).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The figures are for the reader; what is held is that nothing has gone wrong
// by an order of magnitude.
func TestCostOfSubmission(t *testing.T) {
	out := run(t, nil, compile(t, "testdata/submit.c"))
	t.Logf("ns a submission:\n%s", out)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) != 2 || len(f[1]) > 4 {
			t.Errorf("%q: more than 10 us", line)
		}
	}
}
