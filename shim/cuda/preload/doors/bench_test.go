package doors

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// BenchmarkLaunch measures what the library adds to a launch while the task runs
// free, against a driver that does nothing: with and without us alternate, and
// the medians of the rounds are compared. Absolute times are this machine's.
func BenchmarkLaunch(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			var direct, hooked []float64
			for b.Loop() {
				direct = append(direct, launchTimes(b, run{bare: true}, threads)...)
				hooked = append(hooked, launchTimes(b, run{}, threads)...)
			}
			d, h := median(direct), median(hooked)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(d, "direct-ns")
			b.ReportMetric(h, "hooked-ns")
			b.ReportMetric(h-d, "overhead-ns")
			b.ReportMetric(h/d, "ratio")
		})
	}
}

func launchTimes(b *testing.B, r run, threads int) []float64 {
	b.Helper()
	out, _ := r.output(b, host("linked_bench"), strconv.Itoa(threads), "1000000", "7")
	var all []float64
	for _, line := range lines(out) {
		ns, err := strconv.ParseFloat(line, 64)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, ns)
	}
	return all
}

// BenchmarkProcess measures a program that never calls into CUDA.
func BenchmarkProcess(b *testing.B) {
	var direct, preloaded []float64
	for b.Loop() {
		direct = append(direct, processTime(b, run{bare: true}))
		preloaded = append(preloaded, processTime(b, run{}))
	}
	d, p := median(direct), median(preloaded)
	b.ReportMetric(d, "direct-us")
	b.ReportMetric(p, "preloaded-us")
	b.ReportMetric(p-d, "overhead-us")
}

func processTime(b *testing.B, r run) float64 {
	b.Helper()
	path, err := exec.LookPath("true")
	if err != nil {
		b.Skip(err)
	}
	cmd := r.command(context.Background(), path)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	return float64(time.Since(start).Nanoseconds()) / 1000
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
