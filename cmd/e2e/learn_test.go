package e2e

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"xmsched/hal/kernels"
	"xmsched/shim/agent"
)

// learner runs a program that is learnt from, and returns what it printed and what was
// seen of it.
func (w *world) learner(launches int, flags ...string) (p *proc, seen []agent.Seen) {
	w.t.Helper()
	log := filepath.Join(w.t.TempDir(), "seen")
	w.env = append(w.env, "XMSCHED_SIM_HBM=256M", "XMSCHED_LEARN_LOG="+log, "XDG_STATE_HOME="+filepath.Dir(w.dir))
	p = w.xrun(flags, filepath.Join(built, "learner"), filepath.Join(built, "kernels.ptx"), strconv.Itoa(launches))
	p.right()
	f, err := os.Open(log)
	if os.IsNotExist(err) {
		return p, nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var s agent.Seen
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			w.t.Fatalf("%v: %s", err, lines.Text())
		}
		seen = append(seen, s)
	}
	return p, seen
}

const faultBlock = 2 << 20

// statedBlocks is what the kernel says that the launch touches of what was watched: by
// blocks, 1 read, 2 write.
func statedBlocks(t *testing.T, s agent.Seen) map[uint64]uint64 {
	t.Helper()
	k, ok := kernels.ByName(s.Kernel)
	args, err := hex.DecodeString(s.Params)
	if !ok || err != nil || k.Spans == nil {
		t.Fatalf("%+v: %v", s, err)
	}
	blocks := map[uint64]uint64{}
	for _, span := range k.Spans(kernels.Launch{Grid: s.Grid, Block: s.Block, Args: args}) {
		for i := range span.Count {
			from := span.Base + i*span.Stride
			for at := from &^ (faultBlock - 1); at < from+span.Bytes; at += faultBlock {
				for _, r := range s.Watched {
					if at+faultBlock > r[0] && at < r[0]+r[1] {
						blocks[at] |= [...]uint64{kernels.Read: 1, kernels.Write: 2, kernels.Update: 3}[span.Access]
					}
				}
			}
		}
	}
	return blocks
}

// TestLearningSeesWhatKernelsTouch: an unmodified program whose launches are looked at
// computes what it would; every observation is the kernel's closed form; there are few.
func TestLearningSeesWhatKernelsTouch(t *testing.T) {
	w := newWorld(t)
	p, seen := w.learner(100, "--learn", "--name", "pupil")
	by := map[string]int{}
	for _, s := range seen {
		by[s.Kernel+" "+strconv.Itoa(int(s.Grid[0]))]++
		have, want := map[uint64]uint64{}, statedBlocks(t, s)
		for _, b := range s.Touched {
			have[b[0]&^(faultBlock-1)] |= b[2]
		}
		if s.Lossy || len(s.Watched) == 0 || !maps.Equal(have, want) {
			t.Errorf("%s of %s: seen %v, stated %v (lossy %v)", s.Kernel, s.Params, have, want, s.Lossy)
		}
	}
	for _, name := range []string{"xm_fill 64", "xm_increment 64", "xm_vector_add 64", "xm_copy 64"} {
		if by[name] < 1 || by[name] > 8 {
			t.Errorf("%s was seen %d times, of 100", name, by[name])
		}
		delete(by, name)
	}
	if len(by) > 0 { // of what is captured, refused, or not managed nothing can be seen
		t.Errorf("seen as well: %v", by)
	}
	if said := fmt.Sprintf("learning: %d launches were looked at, 0 not in time", len(seen)); strings.Count(p.said(), "learning") != 1 || !strings.Contains(p.said(), said) ||
		!strings.Contains(p.said(), "43 MiB could be looked at, 128 MiB could not") {
		t.Errorf("it said: %s; want %s", p.said(), said)
	}
	// What was learnt is not looked at again, but for what a first run could not settle.
	if _, again := w.learner(100, "--learn"); len(again) > len(seen)/3 {
		t.Errorf("a second run saw %d, the first %d", len(again), len(seen))
	}
}

// TestWithoutLearningNothingIsSeen is the control.
func TestWithoutLearningNothingIsSeen(t *testing.T) {
	w := newWorld(t)
	if _, seen := w.learner(3); seen != nil {
		t.Errorf("seen: %+v", seen)
	}
}

// withoutAgent gives the world a folder of libraries that lacks the agent.
func (w *world) withoutAgent() (lib string) {
	w.t.Helper()
	lib = w.t.TempDir()
	for _, name := range []string{"libxmsched.so", "sim"} {
		if err := os.Symlink(filepath.Join(built, "lib", name), filepath.Join(lib, name)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.env = append(w.env, "XMSCHED_LIB="+lib)
	return lib
}

// TestLearningWithoutAnAgent: a program that is to be learnt from runs without one, and
// is right.
func TestLearningWithoutAnAgent(t *testing.T) {
	w := newWorld(t)
	w.withoutAgent()
	if p, seen := w.learner(20, "--learn"); seen != nil || !strings.Contains(p.said(), "learning: 0 launches were looked at") {
		t.Errorf("seen: %+v; it said %s", seen, p.said())
	}
}

// TestLearningWithADeadAgent: three launches wait a second each, then learning is over, and
// that is said.
func TestLearningWithADeadAgent(t *testing.T) {
	w := newWorld(t)
	preload := filepath.Join(here, "..", "..", "shim", "cuda", "preload")
	cmd := exec.Command("gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", preload,
		"-o", filepath.Join(w.withoutAgent(), "libxagent.so"), filepath.Join(here, "testdata", "deaf.c"), "-lpthread")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	begun := time.Now()
	p, seen := w.learner(20, "--learn")
	if took := time.Since(begun); seen != nil || took < 3*time.Second || strings.Count(p.said(), "nothing more is learnt of this program") != 1 {
		t.Errorf("seen %+v after %v; it said %s", seen, took, p.said())
	}
}
