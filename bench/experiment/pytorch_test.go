package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
)

// pretendPyTorch is the child that stands for python3: it speaks the protocol of
// the two programs with fixed numbers, and other losses once the file that the
// variable names is there.
func pretendPyTorch(args []string) int {
	script := filepath.Base(args[0])
	fmt.Println("UserWarning: something is slow")
	fmt.Println(`{"event":"warm"}`)
	buf := make([]byte, 64)
	if n, _ := os.Stdin.Read(buf); strings.TrimSpace(string(buf[:n])) != "start" {
		return 0
	}
	if script == workloads.ScriptLLM {
		fmt.Println(`{"event":"result","began_s":10,"ended_s":20,"latency_ms":[20,25,30,25],"tokens":[1,2,3],"differing":0}`)
		return 0
	}
	losses := "7.25,6.5"
	if _, err := os.Stat(os.Getenv("EXPERIMENT_TEST_DIFFER")); err == nil {
		losses = "7.25,6.500001"
	}
	fmt.Printf("{\"event\":\"result\",\"began_s\":10,\"ended_s\":20,\"batch\":64,\"step_ends_s\":[9,12,15,18,21],\"losses\":[%s]}\n", losses)
	return 0
}

func torchLab(t *testing.T) *Lab {
	t.Helper()
	differ := filepath.Join(t.TempDir(), "differ")
	t.Setenv(helperEnv, "pytorch")
	t.Setenv("EXPERIMENT_TEST_DIFFER", differ)
	return &Lab{
		Facts:  workloads.Facts{Device: "Test GPU", UUID: "GPU-0", Driver: "x"},
		commit: "c", env: os.Environ(), dir: t.TempDir(), note: func(string) {},
	}
}

func TestPyTorchOnceAndWithoutMPS(t *testing.T) {
	lab := torchLab(t)
	t.Setenv("PATH", "/nowhere")
	var notes []string
	lab.note = func(s string) { notes = append(notes, s) }
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := PyTorch{Python: exe, Seconds: 10, Layers: 2, Batch: 64, Once: true, Modes: []string{rows.ModeAlone, rows.ModeMPS, rows.ModeNative}}
	out, err := lab.RunPyTorch(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 2 || out[1].Mode != rows.ModeNative || out[1].Metrics["identical"] != 1 {
		t.Errorf("%+v", out)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "mode mps is left out") {
		t.Errorf("notes %q", notes)
	}
}

func TestPyTorchRows(t *testing.T) {
	lab := torchLab(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := PyTorch{Python: exe, Seconds: 10, Layers: 2, Batch: 64, Modes: []string{rows.ModeAlone, rows.ModeNative}}
	said := 0
	out, err := lab.RunPyTorch(t.Context(), p, func(what string, done, total int) {
		said++
		if what == "pytorch native" { // from here on the training gives other losses
			if err := os.WriteFile(os.Getenv("EXPERIMENT_TEST_DIFFER"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 2 || said != 2 {
		t.Fatalf("%d rows, %d reports", len(out), said)
	}
	alone, native := out[0], out[1]
	for _, r := range out {
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
		m := r.Metrics
		if m["llm_p99_ms"] != 30 || m["llm_tokens_per_s"] != 40 || m["llm_p99_ratio"] != 1 || m["train_img_per_s"] != 19.2 {
			t.Errorf("%s: %v", r.Mode, m)
		}
	}
	if alone.Metrics["identical"] != 1 {
		t.Error("two runs with the same tokens and losses are not identical")
	}
	if alone.Metrics["train_ratio"] != 1 || native.Metrics["train_ratio"] != 1 {
		t.Errorf("the training got %v of what it gets alone", native.Metrics["train_ratio"])
	}
	if native.Metrics["identical"] != 0 {
		t.Error("losses that differ in the last digit are called identical")
	}
}

func TestPyTorchRefuses(t *testing.T) {
	lab := torchLab(t)
	for want, p := range map[string]PyTorch{
		"first mode must be alone": {Modes: []string{rows.ModeNative}},
		"layers is 0, want 1":      {Seconds: 1, Batch: 1, Modes: []string{rows.ModeAlone}},
		`mode "tsg"`:               {Seconds: 1, Batch: 1, Layers: 1, Modes: []string{rows.ModeAlone, "tsg"}},
		"no-such-python":           {Python: "no-such-python", Seconds: 1, Layers: 1, Batch: 1, Modes: []string{rows.ModeAlone}},
	} {
		if _, err := lab.RunPyTorch(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}

func TestNumbersAreWrittenForFlags(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 450: "450", 0.5: "0.5", 1e6: "1000000"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s", v, got)
		}
		if _, err := strconv.ParseFloat(number(v), 64); err != nil {
			t.Error(err)
		}
	}
	if got := iterations(0.001, 300); got != "1" {
		t.Errorf("a kernel shorter than an iteration has %s", got)
	}
}
