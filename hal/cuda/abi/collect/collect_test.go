package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"xmsched/hal/cuda/abi/internal/facts"
)

func TestParameterNames(t *testing.T) {
	got := parameterNames(`
typedef int CUdevice;
typedef CUresult (*PFN_cuFoo_v1000)(const int *p, size_t n[3], void (*callback)(int a, int b));
typedef struct S_st { int cuField(int a); } S;
CUresult cuBar(unsigned int Flags) __attribute__((deprecated("x, y")));
CUresult cuNone(void);`)
	want := map[string][]string{
		"PFN_cuFoo_v1000": {"p", "n", ""},
		"cuBar":           {"Flags"},
		"cuNone":          {""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCondenseKeepsStepsAndGroupsFlags(t *testing.T) {
	set := &facts.Set{}
	tooOld := reply{0, success, statusTooOld, ""}
	refused := reply{13010, invalidValue, statusUntouched, ""}
	replies := map[question][]reply{
		{"cuA", 0}: {tooOld, {2000, 0, 0, "cuA"}, {3020, 0, 0, "cuA_v2"}, refused},
		{"cuA", 1}: {tooOld, {2000, 0, 0, "cuA"}, {3020, 0, 0, "cuA_v2"}, refused},
		{"cuA", 2}: {tooOld, {7000, 0, 0, "cuA_v2_ptsz"}, refused},
		{"cuB", 0}: {{0, success, statusNotFound, ""}, refused},
		{"cuB", 1}: {{0, success, statusNotFound, ""}, refused},
		{"cuB", 2}: {{0, success, statusNotFound, ""}, refused},
	}
	if err := condense(replies, set); err != nil {
		t.Fatal(err)
	}
	want := []facts.Answer{
		{Name: "cuA", Flags: []uint64{0, 1}, Steps: []facts.Step{{From: 2000, Symbol: "cuA"}, {From: 3020, Symbol: "cuA_v2"}}},
		{Name: "cuA", Flags: []uint64{2}, Steps: []facts.Step{{From: 7000, Symbol: "cuA_v2_ptsz"}}},
	}
	if diff := cmp.Diff(want, set.Answers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"cuB"}, set.Unknown); diff != "" {
		t.Error(diff)
	}
	if set.Origin.Ceiling != 13010 {
		t.Errorf("ceiling %d", set.Origin.Ceiling)
	}
}

func TestCondenseRefusesOtherShapes(t *testing.T) {
	for name, r := range map[string][]reply{
		"a function without a symbol":  {{0, success, statusFound, "@1234"}},
		"an error for one version":     {{0, 999, statusUntouched, ""}, {2000, 0, 0, "cuA"}},
		"lost again in a later one":    {{0, 0, 0, "cuA"}, {3000, success, statusTooOld, ""}},
		"found by some flags, not all": nil,
	} {
		replies := map[question][]reply{}
		for flags := range uint64(numberOfFlagSets) {
			replies[question{"cuA", flags}] = r
		}
		if r == nil {
			replies[question{"cuA", 0}] = []reply{{0, 0, 0, "cuA"}}
			replies[question{"cuA", 1}] = []reply{{0, success, statusNotFound, ""}}
			replies[question{"cuA", 2}] = []reply{{0, 0, 0, "cuA"}}
		}
		if err := condense(replies, &facts.Set{}); err == nil {
			t.Errorf("%s was stored", name)
		}
	}
}
