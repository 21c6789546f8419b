package doors

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// BenchmarkLaunch measures what the library adds to a launch while the task runs
// free, against a driver that does nothing: with and without us alternate, and
// the lower quartiles of the rounds are compared, because what else the machine
// does only adds. Absolute times are this machine's.
func BenchmarkLaunch(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			var direct, hooked []float64
			for b.Loop() {
				for range 5 {
					direct = append(direct, launchTimes(b, run{bare: true}, threads)...)
					hooked = append(hooked, launchTimes(b, run{}, threads)...)
				}
			}
			d, h := quartile(direct), quartile(hooked)
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
	out, _ := r.output(b, host("linked_bench"), strconv.Itoa(threads), "500000", "5")
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

// BenchmarkProcess measures a program that never calls into CUDA: without us,
// with any library preloaded, and with ours.
func BenchmarkProcess(b *testing.B) {
	empty := filepath.Join(b.TempDir(), "empty.so")
	if out, err := exec.Command("gcc", "-shared", "-x", "c", "/dev/null", "-o", empty).CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	var direct, other, preloaded []float64
	for b.Loop() {
		direct = append(direct, processTime(b, run{bare: true}))
		other = append(other, processTime(b, run{bare: true, more: empty}))
		preloaded = append(preloaded, processTime(b, run{}))
	}
	d, p := quartile(direct), quartile(preloaded)
	b.ReportMetric(d, "direct-us")
	b.ReportMetric(quartile(other), "any-preload-us")
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

func quartile(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/4]
}

// BenchmarkIoctl measures what the library adds to an ioctl that is not the
// resource manager's, and to one that is but is passed on unread.
func BenchmarkIoctl(b *testing.B) {
	var direct, hooked [2][]float64
	for b.Loop() {
		for range 5 {
			ioctlTimes(b, run{bare: true}, &direct)
			ioctlTimes(b, run{}, &hooked)
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"other", "mapping"} {
		d, h := slices.Min(direct[i]), slices.Min(hooked[i]) // a call is short: what else the machine does only adds
		b.ReportMetric(d, name+"-direct-ns")
		b.ReportMetric(h-d, name+"-overhead-ns")
	}
}

func ioctlTimes(b *testing.B, r run, into *[2][]float64) {
	b.Helper()
	out, _ := r.output(b, host("host_ioctls"), "200000", "5")
	for _, line := range lines(out) {
		var other, mapping float64
		if _, err := fmt.Sscan(line, &other, &mapping); err != nil {
			b.Fatal(err)
		}
		into[0], into[1] = append(into[0], other), append(into[1], mapping)
	}
}

// BenchmarkRecords measures what recording adds to a launch of three parameters.
func BenchmarkRecords(b *testing.B) {
	folder, err := recorder()
	if err != nil {
		b.Fatal(err)
	}
	r := run{env: []string{"XMSCHED_LIB=" + folder}}
	var off, on []float64
	for b.Loop() {
		out, _ := r.output(b, host("linked_records"), "10")
		for _, line := range lines(out) {
			var without, with float64
			if _, err := fmt.Sscan(line, &without, &with); err != nil {
				b.Fatal(err)
			}
			off, on = append(off, without), append(on, with)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(quartile(off), "off-ns")
	b.ReportMetric(quartile(on), "on-ns")
	b.ReportMetric(quartile(on)-quartile(off), "record-ns")
}

// BenchmarkPool prints what an allocation in the order of a stream and its free cost from memory that is
// kept, ours and the simulated driver's: of the sizes that pool_run tries, and an event's record.
func BenchmarkPool(b *testing.B) {
	folder, err := keeper()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, who := range []string{"ours", "driver"} {
			r := onMemory(b, folder)
			if who == "driver" {
				r.env = append(r.env, "XMSCHED_MEMORY=0")
				r.bare = true
			}
			out, _ := r.output(b, filepath.Join(folder, "pool_run"), "pool_speed")
			b.Logf("%s:\n%s", who, out)
		}
	}
}
