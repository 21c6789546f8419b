package plots

import (
	"image/png"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func skewed(n int, base, tail float64) []float64 {
	r := rand.New(rand.NewSource(1))
	out := make([]float64, n)
	for i := range out {
		out[i] = base + r.ExpFloat64()*tail
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLatencySaysSimulated(t *testing.T) {
	dir := t.TempDir()
	series := []Series{
		{Name: "alone", SampleUS: skewed(1000, 450, 10)},
		{Name: "sharing without us", SampleUS: skewed(1000, 900, 600)},
		{Name: "under xmsched", SampleUS: skewed(1000, 455, 12)},
	}
	for _, simulated := range []bool{false, true} {
		path := filepath.Join(dir, "sub", "latency")
		if err := Latency(path, Caption{Title: "Latency", Device: "Test GPU", Simulated: simulated}, series...); err != nil {
			t.Fatal(err)
		}
		svg := read(t, path+".svg")
		if got := strings.Contains(svg, "simulated"); got != simulated {
			t.Errorf("simulated is %v, the title says so: %v", simulated, got)
		}
		for _, want := range []string{"Latency", "Test GPU", "alone", "under xmsched", "latency (us)", ">99<", ">500<"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%q is not in the picture", want)
			}
		}
		f, err := os.Open(path + ".png")
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if b := img.Bounds(); b.Dx() < 400 || b.Dy() < 250 {
			t.Errorf("the PNG is only %v", b)
		}
	}
}

func TestBars(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bars")
	err := Bars(path, Caption{Title: "Background", Simulated: true}, "kernels/s", Bar{"alone", 203}, Bar{"native", 171}, Bar{"xmsched", 0})
	if err != nil {
		t.Fatal(err)
	}
	svg := read(t, path+".svg")
	for _, want := range []string{"simulated", "203.0", "native", "kernels/s"} {
		if !strings.Contains(svg, want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
}

func TestRefusesWhatCannotBeDrawn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for name, samples := range map[string][]float64{
		"none": nil, "zero": {0, 1}, "negative": {-1, 2}, "NaN": {1, math.NaN()}, "infinite": {1, math.Inf(1)},
	} {
		if err := Latency(path, Caption{}, Series{Name: name, SampleUS: samples}); err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
	if err := Latency(path, Caption{}); err == nil {
		t.Error("a picture of nothing was drawn")
	}
	if err := Bars(path, Caption{}, "x"); err == nil {
		t.Error("bars of nothing were drawn")
	}
	if _, err := os.Stat(path + ".png"); err == nil {
		t.Error("a file was left by a refused plot")
	}
}

func TestPointsAreFewAndReachTheTail(t *testing.T) {
	points, err := percentilePoints(Series{SampleUS: skewed(100_000, 450, 10)})
	if err != nil {
		t.Fatal(err)
	}
	if len(points) > 1100 {
		t.Errorf("%d points for one line", len(points))
	}
	if last := points[len(points)-1].X; math.Abs(last-5) > 1e-6 {
		t.Errorf("the slowest of 100,000 is drawn at %v nines, want 5", last)
	}
}

func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	line := Line{Name: "armed", X: []float64{10, 1000, 5e6}, Y: []float64{190, 200, 180}}
	if err := Lines(path, Caption{Title: "t", Simulated: true}, "x", "y", line); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(path + ".svg")
	if err != nil || !strings.Contains(string(svg), "(simulated)") {
		t.Errorf("the picture does not say that it is simulated: %v", err)
	}
	for name, bad := range map[string][]Line{
		"none": nil, "no points": {{Name: "a"}}, "unequal": {{X: []float64{1}, Y: []float64{1, 2}}}, "zero": {{X: []float64{1}, Y: []float64{0}}},
	} {
		if Lines(path, Caption{}, "x", "y", bad...) == nil {
			t.Errorf("%s: drawn", name)
		}
	}
}
