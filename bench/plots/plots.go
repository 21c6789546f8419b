// Package plots draws what the rows say: latency by percentile, and bars.
//
// A picture is written as PNG and SVG beside each other. A picture of simulated
// times says so in its title; there is no way to leave that out.
// Pure but for writing files.
package plots

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/google/renameio/v2"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	width  = 18 * vg.Centimeter
	height = 11 * vg.Centimeter
)

// Colours of Okabe and Ito: told apart by people with any colour vision.
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, // blue
	color.RGBA{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	color.RGBA{0x00, 0x9e, 0x73, 0xff}, // green
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, // purple
}

// dashes tell lines apart without colour.
var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}, {vg.Points(8), vg.Points(2), vg.Points(2), vg.Points(2)}}

// Caption is what a picture says around its data.
type Caption struct {
	Title     string
	Device    string
	Simulated bool
}

func (c Caption) text() string {
	s := c.Title
	if c.Simulated {
		s += " (simulated)"
	}
	if c.Device != "" {
		s += "\n" + c.Device
	}
	return s
}

// Series is a named set of latencies in microseconds.
type Series struct {
	Name     string
	SampleUS []float64
}

// Latency draws each series' latency over its percentile on a scale that gives
// each further nine the same width (50 %, 90 %, 99 %, 99.9 %), latency
// logarithmic, and writes path.png and path.svg.
func Latency(path string, c Caption, series ...Series) error {
	p := base(c)
	p.X.Label.Text = "percentile of requests"
	p.Y.Label.Text = "latency (us)"
	p.Y.Scale = plot.LogScale{}
	p.Legend.Top, p.Legend.Left = true, true
	deepest := 0.0
	low, high := math.Inf(1), 0.0
	for i, s := range series {
		points, err := percentilePoints(s)
		if err != nil {
			return fmt.Errorf("plot %s: %w", s.Name, err)
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("plot %s: %w", s.Name, err)
		}
		line.Width = vg.Points(2)
		line.Color = palette[i%len(palette)]
		line.Dashes = dashes[i%len(dashes)]
		p.Add(line)
		p.Legend.Add(s.Name, line)
		deepest = max(deepest, points[len(points)-1].X)
		low, high = min(low, points[0].Y), max(high, points[len(points)-1].Y)
	}
	if len(series) == 0 {
		return errors.New("plot: no series")
	}
	p.X.Min, p.X.Max = 0, deepest
	p.X.Tick.Marker = nineTicks(deepest)
	// Room above for the legend, and whole digits at both ends.
	p.Y.Min, p.Y.Max = low*0.8, high*2
	p.Y.Tick.Marker = logTicks{}
	return write(path, p)
}

// percentilePoints places sample i of n at -log10(1 - share below it), so that
// 90 % is at 1, 99 % at 2. At most some 400 points a line are kept, densest
// where the tail is.
func percentilePoints(s Series) (plotter.XYs, error) {
	n := len(s.SampleUS)
	if n == 0 {
		return nil, errors.New("no samples")
	}
	sorted := slices.Clone(s.SampleUS)
	slices.Sort(sorted)
	if !(sorted[0] > 0) || math.IsInf(sorted[n-1], 0) {
		return nil, errors.New("a latency is not a positive number")
	}
	var out plotter.XYs
	last := -1.0
	for i, v := range sorted {
		x := -math.Log10(1 - float64(i)/float64(n))
		if i > 0 && i < n-1 && x-last < 0.005 {
			continue
		}
		out = append(out, plotter.XY{X: x, Y: v})
		last = x
	}
	return out, nil
}

func nineTicks(deepest float64) plot.ConstantTicks {
	ticks := plot.ConstantTicks{{Value: 0, Label: "0"}}
	for _, share := range []struct {
		below float64
		label string
	}{{0.5, "50"}, {0.9, "90"}, {0.99, "99"}, {0.999, "99.9"}, {0.9999, "99.99"}} {
		if x := -math.Log10(1 - share.below); x <= deepest {
			ticks = append(ticks, plot.Tick{Value: x, Label: share.label})
		}
	}
	return ticks
}

// logTicks labels 1, 2 and 5 of each decade: a latency axis rarely spans more
// than two decades, where labels at whole decades alone would say little.
type logTicks struct{}

func (logTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for m := 1.0; m < 10; m++ {
			v := m * decade
			if v < low || v > high {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || m == 2 || m == 5 {
				t.Label = strconv.FormatFloat(v, 'f', -1, 64)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// Bar is one named value.
type Bar struct {
	Name  string
	Value float64
}

// Bars draws named values side by side and writes path.png and path.svg.
func Bars(path string, c Caption, unit string, bars ...Bar) error {
	if len(bars) == 0 {
		return errors.New("plot: no bars")
	}
	p := base(c)
	p.Y.Label.Text = unit
	p.Y.Min = 0
	names := make([]string, len(bars))
	highest := 0.0
	for i, b := range bars {
		chart, err := plotter.NewBarChart(plotter.Values{b.Value}, vg.Points(60))
		if err != nil {
			return fmt.Errorf("plot %s: %w", b.Name, err)
		}
		chart.XMin = float64(i)
		chart.Color = palette[i%len(palette)]
		chart.LineStyle.Width = 0
		p.Add(chart)
		label, err := plotter.NewLabels(plotter.XYLabels{
			XYs:    plotter.XYs{{X: float64(i), Y: b.Value}},
			Labels: []string{strconv.FormatFloat(b.Value, 'f', 1, 64)},
		})
		if err != nil {
			return fmt.Errorf("plot %s: %w", b.Name, err)
		}
		label.TextStyle[0].XAlign = draw.XCenter
		label.TextStyle[0].Font.Size = vg.Points(11)
		label.Offset.Y = vg.Points(4)
		p.Add(label)
		names[i] = b.Name
		highest = max(highest, b.Value)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(bars))-0.4
	p.Y.Max = highest * 1.15
	if highest == 0 {
		p.Y.Max = 1
	}
	return write(path, p)
}

func base(c Caption) *plot.Plot {
	p := plot.New()
	p.Title.Text = c.text()
	p.Title.Padding = vg.Points(8)
	p.Title.TextStyle.Font = font.From(p.Title.TextStyle.Font, vg.Points(13))
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Label.Padding, p.Y.Label.Padding = vg.Points(4), vg.Points(4)
	p.Legend.Padding = vg.Points(3)
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(10), vg.Points(-8)
	grid := plotter.NewGrid()
	grid.Vertical.Color = color.Gray{0xdd}
	grid.Horizontal.Color = color.Gray{0xdd}
	p.Add(grid)
	return p
}

// write renders both forms; each file appears whole or not at all.
func write(path string, p *plot.Plot) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write plot: %w", err)
	}
	for _, format := range []string{"png", "svg"} {
		w, err := p.WriterTo(width, height, format)
		if err != nil {
			return fmt.Errorf("draw plot: %w", err)
		}
		var buf bytes.Buffer
		if _, err := w.WriteTo(&buf); err != nil {
			return fmt.Errorf("draw plot: %w", err)
		}
		if err := renameio.WriteFile(path+"."+format, buf.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write plot: %w", err)
		}
	}
	return nil
}

// Line is a named set of points with positive co-ordinates.
type Line struct {
	Name string
	X, Y []float64
}

// Lines draws lines on logarithmic scales of both axes and writes path.png and
// path.svg.
func Lines(path string, c Caption, x, y string, lines ...Line) error {
	if len(lines) == 0 {
		return errors.New("plot: no lines")
	}
	p := base(c)
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Legend.Top, p.Legend.Left = true, true
	low, high, left, right := math.Inf(1), 0.0, math.Inf(1), 0.0
	for i, l := range lines {
		if len(l.X) == 0 || len(l.X) != len(l.Y) {
			return fmt.Errorf("plot %s: %d and %d co-ordinates", l.Name, len(l.X), len(l.Y))
		}
		points := make(plotter.XYs, len(l.X))
		for j := range l.X {
			if !(l.X[j] > 0) || !(l.Y[j] > 0) || math.IsInf(l.X[j], 0) || math.IsInf(l.Y[j], 0) {
				return fmt.Errorf("plot %s: %v, %v is not on a logarithmic scale", l.Name, l.X[j], l.Y[j])
			}
			points[j] = plotter.XY{X: l.X[j], Y: l.Y[j]}
			low, high = min(low, l.Y[j]), max(high, l.Y[j])
			left, right = min(left, l.X[j]), max(right, l.X[j])
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("plot %s: %w", l.Name, err)
		}
		line.Width = vg.Points(2)
		line.Color, dots.Color = palette[i%len(palette)], palette[i%len(palette)]
		line.Dashes = dashes[i%len(dashes)]
		p.Add(line, dots)
		p.Legend.Add(l.Name, line)
	}
	p.X.Min, p.X.Max = left*0.8, right*1.25
	p.X.Tick.Marker = decades{}
	p.Y.Min, p.Y.Max = low*0.5, high*4
	p.Y.Tick.Marker = decades{}
	return write(path, p)
}

// decades labels whole decades: an axis of many has no room for more.
type decades struct{}

func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for d := math.Pow(10, math.Floor(math.Log10(low))); d <= high; d *= 10 {
		if d >= low {
			ticks = append(ticks, plot.Tick{Value: d, Label: strconv.FormatFloat(d, 'f', -1, 64)})
		}
	}
	return ticks
}
