package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/memory"
)

// MemoryDemo is the part of the demonstration in which programs together have twice
// the memory that they may have on the device.
type MemoryDemo struct {
	Tasks  int
	Task   memory.Bytes // of each
	Piece  memory.Bytes
	Budget memory.Bytes
	Steps  int // that each makes, over all its memory
	Slice  time.Duration
}

// memoryDemo gives one that takes some seconds on the device.
func memoryDemo(simulated bool) MemoryDemo {
	d := MemoryDemo{Tasks: 4, Task: 4 * memory.GiB, Piece: 128 * memory.MiB, Steps: 800, Slice: 300 * time.Millisecond}
	if simulated { // whose kernels run at the speed of a CPU
		d.Task, d.Piece, d.Steps = 32*memory.MiB, 8*memory.MiB, 16
	}
	d.Budget = memory.Bytes(d.Tasks) * d.Task / 2
	return d
}

// MemoryShown is what it showed.
type MemoryShown struct {
	MemoryDemo
	// OneByOne is how long the programs took one after the other, each with the device
	// and all its memory for itself; Together how long at once under us.
	OneByOne, Together time.Duration
	In, Out            memory.Bytes // that moved meanwhile
	Level              int
	Verified           uint64 // words compared with what they must be, all of them right
}

// Ratio of the two times.
func (s MemoryShown) Ratio() float64 { return s.Together.Seconds() / s.OneByOne.Seconds() }

// demoMemoryTimeout bounds it.
const demoMemoryTimeout = 90 * time.Second

// RunMemoryDemo runs the programs one after the other without us, then all at once
// under us, and fails if a word is wrong.
func (l *Lab) RunMemoryDemo(ctx context.Context, report func(what string, done, total int)) (s MemoryShown, err error) {
	if err := l.Places.Complete(); err != nil {
		return s, err
	}
	if report == nil {
		report = func(string, int, int) {}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, demoMemoryTimeout, errors.New("the programs did not end in time"))
	defer cancel()
	defer l.StopDaemon()
	s.MemoryDemo = memoryDemo(l.Facts.Simulated)
	t := workloads.Touch{Pattern: workloads.PatternDense, Bytes: uint64(s.Task), Piece: uint64(s.Piece), Phase: 1, Rounds: 1, Steps: s.Steps}
	kinds := []hungry{patterned{settings: t}}
	for i := range s.Tasks {
		report("memory, one after the other", i, s.Tasks)
		took, err := l.demoCrew(ctx, kinds, 1, func(int) way { return nil }, nil, &s)
		if err != nil {
			return s, err
		}
		s.OneByOne += took
	}
	report("memory, together", 0, 1)
	if err := l.managedDaemon(ctx, LevelAuto, "RR", s.Budget, memory.Predict); err != nil {
		return s, err
	}
	s.Together, err = l.demoCrew(ctx, kinds, s.Tasks, func(i int) way {
		return &Under{Name: fmt.Sprintf("task-%d", i+1), Level: LevelAuto, Hints: []string{"--slice", s.Slice.String()}}
	}, l.memoryFigures, &s)
	return s, err
}

// demoCrew runs programs to their ends and says how long that took from their
// beginning. With look it asks how much memory has moved, at the beginning and as
// long as all are there.
func (l *Lab) demoCrew(ctx context.Context, kinds []hungry, n int, ways func(int) way, look func(context.Context) (figures, error), s *MemoryShown) (time.Duration, error) {
	c, err := l.muster(ctx, kinds, n, ways)
	if err != nil {
		return 0, err
	}
	defer c.kill()
	if look != nil {
		if err := l.awaitTasks(ctx, c.pids()...); err != nil {
			return 0, err
		}
		if s.Level, err = l.effective(ctx, c.children[0].Pid(), LevelAuto); err != nil {
			return 0, err
		}
	}
	begun := workloads.MonotonicNS()
	if err := c.begin(); err != nil {
		return 0, err
	}
	if look != nil {
		if err := s.watch(ctx, c, look); err != nil {
			return 0, err
		}
	}
	all, err := c.ends(ctx)
	if err != nil {
		return 0, err
	}
	last := begun
	for _, one := range all {
		if one.wrong > 0 {
			return 0, fmt.Errorf("%d words are not what they must be", one.wrong)
		}
		s.Verified += one.verified
		last = max(last, one.ended)
	}
	return time.Duration(last - begun), nil
}

// watch adds up what moves until the first program has ended: then it takes its
// figures along. On a busy machine all may have ended between two looks.
func (s *MemoryShown) watch(ctx context.Context, c *crew, look func(context.Context) (figures, error)) error {
	for looked := false; ; looked = true {
		f, err := look(ctx)
		if looked && errors.Is(err, errNoMemory) {
			return nil
		}
		if err != nil {
			return err
		}
		s.In, s.Out = max(s.In, memory.Bytes(f.in)), max(s.Out, memory.Bytes(f.out))
		for _, child := range c.children {
			select {
			case <-child.ended:
				return nil
			default:
			}
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// Rows of what was shown.
func (s MemoryShown) Rows(l *Lab) []rows.Row {
	params := func() rows.Params {
		return rows.Params{"part": "memory", "tasks": s.Tasks, "task_gib": inGiB(float64(s.Task)), "budget_gib": inGiB(float64(s.Budget)), "steps": s.Steps}
	}
	ours := params()
	ours["slice_ms"], ours["level"] = s.Slice.Seconds()*1e3, s.Level
	return []rows.Row{
		l.Row("demo", rows.ModeAlone, s.Tasks, params(), rows.Metrics{"took_s": s.OneByOne.Seconds()}),
		l.Row("demo", rows.ModeXmsched, s.Tasks, ours, rows.Metrics{
			"took_s": s.Together.Seconds(), "took_ratio": s.Ratio(), "verified_count": float64(s.Verified), "wrong_count": 0,
			"moved_in_gib": inGiB(float64(s.In)), "moved_out_gib": inGiB(float64(s.Out)),
		}),
	}
}
