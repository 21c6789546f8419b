package experiment

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xmsched/hal/kernels"
	"xmsched/predictor"
)

// fillLine is what would be logged of a launch of xm_fill over n words.
func fillLine(base uint64, n uint32) observed {
	params := binary.LittleEndian.AppendUint64(nil, base)
	params = binary.LittleEndian.AppendUint32(params, 7)
	params = binary.LittleEndian.AppendUint32(params, n)
	blocks := (4*uint64(n) + predictor.Block - 1) / predictor.Block
	return observed{
		Kernel: "xm_fill", Code: strings.Repeat("01", 16), Layout: [][2]uint32{{0, 8}, {8, 4}, {12, 4}},
		Grid: [3]uint32{528, 1, 1}, Block: [3]uint32{128, 1, 1}, Params: hex.EncodeToString(params),
		Watched: [][2]uint64{{base, 64 << 20}}, Touched: [][3]uint64{{base, blocks * predictor.Block, 2}},
	}
}

const fillBase = 0x7f00_0000_0000

// learntFill is a directory with templates of xm_fill, learnt from some sizes.
func learntFill(t *testing.T) string {
	t.Helper()
	library := predictor.NewLibrary(predictor.Config{})
	for _, n := range []uint32{1 << 20, 3 << 20, 5<<20 + 77, 9 << 20, 2<<20 + 5, 7 << 20} {
		line := fillLine(fillBase, n)
		l, err := line.sighting()
		if err != nil {
			t.Fatal(err)
		}
		library.Kernel(l.kernel, 1).Observe(&l.launch, &l.ranges, &predictor.Observation{Touched: l.touched, Grain: predictor.Block, Watched: l.watched})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "store"), library.Encode(0), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeLog(t *testing.T, lines ...observed) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seen")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, l := range lines {
		if err := json.NewEncoder(f).Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestJudgeCountsWhatWasNotForetold(t *testing.T) {
	dir := learntFill(t)
	other := fillLine(fillBase, 4<<20)
	other.Kernel, other.Code = "unseen", strings.Repeat("02", 16)
	lossy := fillLine(fillBase, 1<<20)
	lossy.Lossy = true
	lessons := []observed{fillLine(fillBase, 1<<20), fillLine(fillBase, 3<<20+1), fillLine(fillBase, 5<<20)}
	j, err := judge(dir, writeLog(t, lessons...), writeLog(t, fillLine(fillBase, 6<<20), fillLine(fillBase, 4<<20), other, lossy))
	if err != nil {
		t.Fatal(err)
	}
	template, allocation := j.by[ModeTemplate], j.by[ModeAllocation]
	if template.score.Launches != 3 || template.known.Launches != 2 || j.kernels != 1 {
		t.Errorf("%d launches, %d of known kernels of %d", template.score.Launches, template.known.Launches, j.kernels)
	}
	if k := template.known.Blocks; k.FalseNegative() != 0 || k.FalsePositive() != 0 || k.Touched == 0 {
		t.Errorf("of the kernel that was learnt: %+v", k)
	}
	// 16 and 24 MiB of 64 were touched, and 16 by the one that nobody knows.
	if got, want := allocation.score.Blocks.FalsePositive(), 100*float64(3*64-56)/(3*64); got != want {
		t.Errorf("by allocations %v %% are in vain, want %v", got, want)
	}
	if got := template.score.Blocks.FalsePositive(); got <= 0 || got >= allocation.score.Blocks.FalsePositive() {
		t.Errorf("by templates %v %% are in vain", got)
	}
	if b := j.by[ModeStated].stated.Bytes; b.Touched != 40<<20 || b.FalseNegative() != 0 || b.FalsePositive() != 0 {
		t.Errorf("to the byte: %+v", b)
	}
	if template.evalNS <= 0 {
		t.Error("a prediction takes no time")
	}
	// The closed form is the kernel's own.
	if k, ok := kernels.ByName("xm_fill"); !ok || k.Spans == nil {
		t.Error("xm_fill states nothing")
	}
}

func TestJudgeRefusesWhatItCannotRead(t *testing.T) {
	dir := learntFill(t)
	line := writeLog(t, fillLine(fillBase, 1))
	if _, err := judge(t.TempDir(), line, line); err == nil {
		t.Error("judged by nothing")
	}
	if _, err := judge(dir, line, writeLog(t)); err == nil {
		t.Error("judged without a launch")
	}
	bad := fillLine(fillBase, 1)
	bad.Code = "12"
	if _, err := judge(dir, line, writeLog(t, bad)); err == nil {
		t.Error("a kernel without a hash was taken")
	}
	if (Predict{Workloads: []string{"nothing"}, Rounds: 1, Layers: 1}).Validate() == nil {
		t.Error("an unknown workload was taken")
	}
}

// learnFrom is a library that learnt a log, and a directory with it.
func learnFrom(t *testing.T, log string) (*predictor.Library, string) {
	t.Helper()
	lessons, err := readObserved(log)
	if err != nil {
		t.Fatal(err)
	}
	library := predictor.NewLibrary(predictor.Config{})
	for i := range lessons {
		l := &lessons[i]
		library.Kernel(l.kernel, 1).Observe(&l.launch, &l.ranges, &predictor.Observation{Touched: l.touched, Grain: predictor.Block, Watched: l.watched})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "store"), library.Encode(0), 0o600); err != nil {
		t.Fatal(err)
	}
	return library, dir
}

// TestRecordedLaunches learns from what the simulated device showed of four programs,
// and predicts the launches of a fifth, as page faults of an H200 told them (its
// XMSCHED_LEARN_LOG of predict --workloads science --mib 32).
func TestRecordedLaunches(t *testing.T) {
	const learnt, seen = "testdata/science.learnt", "testdata/science.judged"
	_, dir := learnFrom(t, learnt)
	j, err := judge(dir, learnt, seen)
	if err != nil {
		t.Fatal(err)
	}
	if b := j.by[ModeTemplate].score; b.Launches < 15 || b.Blocks.FalseNegative() > 0.25 || b.Blocks.FalsePositive() > 1 {
		t.Errorf("of %d launches %.3f %% of the blocks are missed, %.3f %% in vain", b.Launches, b.Blocks.FalseNegative(), b.Blocks.FalsePositive())
	}
	if b := j.by[ModeStated].stated; b.Launches < 10 || b.Bytes.FalseNegative() > 0.25 || b.Bytes.FalsePositive() > 1 {
		t.Errorf("of %d launches %.3f %% of the bytes are missed, %.3f %% in vain", b.Launches, b.Bytes.FalseNegative(), b.Bytes.FalsePositive())
	}
}

// TestRecordedGather: now and then the indices, which another kernel left, lead to the
// table's beginning alone. What is predicted then is what may be touched at most, not
// the allocation, and nothing is missed.
func TestRecordedGather(t *testing.T) {
	library, _ := learnFrom(t, "testdata/stale.learnt")
	launches, err := readObserved("testdata/stale.learnt")
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string]bool{}
	for _, v := range library.Models()[0].Describe().Variants {
		for _, p := range v.Pointers {
			shapes[p.Shape] = true
		}
	}
	if !shapes["bound"] || shapes["allocation"] {
		t.Errorf("templates are %v", shapes)
	}
	templates := compare(launches, library, nil).score
	whole := compare(launches, predictor.NewLibrary(predictor.Config{}), nil).score
	if templates.Missed > 0 || templates.Blocks.FalsePositive() > whole.Blocks.FalsePositive()/2 {
		t.Errorf("%d launches missed, %.1f %% in vain; by allocations %.1f %%", templates.Missed, templates.Blocks.FalsePositive(), whole.Blocks.FalsePositive())
	}
}

// judgeRecorded learns from a recorded log and judges another, both of page faults of an
// H200, and returns what templates and what allocations foretell.
func judgeRecorded(t *testing.T, name string) (templates, whole predictor.Score) {
	t.Helper()
	learnt := filepath.Join("testdata", name+".learnt")
	_, dir := learnFrom(t, learnt)
	j, err := judge(dir, learnt, filepath.Join("testdata", name+".judged"))
	if err != nil {
		t.Fatal(err)
	}
	return j.by[ModeTemplate].score, j.by[ModeAllocation].score
}

// TestRecordedBatches: three kernels of a DenseNet-201 that were seen with a batch of 4
// alone are launched with 10, 28, and 12 of larger images.
func TestRecordedBatches(t *testing.T) {
	templates, whole := judgeRecorded(t, "batch")
	if b := templates.Blocks; templates.Launches < 20 || b.FalseNegative() > 0.25 || b.FalsePositive() > whole.Blocks.FalsePositive()*2/3 {
		t.Errorf("of %d launches %.3f %% of the blocks are missed, %.3f %% in vain; by allocations %.1f %%", templates.Launches, b.FalseNegative(), b.FalsePositive(), whole.Blocks.FalsePositive())
	}
}

// TestRecordedFamily: matrix products of a ResNet-152, of whose seven kernels two were
// seen, with one batch size. What nobody has seen is foretold by those two.
func TestRecordedFamily(t *testing.T) {
	templates, whole := judgeRecorded(t, "gemm")
	if b := templates.Blocks; templates.Launches < 25 || b.FalseNegative() > 0.25 || b.FalsePositive() > whole.Blocks.FalsePositive()*5/6 {
		t.Errorf("of %d launches %.3f %% of the blocks are missed, %.3f %% in vain; by allocations %.1f %%", templates.Launches, b.FalseNegative(), b.FalsePositive(), whole.Blocks.FalsePositive())
	}
}
