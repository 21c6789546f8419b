package doors

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"xmsched/hal/cuda/conformance"
)

// Pools that are ours answer as those of an H200 did, but for these lines.
const poolExceptions = `
# The simulated driver's own.
pools | cuMemGetDefaultMemPool(&pool, device 0, 2) = CUDA_SUCCESS | its pools are of device memory
pools | cuMemPoolCreate(&pool, kind 2) = CUDA_SUCCESS | its pools are of device memory

# Ours.
pool-memory | reserved 67108864, at most 134217728; used 0, at most 104857600 | a chunk goes as a whole, and what is to be kept stays
pool-order | the same memory: true | events between streams are not followed: other memory is taken
pool-refusals | cuPointerGetAttribute(&v, MEMORY_TYPE, freed) = CUDA_ERROR_INVALID_VALUE | what is kept stays mapped, and the driver knows no better
pool-refusals | cuPointerGetAttribute(&v, MEMORY_TYPE, freed and synchronised) = CUDA_ERROR_INVALID_VALUE | the same
pool-refusals | cuMemsetD8Async(freed and synchronised, 1, 16, s) = CUDA_ERROR_INVALID_VALUE | the same
`

var poolCases = []string{"pools", "pool-attributes", "pool-memory", "pool-order", "pool-refusals", "pools-and-contexts"}

// TestPoolsAnswerAsRecorded asks the questions of the conformance suite of a driver whose pools
// are ours.
func TestPoolsAnswerAsRecorded(t *testing.T) {
	folder, err := keeper()
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(t.TempDir(), "conformance")
	build := exec.Command("go", "build", "-o", suite, "xmsched/hal/cuda/conformance/record")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	recorded, err := os.ReadFile("../../../../hal/cuda/conformance/testdata/h200.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := conformance.ParseExceptions(poolExceptions)
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(conformance.Cases(), func(name string) bool { return slices.Contains(poolCases, name) })
	r := onMemory(t, folder)
	got, _ := r.output(t, suite, "-only", strings.Join(poolCases, ","))
	for _, difference := range conformance.Compare(conformance.WithoutCases(string(recorded), others), got, allowed) {
		t.Error(difference)
	}
}
