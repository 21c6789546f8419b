package choose

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var record = flag.Bool("record", false, "write the traces in testdata anew")

// request is one request of a foreground: kernels of one length, launched one after
// the other and waited for at the end.
type request struct {
	start   time.Duration // not before; after the one before it
	kernels int
	kernel  time.Duration // length of each on the device
	launch  time.Duration // CPU time between two launches
}

// traces are the recorded ones, and how they were made.
var traces = map[string]func(*rand.Rand) []request{
	// Inference of a small network: 0.45 ms every 3 ms.
	"short": func(r *rand.Rand) []request { return periodic(r, 600, 3*time.Millisecond, 450*time.Microsecond) },
	// Of a larger one: 6 ms every 12 ms.
	"long": func(r *rand.Rand) []request { return periodic(r, 200, 12*time.Millisecond, 6*time.Millisecond) },
	// The same, back again after less than a suspension and a resumption take.
	"frequent": func(r *rand.Rand) []request {
		return periodic(r, 300, 4700*time.Microsecond, 4*time.Millisecond)
	},
	// Most are short, one of eight is not.
	"mixed": func(r *rand.Rand) []request {
		list := periodic(r, 300, 8*time.Millisecond, 450*time.Microsecond)
		for i := range list {
			if r.IntN(8) == 0 {
				list[i].kernel = 5 * time.Millisecond
			}
		}
		return list
	},
	// Decoding of a language model, bound by the CPU: bursts of tokens that follow
	// each other after 20 us, of 150 kernels each that the CPU launches more slowly
	// than the GPU runs them.
	"decode": func(r *rand.Rand) []request {
		var list []request
		at := time.Duration(0)
		for range 6 {
			for range 30 {
				q := request{start: at, kernels: 150, kernel: 28 * time.Microsecond, launch: around(r, 90*time.Microsecond)}
				list = append(list, q)
				at += time.Duration(q.kernels)*q.launch + 20*time.Microsecond
			}
			at += around(r, 200*time.Millisecond)
		}
		return list
	},
	// Training that launches as fast as its queue takes it: by its own account it
	// spends its time launching, but it is the device that it waits for.
	"training": func(r *rand.Rand) []request {
		list := make([]request, 800)
		for i := range list {
			list[i] = request{kernels: 30, kernel: 460 * time.Microsecond, launch: around(r, 430*time.Microsecond)}
		}
		return list
	},
	// Requests that come when they like.
	"rare": func(r *rand.Rand) []request {
		list := make([]request, 60)
		at := time.Duration(0)
		for i := range list {
			at += time.Duration(r.ExpFloat64() * float64(120*time.Millisecond))
			list[i] = request{start: at, kernels: 1, kernel: around(r, 2*time.Millisecond)}
		}
		return list
	},
}

// around varies a length by a tenth.
func around(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*r.Float64())).Round(time.Microsecond)
}

func periodic(r *rand.Rand, n int, period, length time.Duration) []request {
	list := make([]request, n)
	at := time.Duration(0)
	for i := range list {
		list[i] = request{start: at, kernels: 1, kernel: around(r, length)}
		at += around(r, period)
	}
	return list
}

func tracePath(name string) string { return filepath.Join("testdata", name+".trace") }

// write writes a trace as text: a request a line, times in us.
func write(list []request) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "# start_us kernels kernel_us launch_us")
	for _, q := range list {
		fmt.Fprintln(&b, q.start.Microseconds(), q.kernels, q.kernel.Microseconds(), q.launch.Microseconds())
	}
	return b.Bytes()
}

func readTrace(t *testing.T, name string) []request {
	t.Helper()
	text, err := os.ReadFile(tracePath(name))
	if err != nil {
		t.Fatal(err)
	}
	var list []request
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if lines.Text()[0] == '#' {
			continue
		}
		var start, kernels, kernel, launch int
		if n, err := fmt.Sscan(lines.Text(), &start, &kernels, &kernel, &launch); n != 4 {
			t.Fatalf("%s: %q: %v", name, lines.Text(), err)
		}
		us := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
		list = append(list, request{us(start), kernels, us(kernel), us(launch)})
	}
	return list
}

// TestTracesAreAsRecorded holds the files against their generator.
func TestTracesAreAsRecorded(t *testing.T) {
	for name, make := range traces {
		want := write(make(rand.New(rand.NewPCG(11, 12))))
		if *record {
			if err := os.WriteFile(tracePath(name), want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(tracePath(name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is not what its generator makes: -record writes it anew", name)
		}
	}
}
