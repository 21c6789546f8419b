package measure

import (
	"fmt"

	"xmsched/nvx/sheet"
)

// interfaces say what each thing rests on: documented calls, or the driver's own
// talk with its kernel module, which may change with any version.
func interfaces() []sheet.Interface {
	return []sheet.Interface{
		{Name: "level 1", Public: true, Call: "the program's own calls, counted before they enter the driver"},
		{Name: "level 2", Public: true, Call: "cuStreamWaitValue32 on a word of pinned host memory"},
		{Name: "level 3", Public: false, Call: "NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS"},
		{Name: "time slice", Public: false, Call: "NVA06C_CTRL_CMD_SET_TIMESLICE"},
		{Name: "channels", Public: false, Call: "NV_ESC_RM_ALLOC and its kind, seen in the process's own ioctl calls"},
		{Name: "remap", Public: true, Call: "cuMemCreate, cuMemMap, cuMemSetAccess, cuMemUnmap, cuMemRelease"},
	}
}

// figures are all of them, in the order of the work: with the peer idle, busy,
// and then without it.
func (w *worker) figures(g *gpu, c *channels, p *peer) []figure {
	all := []figure{
		{name: "level 1, GPU idle", take: commandStops(g, 1, nil)},
		{name: "level 2, GPU idle", take: commandStops(g, 2, nil)},
		{name: "level 3, GPU idle", level3: true, take: w.guarded(kernelStops(g, c, nil))},
		{name: "level 1, GPU busy", take: commandStops(g, 1, p)},
		{name: "level 2, GPU busy", take: commandStops(g, 2, p)},
		{name: "level 3, GPU busy", level3: true, take: w.guarded(kernelStops(g, c, p))},
		{name: "level 3, for a request", level3: true, take: w.guarded(func(m *sheet.Measured) (err error) {
			m.Levels[2].Request, err = stopForRequest(g, c, p)
			return err
		})},
		{name: "context switch", take: func(m *sheet.Measured) (err error) {
			m.Switch, err = contextSwitch(g, p)
			return err
		}},
		{name: "time slices", level3: true, take: w.guarded(func(m *sheet.Measured) (err error) {
			m.TimeSlice, err = timeSlices(g, c, p)
			return err
		})},
		{name: "foreground", level3: true, take: w.guarded(func(m *sheet.Measured) (err error) {
			m.Foreground, err = foreground(g, c, p)
			return err
		})},
		{name: "queue depth", take: func(m *sheet.Measured) (err error) {
			m.Queue, err = queueDepth(g)
			return err
		}},
		{name: "copies", take: func(m *sheet.Measured) (err error) {
			m.Copy, err = link(g)
			return err
		}},
	}
	for _, bytes := range []uint64{2 << 20, 32 << 20} {
		all = append(all, figure{name: fmt.Sprintf("remap of %d MiB", bytes>>20), take: func(m *sheet.Measured) error {
			r, err := remap(g, bytes)
			if err == nil {
				m.Remap = append(m.Remap, r)
			}
			return err
		}})
	}
	all = append(all, figure{name: "second context", take: func(m *sheet.Measured) (err error) {
		m.Second, err = second(g)
		return err
	}})
	for _, allocator := range allocators {
		all = append(all, w.isolated(g, allocator, func(m *sheet.Measured, one sheet.Isolation) { m.Isolation = append(m.Isolation, one) }))
	}
	return append(all, w.isolated(g, hostAllocator, func(m *sheet.Measured, one sheet.Isolation) { m.HostIsolation = &one }))
}

// isolated looks into an allocator's memory.
func (w *worker) isolated(g *gpu, allocator string, put func(*sheet.Measured, sheet.Isolation)) figure {
	return figure{name: "isolation of " + allocator, take: func(m *sheet.Measured) error {
		q, err := newPeer(g.facts.UUID, w.again)
		if err != nil {
			return err
		}
		one, err := isolation(g, q, allocator)
		if err == nil {
			put(m, one)
		}
		return err
	}}
}

// guarded takes a figure only where level 3 has passed its probe.
func (w *worker) guarded(take func(*sheet.Measured) error) func(*sheet.Measured) error {
	return func(m *sheet.Measured) error {
		if offered, _ := w.sheet.Level3(); !offered {
			return nil // measure says why
		}
		return take(m)
	}
}

// beside has the peer's kernel run during f; p is nil where the GPU is to be idle.
func beside(p *peer, f func() error) error {
	if p == nil {
		return f()
	}
	if err := p.beat(); err != nil {
		return err
	}
	err := f()
	if rested := p.rest(); err == nil {
		err = rested
	}
	return err
}

func into(l *sheet.Level, p *peer) **sheet.Stops {
	if p == nil {
		return &l.Idle
	}
	return &l.Busy
}

// commandStops measures level 1 or 2.
func commandStops(g *gpu, level int, p *peer) func(*sheet.Measured) error {
	return func(m *sheet.Measured) error {
		return beside(p, func() error {
			l := &m.Levels[level-1]
			stops, err := stopCommands(g, level == 2)
			if err != nil {
				return err
			}
			*into(l, p) = stops
			l.CommandUS, l.Outstanding = microseconds(g.pace.length), outstanding
			return nil
		})
	}
}

// kernelStops measures level 3.
func kernelStops(g *gpu, c *channels, p *peer) func(*sheet.Measured) error {
	return func(m *sheet.Measured) error {
		return beside(p, func() error {
			stops, err := stopKernel(g, c)
			if err != nil {
				return err
			}
			*into(&m.Levels[2], p) = stops
			m.Levels[2].Outstanding = 1
			return nil
		})
	}
}
