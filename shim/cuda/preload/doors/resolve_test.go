package doors

import (
	"strings"
	"testing"
)

const (
	ours   = "ok libxmsched.so "
	theirs = "ok libcuda.so.1 "
	none   = "ok -"
)

func TestCase01RuntimeFindsHooksThroughGetProcAddressV2(t *testing.T) {
	run{}.expect(t,
		"gpa2 cuLaunchKernel 12000 0", ours+"cuLaunchKernel",
		"gpa2 cuLaunchKernel 13000 2", ours+"cuLaunchKernel_ptsz",
		"gpa2 cuLaunchKernelEx 12000 0", ours+"cuLaunchKernelEx",
		"gpa2 cuInit 12000 0", ours+"cuInit",
		"gpa2 cuMemFree 12000 0", ours+"cuMemFree_v2",
		"gpa2 cuDriverGetVersion 12000 0", theirs+"cuDriverGetVersion",
		"gpa2 cuNoSuchFunction 12000 0", none,
		"gpa1 cuLaunchKernel 11040 0", ours+"cuLaunchKernel",
	)
}

func TestCase02ResolverAskedForItself(t *testing.T) {
	run{}.expect(t,
		"gpa2 cuGetProcAddress 11030 0", ours+"cuGetProcAddress",
		"gpa2 cuGetProcAddress 12000 0", ours+"cuGetProcAddress_v2",
		"gpa1 cuGetProcAddress 12000 0", ours+"cuGetProcAddress_v2",
	)
	// A driver that has no second version, and answers by dlsym on itself.
	for _, env := range [][]string{nil, {"FAKE_TRAP=1"}} {
		run{driver: "old", env: env}.expect(t,
			"dlsym cuGetProcAddress_v2", none,
			"gpa1 cuGetProcAddress 11030 0", ours+"cuGetProcAddress",
			"gpa1 cuGetProcAddress 12000 0", "error 500",
			"gpa1 cuLaunchKernelEx 12000 0", "error 500",
			"gpa1 cuLaunchKernel 11030 0", ours+"cuLaunchKernel",
		)
	}
}

// TestDriverThatLooksItselfUp: the constructor and the resolver of the driver go
// through dlsym and through their own exported names; it must find itself.
func TestDriverThatLooksItselfUp(t *testing.T) {
	out, stderr := run{env: []string{"FAKE_TRAP=1"}}.output(t, host("linked_run"), "init", "work", "launch", "3")
	if want := "init\nwork\nresult 0\nentered 3\n"; out != want || strings.Contains(stderr, "not its own") {
		t.Errorf("stdout %q, want %q; stderr %q", out, want, stderr)
	}
}

func TestCase05DlsymExactNames(t *testing.T) {
	for _, name := range []string{"cudnnCreate", "curl_easy_init", "cuda", "cu", "cuInit_v9", "cuInitialise", "cuMemcpy3", "fake_commands"} {
		with := run{}.ask(t, "dlsym "+name, "default "+name)
		bare := run{bare: true}.ask(t, "dlsym "+name, "default "+name)
		if with[0] != bare[0] || with[1] != bare[1] {
			t.Errorf("%s: %q with the library, %q without", name, with, bare)
		}
	}
	run{}.expect(t,
		"dlsym cuInit", ours+"cuInit",
		"dlsym cuMemFree_v2", ours+"cuMemFree_v2",
		"dlsym cuMemFree", none, // this driver has no first version
		"dlsym cuDriverGetVersion", theirs+"cuDriverGetVersion",
	)
}

func TestCase05RtldNextStaysTheCallers(t *testing.T) {
	questions := []string{"next open", "next puts", "next dlopen", "default open"}
	with, bare := run{}.ask(t, questions...), run{bare: true}.ask(t, questions...)
	for i, q := range questions {
		if with[i] != bare[i] {
			t.Errorf("%s: %q with the library, %q without", q, with[i], bare[i])
		}
	}
	out, stderr := run{more: host("libsecond.so"), env: []string{"SECOND_LOG=1"}, stdin: "open libcuda.so.1\n"}.output(t, host("host_ask"))
	if out != "opened\n" || stderr != "second: puts\n" {
		t.Errorf("second preload library: stdout %q, stderr %q", out, stderr)
	}
}

// TestScopes: a name is answered with a hook only where the driver's own function
// would have been found.
func TestScopes(t *testing.T) {
	plugin := host("libplugin.so")
	run{}.expect(t,
		"open libcuda.so.1", "opened",
		"default cuInit", none, // opened RTLD_LOCAL
		"self cuInit", none,
		"dlsym cuInit", ours+"cuInit",
		"error cuInit", "found without an error",
		"error cuNoSuchFunction", "absent with an error",
	)
	run{}.expect(t,
		"open libcuda.so.1 global", "opened",
		"default cuInit", ours+"cuInit",
		"self cuInit", ours+"cuInit",
	)
	answers := lines(first(run{stdin: "plugin " + plugin + "\n"}.output(t, host("host_ask"))))
	if want := "reference libxmsched.so cuInit, default libxmsched.so cuInit"; strings.Join(answers, ", ") != want {
		t.Errorf("plugin: %q, want %q", answers, want)
	}
}

// TestDeepbindPassesBy states a limit: a library opened with RTLD_DEEPBIND binds
// to the driver before us. What it asks dlsym for is still answered by us only
// when it takes dlsym from the program's scope, which it does not.
func TestDeepbindPassesBy(t *testing.T) {
	answers := lines(first(run{stdin: "plugin " + host("libplugin.so") + " deepbind\n"}.output(t, host("host_ask"))))
	if len(answers) == 0 || answers[0] != "reference libcuda.so.1 cuInit" {
		t.Errorf("%q: RTLD_DEEPBIND no longer passes us by; say so in the documentation", answers)
	}
}

func TestNoDriverLooksAsWithoutUs(t *testing.T) {
	questions := []string{
		"default cuInit", "self cuInit", "next cuInit", "error cuInit", "open libcuda.so.1", "default cuLaunchKernel", "error cuGetProcAddress",
	}
	bare := run{bare: true, driver: "-"}.ask(t, questions...)
	if bare[4] == "opened" {
		t.Skip("this machine has a driver")
	}
	with := run{driver: "-"}.ask(t, questions...)
	for i, q := range questions {
		if with[i] != bare[i] {
			t.Errorf("%s: %q with the library, %q without", q, with[i], bare[i])
		}
	}
}

func first(out, _ string) string { return out }
