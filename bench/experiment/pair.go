package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"xmsched/bench/rows"
	"xmsched/bench/workloads"
)

// Requests describes a latency-critical program: Count requests of RequestUS
// each, GapUS between two, and after every Burst requests a pause of PauseUS
// (Burst 0: no bursts).
type Requests struct {
	RequestUS float64
	Kernels   int // a request is so many kernels in a row
	Count     int
	GapUS     float64
	Burst     int
	PauseUS   float64
	Priority  int
}

// Load describes background programs that keep InFlight kernels of KernelUS
// queued for ever.
type Load struct {
	Programs  int
	KernelUS  float64
	InFlight  int
	Threshold int // under xmsched; 0: the default
	Batch     int // under xmsched; 0: the default
	Priority  int
	Level     Level // under xmsched
}

// PairResult is what a run of requests beside a load gave.
type PairResult struct {
	LatencyUS []float64
	StartNS   []int64 // when each request began (CLOCK_MONOTONIC)
	// EndedNS is when each kernel of the backgrounds was seen to have ended, in
	// ascending order (CLOCK_MONOTONIC).
	EndedNS []int64
	// Level at which the daemon governed the backgrounds; 0 without one.
	Level int
	// BackgroundPerS counts the kernels of all background programs that ended
	// while the requests ran, per second.
	BackgroundPerS float64
	Wall           time.Duration
	Verified       uint64 // result words compared with the closed form
}

// WrongResultError says that a program's results differ from the closed form.
type WrongResultError struct {
	Name            string
	Wrong, Verified uint64
}

func (e *WrongResultError) Error() string {
	return fmt.Sprintf("%s: %d of %d result words are wrong", e.Name, e.Wrong, e.Verified)
}

// Pair runs the requests in one of the modes alone, native and xmsched. report,
// if set, is called with the number of requests done, from another goroutine.
func (l *Lab) Pair(ctx context.Context, mode string, req Requests, load Load, report func(done int)) (PairResult, error) {
	perUS, err := l.Calibrate(ctx)
	if err != nil {
		return PairResult{}, err
	}
	var under func(Under) *Under
	switch mode {
	case rows.ModeAlone:
		load.Programs = 0
		under = func(Under) *Under { return nil }
	case rows.ModeNative:
		under = func(Under) *Under { return nil }
	case rows.ModeXmsched:
		if err := l.Daemon(ctx); err != nil {
			return PairResult{}, err
		}
		under = func(u Under) *Under { return &u }
	default:
		return PairResult{}, fmt.Errorf("mode %q is none of alone, native, xmsched", mode)
	}

	var backgrounds []*background
	defer func() {
		for _, b := range backgrounds {
			b.child.Kill()
		}
	}()
	for i := range load.Programs {
		b, err := l.startBackground(i, perUS, load, under(Under{
			Name: "background", Priority: load.Priority, Level: load.Level, Threshold: load.Threshold, Batch: load.Batch,
		}))
		if err != nil {
			return PairResult{}, err
		}
		backgrounds = append(backgrounds, b)
	}
	fg, err := l.startRequests(perUS, req, under(Under{Name: "requests", Priority: req.Priority}), report)
	if err != nil {
		return PairResult{}, err
	}
	defer fg.Kill()
	level, err := l.begin(ctx, mode, load.Level, fg, backgrounds)
	if err != nil {
		return PairResult{}, err
	}
	result, err := l.collect(ctx, req, fg, backgrounds)
	result.Level = level
	return result, err
}

func (l *Lab) startRequests(perUS float64, req Requests, u *Under, report func(int)) (*Child, error) {
	kernels := max(req.Kernels, 1)
	onEvent := func(e Event) {
		var p workloads.Event
		if report != nil && e.Kind == workloads.KindProgress && e.Into(&p) == nil {
			report(int(p.Count))
		}
	}
	return l.startWatched("requests", u, onEvent, "request",
		"--iterations", iterations(req.RequestUS/float64(kernels), perUS),
		"--kernels", strconv.Itoa(kernels),
		"--count", strconv.Itoa(req.Count),
		"--gap-us", number(req.GapUS),
		"--burst", strconv.Itoa(req.Burst),
		"--pause-us", number(req.PauseUS))
}

func iterations(us, perUS float64) string {
	return strconv.FormatUint(max(uint64(us*perUS), 1), 10)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// background is a running load with the counts it has told so far.
type background struct {
	child *Child

	mu     sync.Mutex // protects counts
	counts []count
}

// count says that so many kernels had ended at a time (CLOCK_MONOTONIC, ns).
type count struct {
	atNS int64
	n    uint64
}

func (l *Lab) startBackground(i int, perUS float64, load Load, u *Under) (*background, error) {
	b := &background{}
	child, err := l.startWatched(fmt.Sprintf("background %d", i+1), u, b.take, "background",
		"--iterations", iterations(load.KernelUS, perUS),
		"--in-flight", strconv.Itoa(load.InFlight))
	if err != nil {
		return nil, err
	}
	b.child = child
	return b, nil
}

func (b *background) take(e Event) {
	var p workloads.Event
	if e.Kind != workloads.KindProgress || e.Into(&p) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts = append(b.counts, count{p.AtNS, p.Count})
}

func (b *background) lastNS() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.counts) == 0 {
		return 0
	}
	return b.counts[len(b.counts)-1].atNS
}

// between gives how many kernels ended in the span, on straight lines between
// the counts.
func (b *background) between(fromNS, toNS int64) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return at(b.counts, toNS) - at(b.counts, fromNS)
}

func at(counts []count, ns int64) float64 {
	for i, c := range counts {
		if c.atNS < ns {
			continue
		}
		if i == 0 || c.atNS == ns {
			return float64(c.n)
		}
		p := counts[i-1]
		return float64(p.n) + float64(c.n-p.n)*float64(ns-p.atNS)/float64(c.atNS-p.atNS)
	}
	if len(counts) == 0 {
		return 0
	}
	return float64(counts[len(counts)-1].n)
}

// begin waits until all programs are set up (and, under xmsched, registered:
// before that they are not scheduled), then lets the load run, and then the
// requests. It gives the level at which the backgrounds are governed.
func (l *Lab) begin(ctx context.Context, mode string, asked Level, fg *Child, backgrounds []*background) (level int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout, errors.New("set-up did not end in time"))
	defer cancel()
	pids := []int{fg.Pid()}
	if _, err := fg.Await(ctx, workloads.KindReady); err != nil {
		return 0, err
	}
	for _, b := range backgrounds {
		if _, err := b.child.Await(ctx, workloads.KindReady); err != nil {
			return 0, err
		}
		pids = append(pids, b.child.Pid())
	}
	if mode == rows.ModeXmsched {
		if err := l.awaitTasks(ctx, pids...); err != nil {
			return 0, err
		}
	}
	for _, b := range backgrounds {
		if err := b.child.Begin(); err != nil {
			return 0, err
		}
	}
	for _, b := range backgrounds {
		if err := b.running(ctx); err != nil {
			return 0, err
		}
		if mode != rows.ModeXmsched {
			continue
		}
		if level, err = l.effective(ctx, b.child.Pid(), asked); err != nil {
			return 0, err
		}
	}
	return level, fg.Begin()
}

// running waits until the load has ended its first kernels.
func (b *background) running(ctx context.Context) error {
	for {
		e, err := b.child.Await(ctx, workloads.KindProgress)
		if err != nil {
			return err
		}
		var p workloads.Event
		if err := e.Into(&p); err != nil {
			return err
		}
		if p.Count > 0 {
			return nil
		}
	}
}

func (l *Lab) collect(ctx context.Context, req Requests, fg *Child, backgrounds []*background) (PairResult, error) {
	e, err := fg.Await(ctx, workloads.KindResult)
	if err != nil {
		return PairResult{}, err
	}
	var r workloads.Event
	if err := e.Into(&r); err != nil {
		return PairResult{}, err
	}
	if err := verified("requests", r); err != nil {
		return PairResult{}, err
	}
	if len(r.LatencyUS) != req.Count {
		return PairResult{}, fmt.Errorf("requests: %d latencies, want %d", len(r.LatencyUS), req.Count)
	}
	result := PairResult{LatencyUS: r.LatencyUS, StartNS: r.StartNS, Verified: r.Verified, Wall: time.Duration(r.AtNS - r.BeganNS)}
	if err := fg.Finish(ctx); err != nil {
		return PairResult{}, err
	}
	for _, b := range backgrounds {
		done, err := b.finish(ctx, r.AtNS)
		if err != nil {
			return PairResult{}, err
		}
		result.Verified += done.Verified
		result.EndedNS = append(result.EndedNS, done.EndedNS...)
		if uint64(len(done.EndedNS)) < done.Count {
			result.StartNS = nil // not all are known: which requests were gated cannot be told
		}
		result.BackgroundPerS += b.between(r.BeganNS, r.AtNS) / result.Wall.Seconds()
	}
	slices.Sort(result.EndedNS)
	return result, nil
}

// finish lets the load tell a count beyond the span, then ends it and checks
// its results.
func (b *background) finish(ctx context.Context, untilNS int64) (workloads.Event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout, errors.New("it did not end in time"))
	defer cancel()
	for b.lastNS() < untilNS {
		if _, err := b.child.Await(ctx, workloads.KindProgress); err != nil {
			return workloads.Event{}, err
		}
	}
	_ = b.child.stdin.Close()
	e, err := b.child.Await(ctx, workloads.KindResult)
	if err != nil {
		return workloads.Event{}, err
	}
	var r workloads.Event
	if err := e.Into(&r); err != nil {
		return workloads.Event{}, err
	}
	if err := verified(b.child.spec.Name, r); err != nil {
		return workloads.Event{}, err
	}
	return r, b.child.Finish(ctx)
}

func verified(name string, r workloads.Event) error {
	if r.Wrong > 0 {
		return &WrongResultError{Name: name, Wrong: r.Wrong, Verified: r.Verified}
	}
	if r.Verified == 0 {
		return fmt.Errorf("%s: no result was compared with the closed form", name)
	}
	return nil
}

// LoadAlone runs the load for a while with nothing beside it and gives its
// kernels per second: what "share of alone" refers to.
func (l *Lab) LoadAlone(ctx context.Context, load Load, span time.Duration) (float64, error) {
	perUS, err := l.Calibrate(ctx)
	if err != nil {
		return 0, err
	}
	load.Programs = 1
	b, err := l.startBackground(0, perUS, load, nil)
	if err != nil {
		return 0, err
	}
	defer b.child.Kill()
	if _, err := b.child.Await(ctx, workloads.KindReady); err != nil {
		return 0, err
	}
	if err := b.child.Begin(); err != nil {
		return 0, err
	}
	if err := b.running(ctx); err != nil {
		return 0, err
	}
	from := workloads.MonotonicNS()
	select {
	case <-time.After(span):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	to := workloads.MonotonicNS()
	if _, err := b.finish(ctx, to); err != nil {
		return 0, err
	}
	return b.between(from, to) / (time.Duration(to - from)).Seconds(), nil
}
