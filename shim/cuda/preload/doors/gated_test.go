package doors

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"xmsched/hal/sim/simtest"
)

// declaration is a line of facts/declarations.json.
type declaration struct {
	Symbol string
	Ret    string
	Params []struct{ T, N string }
}

func (d declaration) parameters() string {
	var all []string
	for _, p := range d.Params {
		all = append(all, p.T+" "+p.N)
	}
	if all == nil {
		return "void"
	}
	return strings.Join(all, ", ")
}

// stream is an expression for the stream that a call of d names.
func (d declaration) stream() string {
	for _, p := range d.Params {
		switch p.T {
		case "CUstream":
			return p.N
		case "const CUlaunchConfig *":
			return p.N + "->hStream"
		}
	}
	return "NULL"
}

// call writes a call with zeros and the stream S.
func (d declaration) call() string {
	var all []string
	for _, p := range d.Params {
		switch {
		case p.T == "CUstream":
			all = append(all, "S")
		case p.T == "const CUlaunchConfig *":
			all = append(all, "&(CUlaunchConfig){.hStream = S}")
		case strings.HasSuffix(p.T, "*"):
			all = append(all, "NULL")
		default:
			all = append(all, "("+p.T+"){0}")
		}
	}
	return d.Symbol + "(" + strings.Join(all, ", ") + ")"
}

// admitted returns the declarations of all functions whose hook admits a command.
func admitted(t *testing.T) []declaration {
	t.Helper()
	names := map[string]bool{}
	for _, file := range []string{"../hooks_generated.c", "../hooks_launch.c"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^CUresult (\w+)\([^{]*\)\n\{([^}]*)`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = strings.Contains(m[2], "xm_admit(")
		}
	}
	all := slices.DeleteFunc(load[declaration](t, "declarations.json"), func(d declaration) bool { return !names[d.Symbol] })
	if len(all) < 150 {
		t.Fatalf("only %d functions admit commands", len(all))
	}
	return all
}

// notingDriver has every declared function note its name and stream; those that
// the library needs an answer of are written out.
const notingDriver = `#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define XM_EXPORT __attribute__((visibility("default")))
#include "gen/cuda_prototypes.h"
#include "gen/board.h"
static char notes[8192];
static char *registered;
XM_EXPORT const char *fake_notes(void) { static char out[8192]; strcpy(out, notes); notes[0] = 0; return out; }
static CUresult note(const char *name, CUstream s)
{
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), " %s:%lx", name, (unsigned long)(uintptr_t)s);
    return CUDA_SUCCESS;
}
static void *ctx = "context";
CUresult cuInit(unsigned int f) { (void)f; return 0; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { (void)d; *c = (CUcontext)ctx; return 0; }
CUresult cuCtxSetCurrent(CUcontext c) { (void)c; return 0; }
CUresult cuCtxGetCurrent(CUcontext *c) { *c = (CUcontext)ctx; return 0; }
CUresult cuCtxGetDevice(CUdevice *d) { *d = 0; return 0; }
CUresult cuStreamGetCtx(CUstream s, CUcontext *c) { (void)s; *c = (CUcontext)ctx; return 0; }
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *w) { (void)s; *w = 0; return 0; }
CUresult cuStreamQuery(CUstream s) { (void)s; return 0; }
CUresult cuDeviceGetUuid_v2(CUuuid *u, CUdevice d) { (void)d; memset(u, 7, sizeof *u); return 0; }
CUresult cuDeviceGetName(char *n, int l, CUdevice d) { (void)d; (void)l; *n = 0; return 0; }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *m) { (void)m; return 0; }
CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned int f) { (void)n; (void)f; registered = p; return 0; }
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *d, void *p, unsigned int f) { (void)f; *d = (CUdeviceptr)(uintptr_t)p; return 0; }
CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr at, cuuint32_t v, unsigned int f)
{
    if (at != (CUdeviceptr)(uintptr_t)(registered + offsetof(struct xm_board, devices[0].daemon.gate)))
        return note("cuStreamWaitValue32_v2", s);
    return note(v == 1 && f == CU_STREAM_WAIT_VALUE_AND ? "gate" : "wrong", s);
}
CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr at, cuuint32_t v, unsigned int f)
{
    if (!registered || at < (CUdeviceptr)(uintptr_t)registered || at >= (CUdeviceptr)(uintptr_t)registered + XM_BOARD_SIZE)
        return note("cuStreamWriteValue32_v2", s);
    (void)f;
    *(cuuint32_t *)(uintptr_t)at = v;
    return note("mark", s);
}
`

const callingHost = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "gen/cuda_prototypes.h"
#include "gen/board.h"
const char *fake_notes(void);
static void calls(CUstream S);
int main(void)
{
    char path[4096];
    CUcontext ctx;
    void *governor;
    bool (*ready)(void);
    void (*grant)(bool, unsigned);
    struct xm_client_line *(*client)(void);

    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0))
        return 1;
    snprintf(path, sizeof path, "%s/libxagent.so", getenv("XMSCHED_LIB"));
    governor = dlopen(path, RTLD_NOW);
    *(void **)&ready = dlsym(governor, "governor_ready");
    *(void **)&grant = dlsym(governor, "governor_grant");
    *(void **)&client = dlsym(governor, "governor_client");
    while (!ready())
        usleep(1000);
    cuCtxSetCurrent(ctx);
    if (client()->level_max != 2)
        return 2;
    for (int open = 1; open >= 0; open--) {
        grant(open, XM_MODE_BOUNDED);
        calls((CUstream)0x5000);
        calls(NULL);
    }
    grant(1, XM_MODE_FREE);
    calls((CUstream)0x5000);
    grant(1, XM_MODE_LOOSE);
    calls((CUstream)0x5000);
    return 0;
}
`

func compile(t *testing.T, out, source string, args ...string) {
	t.Helper()
	file := out + ".c"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-std=gnu11", "-g", "-O1", "-Wno-deprecated-declarations", "-I..", file, "-o", out}, args...)
	if said, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", filepath.Base(out), err, said)
	}
}

// TestCase12EveryCommandBehindItsGate calls every function whose hook admits a
// command, on a stream and on the default one, at an open and at a closed gate:
// the wait for the gate enters the driver on the same stream, with nothing of
// ours between the two; in free run there is none, nor where commands are loose.
func TestCase12EveryCommandBehindItsGate(t *testing.T) {
	all := admitted(t)
	dir := t.TempDir()
	driver, program := notingDriver, callingHost+"static void calls(CUstream S)\n{\n"
	hooks := hooked(t)
	for _, d := range load[declaration](t, "declarations.json") {
		if hooks[d.Symbol] && !strings.Contains(notingDriver, "CUresult "+d.Symbol+"(") && !strings.HasPrefix(d.Symbol, "cuGetProcAddress") {
			driver += fmt.Sprintf("CUresult %s(%s) { return note(\"%s\", %s); }\n", d.Symbol, d.parameters(), d.Symbol, d.stream())
		}
	}
	for _, d := range all {
		program += fmt.Sprintf("    %s;\n    printf(\"%s:%%s\\n\", fake_notes());\n", d.call(), d.Symbol)
	}
	library := filepath.Join(dir, "libcuda.so.1")
	compile(t, library, driver, "-w", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic")
	compile(t, filepath.Join(dir, "calls"), program+"}\n", "-w", library, "-ldl")
	simtest.Library(t)
	governor, err := gated()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := run{driver: "-", env: []string{"LD_LIBRARY_PATH=" + dir, "XMSCHED_LIB=" + governor}}.output(t, filepath.Join(dir, "calls"))
	got := lines(out)
	if len(got) != 6*len(all) {
		t.Fatalf("%d calls of %d", len(got), 6*len(all))
	}
	for i, line := range got {
		d, pass := all[i%len(all)], i/len(all)
		named := "5000"
		if d.stream() == "NULL" || pass == 1 || pass == 3 {
			named = "0"
		}
		gate := named
		if named == "0" {
			gate = "1"
			if strings.HasSuffix(d.Symbol, "_ptsz") || strings.HasSuffix(d.Symbol, "_ptds") {
				gate = "2"
			}
		}
		want := fmt.Sprintf(" gate:%s %s:%s", gate, d.Symbol, named)
		if pass >= 4 {
			want = fmt.Sprintf(" %s:%s", d.Symbol, named)
		}
		ours := strings.TrimPrefix(line, d.Symbol+":")
		// Of another thread, which looks after the queue of a call before.
		ours = strings.ReplaceAll(ours, " cuCtxPushCurrent_v2:0 cuCtxPopCurrent_v2:0", "")
		for strings.HasPrefix(ours, " mark:") { // of the commands before
			_, ours, _ = strings.Cut(ours[1:], " ")
			ours = " " + ours
		}
		if ours != want {
			t.Errorf("pass %d, %s entered the driver as%s, want%s", pass, d.Symbol, ours, want)
		}
	}
}
