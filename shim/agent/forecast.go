package agent

import (
	"iter"
	"math"
	"sync"
	"time"

	"xmsched/compute"
	"xmsched/memory"
	"xmsched/nvx/mover"
	"xmsched/predictor"
	"xmsched/preempt/board"
)

// Forecast foresees what the program's coming commands touch: from its records, from
// what is known of its kernels, and from the period in which programs repeat
// themselves. It is the mover's Uses: a wrong word of it costs time and nothing else.
//
// One goroutine feeds it (foresee.go); others ask.
type Forecast struct {
	commands  Commands
	knowledge *Knowledge

	mu       sync.Mutex // protects all below
	since    uint64     // all commands since then were seen, CLOCK_MONOTONIC in ns; 0: none are
	ranges   predictor.Ranges
	kernels  kernelModels
	graphs   map[uint64]*graphTouches
	sections [board.Devices]*sectionForecast
	touches  []predictor.Touch // of the command at hand
}

// NewForecast foresees nothing until it is fed.
func NewForecast(commands Commands, knowledge *Knowledge) *Forecast {
	return &Forecast{commands: commands, knowledge: knowledge}
}

// graphTouches is what a graph touches, as of a version.
type graphTouches struct {
	version uint64
	touches []predictor.Touch
	known   knowing
}

// knowing is what is known of what a command touches.
type knowing uint8

const (
	blind  knowing = iota // nothing, or not all
	wide                  // no more than it does, and what of it is written may be read alone
	learnt                // what it does
)

// maxGraphs bounds the graphs that are remembered; a program has few at a time.
const maxGraphs = 4096

// sectionForecast is one device's.
type sectionForecast struct {
	plan    *predictor.Plan
	queues  map[int]*queueTimes
	written map[uint64]write // of a block of 2 MiB, as far as is known
	turn    time.Duration    // as was last asked for

	commands uint64 // so many were taken in
	unknown  uint64 // number of the last that did not say what it touches; 0: none
	blindAt  uint64 // when that was
}

// write is when something was last written, 0 for never: by a command of which it is
// known, and by one that may have.
type write struct{ sure, maybe uint64 }

// begin starts anew at a time of CLOCK_MONOTONIC: what was before is not known. 0:
// nothing is foreseen from now on.
func (f *Forecast) begin(at uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since, f.ranges = at, predictor.Ranges{}
	f.kernels, f.graphs = kernelModels{}, map[uint64]*graphTouches{}
	f.sections = [board.Devices]*sectionForecast{}
}

// take takes records in, in their order.
func (f *Forecast) take(records []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(records) > 0 {
		c, rest, err := NextCommand(records)
		if err != nil {
			return err
		}
		f.command(&c)
		records = rest
	}
	return nil
}

// command takes one in. Precondition: mu is held.
func (f *Forecast) command(c *Command) {
	switch r, ok := c.Range(); {
	case c.Kind == CommandAlloc && ok:
		f.ranges.Add(predictor.Range{Base: r.Base, Bytes: r.Bytes})
		return
	case c.Kind == CommandFree && ok:
		f.ranges.Remove(r.Base)
		return
	}
	if c.Section < 0 || c.Section >= len(f.sections) {
		return
	}
	s := f.sections[c.Section]
	if s == nil {
		s = &sectionForecast{
			plan:   predictor.NewPlan(predictor.PlanConfig{Ranges: &f.ranges}),
			queues: map[int]*queueTimes{}, written: map[uint64]write{}, turn: compute.DefaultQuantum,
		}
		f.sections[c.Section] = s
	}
	touches, known := f.touch(c, f.touches[:0])
	f.touches = touches
	s.commands++
	if known == blind {
		s.unknown, s.blindAt = s.commands, c.At
	}
	id := identity(c)
	s.plan.Submit(predictor.Command{Queue: uint32(c.Queue), Sequence: c.Sequence, ID: id, Touches: touches})
	s.submitted(c, id, touches)
	for i := range touches {
		s.write(&touches[i], c.At, known == learnt)
	}
}

// identity is what is the same when a command comes again.
func identity(c *Command) uint64 {
	what := uint64(c.Kernel)
	switch c.Kind {
	case CommandGraph:
		what, _, _ = c.GraphLaunch()
	case CommandCopy:
		what = uint64(c.Flags & (CommandFromHost | CommandToHost | CommandFromArray | CommandToArray))
	}
	return what<<8 | uint64(c.Kind)
}

// touch adds what a command touches, and says what is known of that. Precondition: mu
// is held.
func (f *Forecast) touch(c *Command, to []predictor.Touch) (_ []predictor.Touch, known knowing) {
	if !c.whole() {
		return to, blind
	}
	switch c.Kind {
	case CommandKernel:
		return f.launch(c, to)
	case CommandCopy:
		y, ok := c.Copy()
		if ok && c.Flags&(CommandToHost|CommandToArray) == 0 {
			to = append(to, rows(y.To, y.Width, y.Height, y.Depth, y.ToPitch, y.ToSlice, predictor.Write))
		}
		if ok && c.Flags&(CommandFromHost|CommandFromArray) == 0 {
			to = append(to, rows(y.From, y.Width, y.Height, y.Depth, y.FromPitch, y.FromSlice, predictor.Read))
		}
		return to, learntIf(ok)
	case CommandFill:
		y, ok := c.Fill()
		if ok {
			to = append(to, rows(y.To, y.Width, y.Height, 1, y.Pitch, 0, predictor.Write))
		}
		return to, learntIf(ok)
	case CommandGraph:
		return f.graph(c, to)
	case CommandPrefetch:
		if r, ok := c.Range(); ok && r.Device >= 0 {
			to = append(to, predictor.Touch{Base: r.Base, Bytes: r.Bytes, Access: predictor.Read})
		}
		return to, learnt
	}
	return to, blind
}

func learntIf(ok bool) knowing {
	if ok {
		return learnt
	}
	return blind
}

// rows is what a copy touches: rows in one layer, all that layers span in several.
func rows(base, width, height, depth, pitch, slice uint64, a predictor.Access) predictor.Touch {
	t := predictor.Touch{Base: base, Bytes: width, Access: a}
	if height > 1 && height <= math.MaxUint32 {
		t.Stride, t.Count = pitch, uint32(height)
	}
	if depth > 1 {
		whole := t.Span()
		t = predictor.Touch{Base: base, Bytes: slice*(depth-1) + whole.Bytes, Access: a}
	}
	return t
}

func (f *Forecast) launch(c *Command, to []predictor.Touch) (_ []predictor.Touch, known knowing) {
	m := f.kernels.of(c.Kernel, f.commands, f.knowledge)
	if m == nil {
		return to, blind
	}
	launch := LaunchOf(c)
	f.knowledge.mu.Lock() // somebody may learn of it
	to, basis := m.AppendTouches(to, &launch, &f.ranges)
	f.knowledge.mu.Unlock()
	switch {
	case basis == predictor.None:
		return to, blind
	case basis < predictor.Guessed:
		return to, wide
	}
	return to, learnt
}

// graph is the union of what a graph's nodes touch.
func (f *Forecast) graph(c *Command, to []predictor.Touch) (_ []predictor.Touch, known knowing) {
	id, version, ok := c.GraphLaunch()
	if !ok {
		return to, blind
	}
	g := f.graphs[id]
	if g == nil || g.version != version {
		if len(f.graphs) >= maxGraphs {
			clear(f.graphs)
		}
		g = f.read(id)
		f.graphs[id] = g
	}
	return append(to, g.touches...), g.known
}

func (f *Forecast) read(id uint64) *graphTouches {
	records, version, err := f.commands.Graph(id, nil)
	g := &graphTouches{version: version, known: learntIf(err == nil)}
	for len(records) > 0 {
		c, rest, err := NextCommand(records)
		if err != nil {
			g.known = blind
			break
		}
		if c.Flags&CommandDisabled == 0 && c.Kind != CommandGraph {
			var known knowing
			g.touches, known = f.touch(&c, g.touches)
			g.known = min(g.known, known)
		}
		records = rest
	}
	return g
}

// maxBlocks bounds what is noted of one touch: beyond it lies 1 TiB.
const maxBlocks = 1 << 19

// write notes that what a command writes was written, or may have been.
func (s *sectionForecast) write(t *predictor.Touch, at uint64, sure bool) {
	if t.Access&predictor.Write == 0 {
		return
	}
	chunks(t, func(base, bytes uint64) bool {
		first, last := base/predictor.Block, (base+bytes-1)/predictor.Block
		for b := first; b <= last && b-first < maxBlocks; b++ {
			w := s.written[b]
			if sure {
				w.sure = at
			} else {
				w.maybe = at
			}
			s.written[b] = w
		}
		return true
	})
}

// maxChunks is up to how many chunks a touch is taken apart; what has more is taken
// as a whole.
const maxChunks = 4096

// chunks calls yield with the stretches of a touch that blocks hold apart.
func chunks(t *predictor.Touch, yield func(base, bytes uint64) bool) {
	if whole := t.Span(); t.Count <= 1 || t.Count > maxChunks || t.Stride < t.Bytes+predictor.Block {
		if whole.Bytes > 0 {
			yield(whole.Base, whole.Bytes)
		}
		return
	}
	for i := range uint64(t.Count) {
		if t.Bytes > 0 && !yield(t.Base+i*t.Stride, t.Bytes) {
			return
		}
	}
}

// lately is how many commands a program that does not repeat itself must have made lately
// for them to say what it will touch.
const lately = 64

// state is what there is of a section's forecast; nil: nothing. It is known when every
// command of a period said what it touches, or of the last ones if the program does not
// repeat itself. Precondition: mu is held.
func (f *Forecast) state(section int) (s *sectionForecast, known bool) {
	if f.since == 0 || section < 0 || section >= len(f.sections) || f.sections[section] == nil {
		return nil, false
	}
	s = f.sections[section]
	span := uint64(s.plan.Period())
	if span == 0 {
		span = lately
	}
	return s, s.commands >= span && (s.unknown == 0 || s.commands-s.unknown >= span)
}

// Next implements mover.Uses.
func (f *Forecast) Next(section int, turn time.Duration) (iter.Seq[mover.Use], bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, known := f.state(section)
	if !known {
		return nil, false
	}
	s.turn = turn
	return func(yield func(mover.Use) bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		s, known := f.state(section)
		if !known {
			return
		}
		horizon := time.Duration(math.MaxInt64)
		if s.plan.Period() == 0 { // what it did long ago says little
			horizon = 2 * max(turn, tellEvery)
		}
		s.plan.Ahead(horizon, func(u predictor.Use) bool {
			more := true
			n := times(&u, turn)
			chunks(&u.Touch, func(base, bytes uint64) bool {
				more = yield(mover.Use{Address: base, Bytes: memory.Clamp(bytes, memory.MaxBytes), In: u.At, Times: n})
				return more
			})
			return more
		})
		s.plan.Unmark() // what a slow kernel asked for was named
	}, true
}

// times is how many commands of the coming turn are this one: what a short period
// touches is touched again and again. What comes later comes less often, whatever ends
// before: its end is a guess.
func times(u *predictor.Use, turn time.Duration) uint32 {
	if u.Every <= 0 || u.At >= turn {
		return 1
	}
	return uint32(min(1+(turn-1-u.At)/u.Every, math.MaxUint32))
}

// Written implements mover.Uses.
func (f *Forecast) Written(section int, address uint64, n memory.Bytes, since time.Duration) mover.Written {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since == 0 || since < 0 || uint64(since) < f.since || section < 0 || section >= len(f.sections) || n <= 0 {
		return mover.WrittenUnknown
	}
	s := f.sections[section]
	if s == nil {
		return mover.NotWritten
	}
	said := mover.NotWritten
	if s.blindAt >= uint64(since) {
		said = mover.WrittenUnknown
	}
	for b := address / predictor.Block; b <= (address+uint64(n)-1)/predictor.Block; b++ {
		switch w := s.written[b]; {
		case w.sure >= uint64(since):
			return mover.WasWritten
		case w.maybe >= uint64(since):
			said = mover.WrittenUnknown
		}
	}
	return said
}
