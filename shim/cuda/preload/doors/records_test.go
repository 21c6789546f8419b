package doors

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"xmsched/hal/sim/simtest"
)

// recorder builds records_run and what hands it the library's table, and returns their folder.
var recorder = sync.OnceValues(func() (string, error) {
	return filepath.Join(built, "records"), build("records")
})

// records runs one case of records_run on a simulated device of its own; what the
// cases look at stands there.
func records(t *testing.T, name string) {
	t.Helper()
	t.Parallel()
	simtest.Library(t) // what the program is linked to
	folder, err := recorder()
	if err != nil {
		t.Fatal(err)
	}
	onRecords(t, folder).output(t, filepath.Join(folder, "records_run"), name)
}

func onRecords(t *testing.T, folder string) run {
	t.Helper()
	device := simtest.Start(t, simtest.Scale(0.05))
	return run{driver: "-", env: append(device, "XMSCHED_LIB="+folder)}
}

func TestRecordsParameters(t *testing.T)                { records(t, "params") }
func TestRecordsEveryWayToLaunch(t *testing.T)          { records(t, "ways") }
func TestRecordsNameKernels(t *testing.T)               { records(t, "kernels") }
func TestRecordsWhileModulesComeAndGo(t *testing.T)     { records(t, "reloads") }
func TestRecordsLayersAndPeers(t *testing.T)            { records(t, "more_copies") }
func TestRecordingBeginsInTheMiddle(t *testing.T)       { records(t, "toggled") }
func TestRecordsCopies(t *testing.T)                    { records(t, "copies") }
func TestRecordsFills(t *testing.T)                     { records(t, "fills") }
func TestRecordsRangesInOrder(t *testing.T)             { records(t, "ranges") }
func TestRecordsOfGraphs(t *testing.T)                  { records(t, "graphs") }
func TestRecordsOfGraphsMadeBefore(t *testing.T)        { records(t, "graphs_late") }
func TestRecordsTensorMaps(t *testing.T)                { records(t, "maps") }
func TestRecordsOfThreadsAreWholeAndOnce(t *testing.T)  { records(t, "threads") }
func TestRecordsThatNobodyTakesAreCounted(t *testing.T) { records(t, "full") }

// TestRecordsSanitized runs every case with library and program built with sanitizers.
func TestRecordsSanitized(t *testing.T) {
	if testing.Short() {
		t.Skip("short: builds everything once more")
	}
	runtime, err := exec.Command("gcc", "-print-file-name=libasan.so").Output()
	if err != nil || !filepath.IsAbs(strings.TrimSpace(string(runtime))) {
		t.Skip("gcc has no AddressSanitizer here")
	}
	simtest.Library(t)
	if err := build("asan"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(built, "asan")
	program := filepath.Join(dir, "records", "records_run")
	names, _ := run{bare: true, driver: "-", env: []string{"LD_LIBRARY_PATH=" + simtest.Library(t)}}.output(t, program)
	for _, name := range lines(names) {
		r := onRecords(t, filepath.Join(dir, "records"))
		r.bare = true
		r.env = append(r.env, "LD_PRELOAD="+strings.TrimSpace(string(runtime))+":"+filepath.Join(dir, "libxmsched.so"), "ASAN_OPTIONS=detect_leaks=0")
		r.sanitized(t, program, name)
	}
}
