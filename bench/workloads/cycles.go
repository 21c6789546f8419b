package workloads

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/bench/internal/limit"
	"xmsched/preempt/board"
)

// Cycles is the program that suspends and resumes itself at random moments while
// it does every kind of work whose result would show that something was lost.
type Cycles struct {
	Count int
	Hold  string   // what is suspended: compute or all
	Work  []string // kinds of work; empty: all
	// RunFor and HoldFor bound the times between two suspensions and within one;
	// each is drawn evenly from 0 on.
	RunFor, HoldFor time.Duration
	Seed            uint64
}

// holds are what can be suspended, by name.
var holds = map[string]board.Hold{board.HoldCompute.String(): board.HoldCompute, board.HoldAll.String(): board.HoldAll}

// Validate says what is wrong with the settings.
func (c Cycles) Validate() error {
	if _, ok := holds[c.Hold]; !ok {
		return fmt.Errorf("hold %q is none of compute, all", c.Hold)
	}
	for _, kind := range c.Work {
		if !slices.Contains(StressWork(), kind) {
			return fmt.Errorf("work %q is none of %v", kind, StressWork())
		}
	}
	return limit.First(
		limit.Check("cycles", c.Count, 1, 1_000_000),
		limit.Check("run-for", c.RunFor, 0, time.Second),
		limit.Check("hold-for", c.HoldFor, 0, time.Second),
	)
}

// CyclesResult is what became of it.
type CyclesResult struct {
	HoldUS   []float64 `json:"hold_us"`   // each call that suspended
	ResumeUS []float64 `json:"resume_us"` // each that resumed
	// ComputeGroups, Groups and Channels are what the library knew of the process.
	ComputeGroups uint32       `json:"compute_groups"`
	Groups        uint32       `json:"groups"`
	Channels      uint32       `json:"channels"`
	Work          []WorkResult `json:"work"`
}

// WorkResult is what became of one kind of work.
type WorkResult struct {
	Kind     string `json:"kind"`
	Rounds   int    `json:"rounds"`
	Verified uint64 `json:"verified"` // words compared with what they must be
	Wrong    uint64 `json:"wrong"`
	Skipped  string `json:"skipped,omitempty"` // why it was not done
}

// RunCycles runs until all cycles are done or it is told to end.
func RunCycles(st Steering, say *Speaker, c Cycles) error {
	if err := c.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	own, err := openChannels(g.facts.UUID)
	if err != nil {
		return err
	}
	n, err := own.counts()
	if err != nil {
		return err
	}
	crew, err := startCrew(st.Context, g, c)
	if err != nil {
		return err
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		crew.end()
		return err
	}
	result := &CyclesResult{ComputeGroups: n.computeGroups, Groups: n.groups, Channels: n.channels}
	if !st.wait() {
		crew.end()
		return nil
	}
	began := MonotonicNS()
	err = result.cycles(crew.context, own, c, say)
	// The last rounds end, and are looked at, with everything resumed.
	result.Work = crew.end()
	if err = errors.Join(err, crew.err); err != nil {
		return err
	}
	e := Event{Kind: KindResult, Cycles: result, Count: uint64(len(result.HoldUS)), BeganNS: began, AtNS: MonotonicNS()}
	for _, w := range result.Work {
		e.Verified += w.Verified
		e.Wrong += w.Wrong
	}
	return say.Say(e)
}

// cycles suspends and resumes. It leaves nothing suspended, whatever happened.
func (r *CyclesResult) cycles(ctx context.Context, own *channels, c Cycles, say *Speaker) error {
	rng := rand.New(rand.NewPCG(c.Seed, 3))
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d) + 1)) }
	defer func() { _, _ = own.set(board.HoldNone) }() // once more does no harm
	told := time.Now()
	for range c.Count {
		wait(upTo(c.RunFor))
		if ctx.Err() != nil {
			return nil
		}
		begun := time.Now()
		if _, err := own.set(holds[c.Hold]); err != nil {
			return err
		}
		held := time.Now()
		wait(upTo(c.HoldFor))
		resumed := time.Now()
		if _, err := own.set(board.HoldNone); err != nil {
			return err
		}
		r.HoldUS = append(r.HoldUS, micros(held.Sub(begun)))
		r.ResumeUS = append(r.ResumeUS, micros(time.Since(resumed)))
		if time.Since(told) >= progressEvery {
			told = time.Now()
			if err := say.Say(Event{Kind: KindProgress, Count: uint64(len(r.HoldUS)), AtNS: MonotonicNS()}); err != nil {
				return err
			}
		}
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// errnoOf is an error number as an error.
func errnoOf(n int32) error { return unix.Errno(n) }

// crew are the threads that work, one for each kind.
type crew struct {
	context context.Context // ends when a thread failed, or the program is to end
	stop    context.CancelFunc
	threads sync.WaitGroup

	mu      sync.Mutex // protects what follows
	results []WorkResult
	err     error
}

// startCrew returns when every kind has done a first round, one after the other,
// so that what they need is there before any of them keeps the device busy.
func startCrew(ctx context.Context, g *gpu, c Cycles) (*crew, error) {
	s, noClusters, err := newStress(g, c.Seed)
	if err != nil {
		return nil, err
	}
	kinds := c.Work
	if len(kinds) == 0 {
		kinds = StressWork()
	}
	w := &crew{}
	var work []stressor
	for _, kind := range kinds {
		r := WorkResult{Kind: kind}
		if kind == WorkCluster {
			r.Skipped = noClusters
		}
		w.results = append(w.results, r)
		if r.Skipped != "" {
			work = append(work, nil)
			continue
		}
		one, err := s.make(kind)
		if err == nil {
			err = w.once(len(work), one)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		work = append(work, one)
	}
	w.context, w.stop = context.WithCancel(ctx)
	for i, one := range work {
		if one != nil {
			w.threads.Go(func() { w.work(g, i, one) })
		}
	}
	return w, nil
}

func (w *crew) work(g *gpu, i int, s stressor) {
	unlock, err := g.join()
	if err == nil {
		defer unlock()
	}
	for err == nil && w.context.Err() == nil {
		err = w.once(i, s)
	}
	if err != nil {
		w.mu.Lock()
		w.err = errors.Join(w.err, fmt.Errorf("%s: %w", w.results[i].Kind, err))
		w.mu.Unlock()
		w.stop()
	}
}

func (w *crew) once(i int, s stressor) error {
	verified, wrong, err := s.round()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.results[i].Rounds++
	w.results[i].Verified += verified
	w.results[i].Wrong += wrong
	return nil
}

// end lets every thread finish its round, and gives what became of all.
func (w *crew) end() []WorkResult {
	w.stop()
	w.threads.Wait()
	return w.results
}
