package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"xmsched/hal/cuda/abi/internal/facts"
)

// askTable reads "name version flags" lines and answers "status symbol" lines by
// the generated table.
const askTable = `
#include "driver_table.h"
#include <stdio.h>

int main(void)
{
    char name[256];
    int version;
    unsigned long long flags;

    while (scanf("%255s %d %llu", name, &version, &flags) == 3) {
        int symbol = -1;
        int status = (int)xm_resolve(name, version, flags, &symbol);
        printf("%d %s\n", status, symbol < 0 ? "-" : xm_symbol_name(symbol));
    }
    return 0;
}
`

// questions are all the names, with every version at which anything changes and
// the one before it, and all flags.
func questions(set *facts.Set) []string {
	versions := map[string][]int{}
	for _, a := range set.Answers {
		for _, s := range a.Steps {
			versions[a.Name] = append(versions[a.Name], s.From-1, s.From)
		}
	}
	for _, n := range set.Unknown {
		versions[n] = []int{12000}
	}
	var out []string
	for name, list := range versions {
		for _, v := range append(list, 0, set.Origin.DriverVersion) {
			for flags := range 3 {
				out = append(out, fmt.Sprintf("%s %d %d", name, v, flags))
			}
		}
	}
	return out
}

func wantAnswer(set *facts.Set, question string) string {
	var name string
	var version int
	var flags uint64
	if _, err := fmt.Sscan(question, &name, &version, &flags); err != nil {
		panic(err)
	}
	symbol, known := recorded(set, name, version, flags)
	switch {
	case !known:
		return "1 -"
	case symbol == "":
		return "2 -"
	default:
		return "0 " + symbol
	}
}

func checkAnswers(t *testing.T, set *facts.Set, asked []string, got string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != len(asked) {
		t.Fatalf("%d answers to %d questions", len(lines), len(asked))
	}
	wrong := 0
	for i, q := range asked {
		if want := wantAnswer(set, q); lines[i] != want {
			if wrong++; wrong <= 10 {
				t.Errorf("%s: %s, the driver said %s", q, lines[i], want)
			}
		}
	}
	if len(asked) < 5000 {
		t.Errorf("only %d questions", len(asked))
	}
}

func TestCase03TableAnswersAsTheRecordedDriver(t *testing.T) {
	set := loadFacts(t)
	program := compile(t, "ask", writeTemp(t, "ask.c", askTable))
	asked := questions(set)
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(strings.Join(asked, "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	checkAnswers(t, set, asked, string(out))
}

// askSim does the same through the simulator's function; the pointer must be
// the library's own symbol, even with another library of the same names in
// front.
const askSim = `
#define _GNU_SOURCE
#include "stubs.h"
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    char name[256];
    int version;
    unsigned long long flags;

    while (scanf("%255s %d %llu", name, &version, &flags) == 3) {
        void *f = NULL;
        int status = -1;
        Dl_info info = {0};
        int result = sim_proc_address(name, &f, version, flags, 13000, &status);
        if (result) {
            printf("result %d\n", result);
            continue;
        }
        if (f && (!dladdr(f, &info) || !info.dli_sname || !__builtin_strstr(info.dli_fname, "libsim")))
            printf("%d %s of %s\n", status, info.dli_sname ? info.dli_sname : "?", info.dli_fname);
        else
            printf("%d %s\n", status, f ? info.dli_sname : "-");
    }
    return 0;
}
`

const simHarness = "int sim_unsupported(const char *n);\nint sim_unsupported(const char *n) { return n ? 801 : 0; }\n"

func TestCase03SimulatorAnswersAsTheRecordedDriver(t *testing.T) {
	set := loadFacts(t)
	program, front := buildSim(t)
	asked := questions(set)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+front)
	cmd.Stdin = strings.NewReader(strings.Join(asked, "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	checkAnswers(t, set, asked, string(out))

	// What the driver refuses before it looks at the name (facts/probes.json).
	cmd = exec.Command(program)
	refused := []string{"cuInit 99999 0", "cuInit 13010 0", "cuMemcpy 12000 4", "cuMemcpy 12000 255", "cuMemcpy 12000 4294967296"}
	cmd.Stdin = strings.NewReader(strings.Join(refused, "\n"))
	out, err = cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != "result 1" {
			t.Errorf("%s: %s, the driver said CUDA_ERROR_INVALID_VALUE", refused[i], line)
		}
	}
}

// buildSim links the stubs (and placeholders for what the simulator implements)
// into a library, a program that asks it, and a library with a function of the
// same name to be preloaded.
func buildSim(t *testing.T) (program, front string) {
	t.Helper()
	gen, err := filepath.Abs(filepath.Join(root, simDir))
	if err != nil {
		t.Fatal(err)
	}
	mine, err := readImplemented(filepath.Join(root, implemented))
	if err != nil {
		t.Fatal(err)
	}
	rest := simHarness
	for name := range mine {
		rest += fmt.Sprintf("int %s(void);\nint %s(void) { return 1; }\n", name, name)
	}
	lib := compile(t, "libsim.so", "-shared", "-fPIC", "-I", gen, filepath.Join(gen, "stubs.c"), writeTemp(t, "rest.c", rest))
	front = compile(t, "front.so", "-shared", "-fPIC", writeTemp(t, "front.c", "int cuInit(void);\nint cuInit(void) { return 7; }\n"))
	program = compile(t, "ask", "-I", gen, writeTemp(t, "ask.c", askSim), lib, "-Wl,-rpath,"+filepath.Dir(lib))
	return program, front
}

func TestExactNamesOfTheDriverAreFound(t *testing.T) {
	set := loadFacts(t)
	var names []string
	for _, e := range set.Exports {
		names = append(names, e.Symbol)
	}
	others := []string{"cudnnCreate", "cublasCreate_v2", "cu", "cuIni", "cuInit_", "curl_easy_init", "open"}
	program := compile(t, "find", writeTemp(t, "find.c", `
#include "driver_table.h"
#include <stdio.h>

int main(void)
{
    char name[256];

    while (scanf("%255s", name) == 1) {
        int s = xm_symbol_find(name);
        printf("%s\n", s < 0 ? "-" : xm_symbol_name(s));
    }
    return 0;
}
`))
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(strings.Join(append(names, others...), "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		want := "-"
		if i < len(names) && driverFunction.MatchString(names[i]) {
			want = names[i]
		}
		if got != want {
			t.Errorf("line %d: found %s, want %s", i, got, want)
		}
	}
}
