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
	PeriodUS  float64 // not 0: released so often, instead of after a gap
	Priority  int
}

// Load describes background programs that keep InFlight kernels of KernelUS
// queued for ever.
type Load struct {
	Programs  int
	KernelUS  float64
	InFlight  int
	Group     int  // kernels, the last of which writes its results; 0: each does
	Pace      bool // the programs measure first how fast queued kernels end
	Threshold int  // under xmsched; 0: the default
	Batch     int  // under xmsched; 0: the default
	Priority  int
	Level     Level // under xmsched
	// Idle is how long the load runs under xmsched before the requests begin, with
	// their program registered.
	Idle time.Duration
}

// longLoad is the length of a queue that is not waited for at the end.
const longLoad = 2 * time.Second

// long says that what is queued takes so long that the programs are killed in the
// midst of it, and that their progress cannot be read off the ends of kernels.
func (l Load) long() bool {
	return time.Duration(l.KernelUS*float64(l.InFlight))*time.Microsecond > longLoad
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
	// IdlePerS is the same of the time before the requests began (Load.Idle).
	IdlePerS float64
	Wall     time.Duration
	Verified uint64 // result words compared with the closed form
}

// WrongResultError says that a program's results differ from the closed form.
type WrongResultError struct {
	Name            string
	Wrong, Verified uint64
}

func (e *WrongResultError) Error() string {
	return fmt.Sprintf("%s: %d of %d result words are wrong", e.Name, e.Wrong, e.Verified)
}

// Pair runs the requests in one of the modes alone, native, mps and xmsched.
// report, if set, is called with the number of requests done, from another
// goroutine. A *SkippedError says that the mode is not to be had here.
func (l *Lab) Pair(ctx context.Context, mode string, req Requests, load Load, report func(done int)) (PairResult, error) {
	perUS, err := l.Calibrate(ctx)
	if err != nil {
		return PairResult{}, err
	}
	if mode == rows.ModeAlone {
		load.Programs = 0
	}
	foreground, background, err := l.pairWays(ctx, mode, req, load)
	if err != nil {
		return PairResult{}, err
	}
	p := &pair{mode: mode, req: req, load: load}
	defer p.kill()
	for i := range load.Programs {
		b, err := l.startBackground(i, perUS, load, background)
		if err != nil {
			return PairResult{}, err
		}
		p.backgrounds = append(p.backgrounds, b)
	}
	if p.requests, err = l.startRequests(perUS, req, foreground, mode == rows.ModeMPS, report); err != nil {
		return PairResult{}, err
	}
	if err := l.begin(ctx, p); err != nil {
		return PairResult{}, err
	}
	return p.collect(ctx)
}

// pair are the programs of one run.
type pair struct {
	mode        string
	req         Requests
	load        Load
	requests    *Child
	backgrounds []*background
	level       int      // at which the backgrounds are governed
	idle        [2]int64 // the span before the requests in which the load ran
}

func (p *pair) kill() {
	if p.requests != nil {
		p.requests.Kill()
	}
	for _, b := range p.backgrounds {
		b.child.Kill()
	}
}

// pairWays gives how the two kinds of programs run in a mode.
func (l *Lab) pairWays(ctx context.Context, mode string, req Requests, load Load) (foreground, background way, err error) {
	switch mode {
	case rows.ModeAlone, rows.ModeNative:
		return nil, nil, nil
	case rows.ModeMPS:
		if foreground, err = l.clientOfMPS(ctx, true); err != nil {
			return nil, nil, err
		}
		background, err = l.clientOfMPS(ctx, false)
		return foreground, background, err
	case rows.ModeXmsched:
		if err := l.daemonFor(ctx, load.Level); err != nil {
			return nil, nil, err
		}
		return &Under{Name: "requests", Priority: req.Priority},
			&Under{Name: "background", Priority: load.Priority, Level: load.Level, Threshold: load.Threshold, Batch: load.Batch}, nil
	}
	return nil, nil, fmt.Errorf("mode %q is none of alone, native, mps, xmsched", mode)
}

func (l *Lab) startRequests(perUS float64, req Requests, w way, high bool, report func(int)) (*Child, error) {
	kernels := max(req.Kernels, 1)
	onEvent := func(e Event) {
		var p workloads.Event
		if report != nil && e.Kind == workloads.KindProgress && e.Into(&p) == nil {
			report(int(p.Count))
		}
	}
	return l.startWatched("requests", w, onEvent, "request",
		"--iterations", iterations(req.RequestUS/float64(kernels), perUS),
		"--kernels", strconv.Itoa(kernels),
		"--count", strconv.Itoa(req.Count),
		"--gap-us", number(req.GapUS),
		"--burst", strconv.Itoa(req.Burst),
		"--pause-us", number(req.PauseUS),
		"--period-us", number(req.PeriodUS),
		"--high-priority="+strconv.FormatBool(high))
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

func (l *Lab) startBackground(i int, perUS float64, load Load, w way) (*background, error) {
	b := &background{}
	child, err := l.startWatched(fmt.Sprintf("background %d", i+1), w, b.take, "background",
		"--iterations", iterations(load.KernelUS, perUS),
		"--in-flight", strconv.Itoa(load.InFlight),
		"--group", strconv.Itoa(max(load.Group, 1)), "--pace="+strconv.FormatBool(load.Pace))
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
// requests.
func (l *Lab) begin(ctx context.Context, p *pair) error {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout+p.load.Idle, errors.New("set-up did not end in time"))
	defer cancel()
	pids := []int{p.requests.Pid()}
	if _, err := p.requests.Await(ctx, workloads.KindReady); err != nil {
		return err
	}
	for _, b := range p.backgrounds {
		if _, err := b.child.Await(ctx, workloads.KindReady); err != nil {
			return err
		}
		pids = append(pids, b.child.Pid())
	}
	if p.mode == rows.ModeXmsched {
		if err := l.awaitTasks(ctx, pids...); err != nil {
			return err
		}
	}
	for _, b := range p.backgrounds {
		if err := b.child.Begin(); err != nil {
			return err
		}
	}
	for _, b := range p.backgrounds {
		if err := b.running(ctx, p.load.long()); err != nil {
			return err
		}
		if p.mode != rows.ModeXmsched {
			continue
		}
		var err error
		if p.level, err = l.effective(ctx, b.child.Pid(), p.load.Level); err != nil {
			return err
		}
	}
	if p.mode == rows.ModeXmsched && p.load.Idle > 0 {
		p.idle[0] = workloads.MonotonicNS()
		if err := pause(ctx, p.load.Idle); err != nil {
			return err
		}
		p.idle[1] = workloads.MonotonicNS()
	}
	return p.requests.Begin()
}

// running waits until the load has ended its first kernels; of long ones, until
// the first has certainly begun.
func (b *background) running(ctx context.Context, long bool) error {
	const begun = 200 * time.Millisecond
	if long {
		return pause(ctx, begun)
	}
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

func (p *pair) collect(ctx context.Context) (PairResult, error) {
	e, err := p.requests.Await(ctx, workloads.KindResult)
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
	if len(r.LatencyUS) != p.req.Count {
		return PairResult{}, fmt.Errorf("requests: %d latencies, want %d", len(r.LatencyUS), p.req.Count)
	}
	result := PairResult{
		LatencyUS: r.LatencyUS, StartNS: r.StartNS, Verified: r.Verified, Level: p.level, Wall: time.Duration(r.AtNS - r.BeganNS),
	}
	if err := p.requests.Finish(ctx); err != nil {
		return PairResult{}, err
	}
	if p.load.long() {
		p.cut()
		return result, nil
	}
	whole := true // all ends of kernels are known
	for _, b := range p.backgrounds {
		done, err := b.finish(ctx, r.AtNS)
		if err != nil {
			return PairResult{}, err
		}
		result.Verified += done.Verified
		result.EndedNS = append(result.EndedNS, done.EndedNS...)
		whole = whole && uint64(len(done.EndedNS)) == done.Count
		result.BackgroundPerS += b.between(r.BeganNS, r.AtNS) / result.Wall.Seconds()
	}
	slices.Sort(result.EndedNS)
	if !whole {
		result.StartNS = nil // which requests were gated cannot be told
		return result, nil
	}
	if perS, ok := endsPerS(result.EndedNS, r.BeganNS, r.AtNS); ok {
		result.BackgroundPerS = perS
	}
	result.IdlePerS, _ = endsPerS(result.EndedNS, p.idle[0], p.idle[1])
	return result, nil
}

// cut ends the backgrounds in the midst of their kernels. Clients of MPS share
// their channels with the server, which is told better; what they have queued
// ends by itself.
func (p *pair) cut() {
	for _, b := range p.backgrounds {
		if p.mode == rows.ModeMPS {
			b.child.Kill()
		} else {
			b.child.cut()
		}
	}
}

// endsPerS gives the rate of the ends within the span, from the first to the
// last of them, so that what is cut off at the span's ends does not count. ended
// is in ascending order.
func endsPerS(ended []int64, fromNS, toNS int64) (float64, bool) {
	first, _ := slices.BinarySearch(ended, fromNS)
	last, found := slices.BinarySearch(ended, toNS)
	if !found {
		last--
	}
	const few = 8 // fewer say little
	if last-first < few || ended[last] == ended[first] {
		return 0, false
	}
	return float64(last-first) / (float64(ended[last]-ended[first]) / 1e9), true
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

// LoadAlone runs the load for a while without us and with nothing beside it, and
// gives its kernels per second: what "share of alone" refers to.
func (l *Lab) LoadAlone(ctx context.Context, load Load, span time.Duration) (float64, error) {
	perUS, err := l.Calibrate(ctx)
	if err != nil {
		return 0, err
	}
	var all []*background
	defer func() {
		for _, b := range all {
			b.child.Kill()
		}
	}()
	for i := range load.Programs {
		b, err := l.startBackground(i, perUS, load, nil)
		if err != nil {
			return 0, err
		}
		all = append(all, b)
		if _, err := b.child.Await(ctx, workloads.KindReady); err != nil {
			return 0, err
		}
	}
	for _, b := range all {
		if err := b.child.Begin(); err != nil {
			return 0, err
		}
	}
	for _, b := range all {
		if err := b.running(ctx, false); err != nil {
			return 0, err
		}
	}
	from := workloads.MonotonicNS()
	if err := pause(ctx, span); err != nil {
		return 0, err
	}
	return rateOf(ctx, all, from, workloads.MonotonicNS())
}

// rateOf ends the programs and gives the kernels per second of all of them in
// the span.
func rateOf(ctx context.Context, all []*background, fromNS, toNS int64) (float64, error) {
	total, ended := 0.0, []int64(nil)
	for _, b := range all {
		done, err := b.finish(ctx, toNS)
		if err != nil {
			return 0, err
		}
		total += b.between(fromNS, toNS)
		ended = append(ended, done.EndedNS...)
	}
	slices.Sort(ended)
	if perS, ok := endsPerS(ended, fromNS, toNS); ok {
		return perS, nil
	}
	return total / time.Duration(toNS-fromNS).Seconds(), nil
}
