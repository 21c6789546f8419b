package main

import (
	"fmt"
	"io"
	"strings"

	"xmsched/cmd/internal/cli"
	"xmsched/nvx/sheet"
)

// show prints a sheet.
func (d *deviceOptions) show(w io.Writer, s shown, more bool) error {
	if d.json {
		return cli.JSON(w, s)
	}
	if more {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	p := page{w: w, sheet: s.Sheet, from: "measured"}
	if s.Simulated {
		p.from = "simulated"
	}
	p.head()
	if d.probe || s.Measured == nil {
		return p.err
	}
	p.levels()
	p.figures()
	p.differences(s)
	return p.err
}

// page writes a sheet for people; every figure says where it comes from.
type page struct {
	w     io.Writer
	sheet *sheet.Sheet
	from  string
	err   error // the first
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *page) table(t *cli.Table) {
	if p.err == nil && t.Len() > 0 {
		p.err = t.Write(p.w)
	}
}

func (p *page) head() {
	d, v := p.sheet.Device, p.sheet.Driver
	p.printf("%s  %s\n", cli.Paint(p.w, cli.Bold, d.Name), d.UUID)
	if p.sheet.Simulated {
		p.printf("%s: its figures say nothing about a real GPU\n", cli.Paint(p.w, cli.Yellow, "simulated"))
	}
	module := ""
	if v.Module != "" {
		module = " (" + v.Module + " kernel module)"
	}
	p.printf("driver %s%s, CUDA %s; compute capability %s, %d multiprocessors, %s\n",
		v.Version, module, v.CUDA, d.ComputeCapability, d.Multiprocessors, size(d.MemoryBytes))
	offered, why := p.sheet.Level3()
	verdict := cli.Paint(p.w, cli.Green, "works here")
	if !offered {
		verdict = cli.Paint(p.w, cli.Yellow, "is not offered: ") + why
	}
	p.printf("level 3 %s\n", verdict)
	if p.sheet.Probe != nil {
		for _, n := range p.sheet.Probe.Notes {
			p.printf("  %s\n", n)
		}
	}
}

func (p *page) levels() {
	m := p.sheet.Measured
	p.printf("\n%s %s in %.1f s; times are median / worst\n", p.from, m.At.Format("2006-01-02 15:04 MST"), m.TookMS/1e3)
	t := cli.NewTable("LEVEL", "STOPS AT", "API", "STOP, GPU IDLE", "STOP, BUSY", "GOES ON, IDLE", "GOES ON, BUSY", "FROM")
	for _, l := range m.Levels {
		at := l.Unit
		if l.CommandUS > 0 {
			at += fmt.Sprintf(" (%d of %s)", l.Outstanding, micros(l.CommandUS))
		}
		t.Row(l.Level, at, api(m, fmt.Sprintf("level %d", l.Level)), stop(l.Idle), stop(l.Busy), resume(l.Idle), resume(l.Busy), p.from)
		if l.Request != nil { // the other process runs only while this one stands still
			t.Row("", "  armed (1 us), for another's request", "", "-", stop(l.Request), resume(l.Request), "-", p.from)
		}
	}
	p.table(t)
}

// api says what something rests on.
func api(m *sheet.Measured, name string) string {
	for _, i := range m.Interfaces {
		if i.Name == name && i.Public {
			return "public"
		} else if i.Name == name {
			return "driver-internal"
		}
	}
	return "-"
}

func stop(s *sheet.Stops) string {
	if s == nil {
		return "-"
	}
	return span(s.Stop)
}

func resume(s *sheet.Stops) string {
	if s == nil {
		return "-"
	}
	return span(s.Resume)
}

// figures are the rest, a line each.
func (p *page) figures() {
	m := p.sheet.Measured
	p.printf("\n")
	t := cli.NewTable("WHAT", "IS", "FROM")
	row := func(what, format string, args ...any) { t.Row(what, fmt.Sprintf(format, args...), p.from) }
	if w := m.Switch; w != nil {
		row("context switch in mid-kernel", "%s", span(w.Cost))
		row("  two busy processes", "turns of %s, %.1f and %.1f %% of the GPU", micros(w.TurnUS), w.SharePercent, w.OtherSharePercent)
	}
	if f := m.Foreground; f != nil {
		row("another process's empty command", "alone %s, beside a busy process %s", span(f.Alone), span(f.Beside))
		row("  the busy one armed (1 us)", "%s", span(f.Armed))
		row("  the busy one suspended", "%s", span(f.Stopped))
	}
	if s := m.TimeSlice; s != nil {
		row("time slice", "accepted %s to %s", micros(float64(s.LowestUS)), micros(float64(s.HighestUS)))
		row("  setting it", "GPU idle %s, busy %s", span(s.SetIdle), span(s.SetBusy))
		for _, one := range s.Tried {
			if !one.Accepted {
				row("  of "+micros(float64(one.AskedUS)), "refused: %s", one.Status)
				continue
			}
			row("  of "+micros(float64(one.AskedUS)), "turns of %s, %.1f %% of the GPU beside %.1f %% of a process with the default", micros(one.TurnUS), one.SharePercent, one.OtherSharePercent)
		}
	}
	if q := m.Queue; q != nil {
		row("commands that a queue takes", "%s; bounded to any number from %d to %d", depth(q), q.BoundLowest, q.BoundHighest)
	}
	p.memory(m, row)
	if m.HostIsolation == nil { // sheets of earlier versions say nothing of it
		t.Row("freed host memory", "not measured", "")
	}
	for _, i := range m.Interfaces {
		t.Row(i.Name+" rests on", i.Call+map[bool]string{true: " (public)", false: " (driver-internal)"}[i.Public], "")
	}
	for _, missing := range m.Missing {
		t.Row("no figure for "+missing.Figure, missing.Why, "")
	}
	p.table(t)
}

func depth(q *sheet.Queue) string {
	if q.Blocks {
		return fmt.Sprintf("%d, then a launch blocks", q.DepthCommands)
	}
	return fmt.Sprintf("%d or more", q.DepthCommands)
}

func (p *page) memory(m *sheet.Measured, row func(what, format string, args ...any)) {
	if c := m.Copy; c != nil {
		row("copy engines", "%d", p.sheet.Device.CopyEngines)
		row("link, one way", "%.1f GB/s to the device, %.1f GB/s from it, %.1f GB/s beside a kernel", c.ToDeviceGBs, c.FromDeviceGBs, c.BesideKernelGBs)
		row("link, both ways", "%.1f GB/s to the device and %.1f GB/s from it", c.BothToGBs, c.BothFromGBs)
	}
	for _, r := range m.Remap {
		row("remap "+size(r.Bytes), "create %s, map %s, set access %s, unmap %s, release %s", span(r.Create), span(r.Map), span(r.SetAccess), span(r.Unmap), span(r.Release))
	}
	if s := m.Second; s != nil {
		row("second context", "%.0f ms to make, %.0f ms to end, %s of device memory", s.CreateMS, s.DestroyMS, size(s.MemoryBytes))
	}
	for _, i := range m.Isolation {
		row("freed memory of "+i.Allocator, "%s", isolation(i))
	}
	if i := m.HostIsolation; i != nil {
		row("freed host memory of "+i.Allocator, "%s", isolation(*i))
	}
}

func isolation(i sheet.Isolation) string {
	verdict := "nothing of it seen"
	if i.Visible() {
		verdict = fmt.Sprintf("VISIBLE: %d of its words seen", i.WordsSeen)
	}
	return fmt.Sprintf("%s: %s written by one process, %s read by the next, of %s free", verdict, size(i.WrittenBytes), size(i.ReadBytes), size(i.FreeBytes))
}

func (p *page) differences(s shown) {
	if s.Previous == "" {
		return
	}
	if len(s.Differences) == 0 {
		p.printf("\nno difference from driver %s\n", s.Previous)
		return
	}
	p.printf("\nsince driver %s:\n", s.Previous)
	for _, d := range s.Differences {
		p.printf("  %s\n", d)
	}
}

// span is median / worst, in one unit.
func span(t *sheet.Times) string {
	if t == nil {
		return "-"
	}
	unit, per := "us", 1.0
	if t.WorstUS >= 10_000 {
		unit, per = "ms", 1000
	}
	return digits(t.MedianUS/per) + " / " + digits(t.WorstUS/per) + " " + unit
}

// micros is a length of time that is given in microseconds.
func micros(us float64) string {
	if us >= 10_000 {
		return digits(us/1000) + " ms"
	}
	return digits(us) + " us"
}

// digits shows three, or all before the point.
func digits(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}

// size is a number of bytes.
func size(n uint64) string {
	switch {
	case n >= 1<<30:
		return digits(float64(n)/(1<<30)) + " GiB"
	case n >= 1<<20:
		return digits(float64(n)/(1<<20)) + " MiB"
	}
	return fmt.Sprintf("%d bytes", n)
}
