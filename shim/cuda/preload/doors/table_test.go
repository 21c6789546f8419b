package doors

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const facts = "../../../../hal/cuda/abi/facts"

// resolverAnswer is a line of facts/answers.json: what the recorded driver said
// for one name and flags, from each version on.
type resolverAnswer struct {
	Name  string   `json:"name"`
	Flags []uint64 `json:"flags"`
	Steps []struct {
		From   int    `json:"from"`
		Symbol string `json:"symbol"`
		Result int    `json:"result"`
	} `json:"steps"`
}

func load[T any](t *testing.T, file string) (all []T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(facts, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return all
}

// hooked returns the names that the library exports, dlsym left out.
func hooked(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../exports.map")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +(cu\w+);$`).FindAllStringSubmatch(string(text), -1) {
		names[m[1]] = true
	}
	if len(names) < 200 {
		t.Fatalf("exports.map names only %d functions", len(names))
	}
	return names
}

// everyFunction builds a driver that exports all the names of the recorded one.
// Each function says its name in fake_called and returns 999; the resolver gives
// the recorded answers.
func everyFunction(t *testing.T) (folder string, symbols []string) {
	t.Helper()
	for _, e := range load[struct{ Symbol string }](t, "exports.json") {
		symbols = append(symbols, e.Symbol)
	}
	var c strings.Builder
	c.WriteString(`#include <stddef.h>
#include <stdint.h>
#include "gen/driver_table.h"
const char *fake_called;
`)
	for _, s := range symbols {
		if !strings.HasPrefix(s, "cuGetProcAddress") {
			fmt.Fprintf(&c, "int %s(void) { fake_called = \"%s\"; return 999; }\n", s, s)
		} else {
			fmt.Fprintf(&c, "int %s(const char *, void **, int, uint64_t, int *);\n", s)
		}
	}
	c.WriteString("static void *const functions[] = {\n")
	for _, s := range symbols {
		fmt.Fprintf(&c, "(void *)%s,\n", s)
	}
	c.WriteString(`};
static const char *const names[] = {
`)
	for _, s := range symbols {
		fmt.Fprintf(&c, "\"%s\",\n", s)
	}
	c.WriteString(`};
int cuGetProcAddress_v2(const char *name, void **pfn, int version, uint64_t flags, int *status)
{
    int symbol, found = version > XM_DRIVER_VERSION ? -1 : (int)xm_resolve(name, version, flags, &symbol);
    *pfn = NULL;
    if (found < 0) return 1;
    if (status) *status = found;
    if (found) return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], xm_symbol_pool + xm_symbol_offset[symbol])) *pfn = functions[i];
    return 0;
}
int cuGetProcAddress(const char *name, void **pfn, int version, uint64_t flags, int *unused)
{
    (void)unused;
    return cuGetProcAddress_v2(name, pfn, version, flags, NULL);
}
`)
	folder = t.TempDir()
	source := filepath.Join(folder, "every.c")
	if err := os.WriteFile(source, []byte(c.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("gcc", "-O1", "-w", "-fPIC", "-shared", "-I..", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic",
		source, "-o", filepath.Join(folder, "libcuda.so.1")).CombinedOutput()
	if err != nil {
		t.Fatalf("build the driver: %v\n%s", err, out)
	}
	return folder, symbols
}

// within makes the driver of another folder the one of a run.
func within(folder string) run {
	return run{driver: "-", env: []string{"LD_LIBRARY_PATH=" + folder}}
}

// TestCase03ResolverTable asks for every name, in every version in which the
// recorded driver's answer changed and in the one before it, with every value of
// flags: the answer must be the same exported function as the driver's, and our
// hook of it where there is one.
func TestCase03ResolverTable(t *testing.T) {
	folder, _ := everyFunction(t)
	hooks := hooked(t)
	var pairs []string
	for _, a := range load[resolverAnswer](t, "answers.json") {
		for _, flags := range a.Flags {
			before := none // too new for the first version asked
			for _, step := range a.Steps {
				now := wanted(step.Symbol, step.Result, hooks)
				pairs = append(pairs,
					fmt.Sprintf("gpa2 %s %d %d", a.Name, step.From-1, flags), before,
					fmt.Sprintf("gpa2 %s %d %d", a.Name, step.From, flags), now)
				before = now
			}
			pairs = append(pairs, fmt.Sprintf("gpa2 %s 13000 %d", a.Name, flags), before)
		}
	}
	if len(pairs) < 6000 {
		t.Fatalf("only %d questions", len(pairs)/2)
	}
	within(folder).expect(t, pairs...)
	t.Logf("%d questions", len(pairs)/2)
}

func wanted(symbol string, result int, hooks map[string]bool) string {
	switch {
	case result != 0:
		return fmt.Sprintf("error %d", result)
	case symbol == "":
		return none
	case hooks[symbol]:
		return ours + symbol
	default:
		return theirs + symbol
	}
}

// TestEveryHookEntersItsOwnFunction calls each hook and sees which function of
// the driver was entered, and that its result comes back.
func TestEveryHookEntersItsOwnFunction(t *testing.T) {
	folder, symbols := everyFunction(t)
	var pairs []string
	for name := range hooked(t) {
		if !slices.Contains(symbols, name) {
			t.Errorf("%s is hooked, but no driver exports it", name)
		}
		if !strings.HasPrefix(name, "cuGetProcAddress") {
			pairs = append(pairs, "call "+name, "result 999 "+name)
		}
	}
	within(folder).expect(t, pairs...)
}

// TestHookedNames: every name of the recorded driver that by its name starts or
// moves work has a hook.
func TestHookedNames(t *testing.T) {
	hooks := hooked(t)
	for _, s := range load[struct{ Symbol string }](t, "exports.json") {
		launches := strings.HasPrefix(s.Symbol, "cuLaunch") || strings.HasPrefix(s.Symbol, "cuMemcpy") ||
			strings.HasPrefix(s.Symbol, "cuMemset") || strings.HasPrefix(s.Symbol, "cuGraphLaunch")
		if launches && !hooks[s.Symbol] {
			t.Errorf("%s starts work and has no hook", s.Symbol)
		}
	}
}

// TestUncoveredCallsAreNamed: what starts work and is let through reaches the
// agent by name: when it is called, if its type is known, else when it is asked
// for.
func TestUncoveredCallsAreNamed(t *testing.T) {
	folder, _ := everyFunction(t)
	r := within(folder)
	r.stdin = strings.Join([]string{
		"call cuInit",
		"gpa2 cuLaunchCooperativeKernelMultiDevice 12000 0", // a hook: asking says nothing
		"gpa2 cuGLMapBufferObjectAsync 12000 0",
		"gpa2 cuStreamGetPriority 12000 0",
		"sleep 100",
		"call cuLaunchCooperativeKernelMultiDevice",
		"gpa2 cuEGLStreamConsumerAcquireFrame 12000 0",
		"sleep " + pause,
	}, "\n") + "\n"
	log, _ := agents(t, r, host("host_ask"))
	want := []string{
		"uncovered cuGLMapBufferObjectAsync", "uncovered cuLaunchCooperativeKernelMultiDevice", "uncovered cuEGLStreamConsumerAcquireFrame",
	}
	if len(log) != 4 || !slices.Equal(log[1:], want) {
		t.Errorf("the agent heard %q, want a start and %q", log, want)
	}
}
