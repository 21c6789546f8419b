package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
	"xmsched/memory"
)

// Suspend is the row preempt at Level 3: when the first instruction of a
// foreground's request runs, and when the background stands still, though its
// kernels are of any length.
//
// The background is ordinary computation in all scenes: kernels of so many
// iterations as take KernelUS alone, of integer arithmetic, with all the threads that
// the device holds. The only thing beside that is that one of the threads, whichever
// comes to it, stores a word to host memory every 10 us, and asks another whether to
// end every 640 us: what a context is that has more to do with the host says nothing
// about others. An
// observer in a process of its own reads the word without pause, beside what the
// daemon wants and the background did about it; so a stop looks up to 10 us shorter
// and a resumption up to 10 us longer than they are. A scene says what makes the
// background stop.
type Suspend struct {
	KernelsUS []float64
	Scenes    []string
	Requests  int    // of each scene and kernel length
	Pinning   uint64 // bytes that another process pins meanwhile, over and over; 0: none
	Growing   uint64 // bytes by which the pool of moved memory grows meanwhile; 0: memory is not managed
}

// Scenes.
const (
	SceneAlone  = "alone"  // short requests with nothing beside them: what the others are compared with
	SceneNative = "native" // short requests beside the background, without us
	SceneArmed  = "armed"  // short requests: the hardware switches, as the slice was shortened before
	SceneBusy   = "busy"   // requests of some ms: the background is suspended while they use the device
	SceneIdle   = "idle"   // the same by a client that uses no device
	SceneDirect = "direct" // the background suspends itself by the library; nothing else uses the device
	SceneBeside = "beside" // the same while another program uses it
)

// Scenes lists them in the order in which they are measured.
func Scenes() []string {
	return []string{SceneAlone, SceneNative, SceneArmed, SceneBusy, SceneIdle, SceneDirect, SceneBeside}
}

// Lengths of the scenes' parts. A long request is well beyond what is armed for.
const (
	longRequestUS   = 8000
	warmSuspends    = 20 // requests before those that count: the daemon learns their length
	shortGap        = 4 * time.Millisecond
	longGap         = 15 * time.Millisecond
	directRun       = 4 * time.Millisecond
	directHold      = 3 * time.Millisecond
	besideUS        = 1000 // kernels of the program beside
	pinChunk        = 32 << 20
	maxPinning      = 64 << 30
	suspendKernelUS = 60_000_000.0
)

// Validate says what is wrong with the experiment.
func (s Suspend) Validate() error {
	for _, us := range s.KernelsUS {
		if err := limit.Check("kernel-us", us, 1, suspendKernelUS); err != nil {
			return err
		}
	}
	for _, scene := range s.Scenes {
		if !slices.Contains(Scenes(), scene) {
			return fmt.Errorf("scene %q is none of %v", scene, Scenes())
		}
	}
	return limit.First(
		limit.Check("kernel lengths", len(s.KernelsUS), 1, 32),
		limit.Check("scenes", len(s.Scenes), 1, len(Scenes())),
		limit.Check("requests", s.Requests, 1, 100_000),
		limit.Check("pinning", s.Pinning, 0, uint64(maxPinning)),
		limit.Check("growing", s.Growing, 0, uint64(maxPinning)),
	)
}

// RunSuspend measures. The rows of what was measured before a failure are kept.
func (l *Lab) RunSuspend(ctx context.Context, s Suspend, report func(what string, done, total int)) ([]rows.Row, error) {
	report, err := l.prepare(s, report)
	if err != nil {
		return nil, err
	}
	perUS, err := l.Calibrate(ctx)
	if err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	if err := l.ensureSheet(ctx); err != nil {
		return nil, err
	}
	unpin, err := l.pinning(ctx, s.Pinning)
	if err != nil {
		return nil, err
	}
	defer unpin()
	var out []rows.Row
	for _, scene := range s.Scenes {
		lengths := s.KernelsUS
		if scene == SceneAlone {
			lengths = lengths[:1] // there is no background
		}
		for i, us := range lengths {
			what := fmt.Sprintf("preempt level 3, scene %s, kernels of %v us", scene, us)
			report(what, i, len(lengths))
			row, err := l.scene(ctx, s, scene, us, perUS)
			if err != nil {
				return out, fmt.Errorf("%s: %w", what, err)
			}
			out = append(out, row)
		}
	}
	return out, nil
}

// seen is what a scene gave.
type seen struct {
	FirstUS   []float64 // from a request to its first instruction
	StopUS    []float64 // from a request to the background's last beat
	ResumeUS  []float64 // from the resumption's being asked for to the first beat
	HoldUS    []float64 // the calls that suspended
	ReleaseUS []float64 // and those that resumed
	Running   int       // requests at whose end the background still ran
	GapUS     float64   // longest time between two looks
}

func (l *Lab) scene(ctx context.Context, s Suspend, scene string, us, perUS float64) (rows.Row, error) {
	planned := time.Duration(s.Requests+warmSuspends) * (2*longGap + longRequestUS*time.Microsecond)
	allowed := setupTimeout + 4*planned
	if l.Facts.Simulated { // where others may take its processors, and a suspension seconds
		allowed *= 4
	}
	ctx, cancel := context.WithTimeoutCause(ctx, allowed, errors.New("the scene did not end in time"))
	defer cancel()
	var got seen
	var err error
	mode := rows.ModeXmsched
	switch scene {
	case SceneAlone, SceneNative:
		mode = rows.ModeNative
		if scene == SceneAlone {
			mode, us = rows.ModeAlone, 0
		}
		got, err = l.unsuspended(ctx, s, us, perUS)
	case SceneArmed, SceneBusy, SceneIdle:
		got, err = l.governed(ctx, s, scene, us, perUS)
	case SceneDirect, SceneBeside:
		mode = rows.ModeDirect
		got, err = l.direct(ctx, s, scene == SceneBeside, us, perUS)
	}
	if err != nil {
		return rows.Row{}, err
	}
	metrics, n, err := got.metrics(scene)
	if err != nil {
		return rows.Row{}, err
	}
	params := rows.Params{"level": 3, "scene": scene, "kernel_us": us}
	if mode == rows.ModeAlone || mode == rows.ModeNative {
		delete(params, "level")
	}
	if s.Pinning > 0 {
		params["pinning_bytes"] = int64(s.Pinning)
		params["scene"] = scene + "+pinning" // none of the bounds of the scene itself
	}
	if s.Growing > 0 {
		params["growing_bytes"] = int64(s.Growing)
		params["scene"] = scene + "+growing"
	}
	return l.Row("preempt", mode, n, params, metrics), nil
}

// unsuspended measures first instructions without us; us 0: with nothing beside.
func (l *Lab) unsuspended(ctx context.Context, s Suspend, us, perUS float64) (seen, error) {
	if us > 0 {
		heart, _, err := l.startHeart(ctx, nil, us, 0)
		if err != nil {
			return seen{}, err
		}
		defer heart.Kill()
		if err := heart.Begin(); err != nil {
			return seen{}, err
		}
	}
	r, err := l.firsts(ctx, nil, s.Requests, shortGap, 0, perUS, nil)
	return seen{FirstUS: r.LatencyUS}, err
}

// governed measures under the daemon.
func (l *Lab) governed(ctx context.Context, s Suspend, scene string, us, perUS float64) (seen, error) {
	if s.Growing > 0 {
		if err := l.managedDaemon(ctx, 3, "HPF", growBudget, memory.Predict); err != nil {
			return seen{}, err
		}
		defer l.StopDaemon() // the other scenes' daemon manages no memory
	} else if err := l.Daemon(ctx); err != nil {
		return seen{}, err
	}
	heart, fd, err := l.startHeart(ctx, &Under{Name: "background", Level: 3}, us, 0)
	if err != nil {
		return seen{}, err
	}
	defer heart.Kill()
	if err := l.awaitTasks(ctx, heart.Pid()); err != nil {
		return seen{}, err
	}
	if err := heart.Begin(); err != nil {
		return seen{}, err
	}
	if _, err := l.effective(ctx, heart.Pid(), 3); err != nil {
		return seen{}, err
	}
	watch, err := l.startBeatWatch(ctx, heart, fd, l.Facts.UUID, us)
	if err != nil {
		return seen{}, err
	}
	defer watch.Kill()
	if s.Growing > 0 {
		grower, err := l.startGrower(s.Growing)
		if err != nil {
			return seen{}, err
		}
		defer grower.Kill()
	}
	var r workloads.Event
	switch scene {
	case SceneArmed:
		r, err = l.firsts(ctx, &Under{Name: "requests", Priority: 10}, s.Requests, shortGap, 0, perUS, watch)
	case SceneBusy:
		r, err = l.firsts(ctx, &Under{Name: "requests", Priority: 10}, s.Requests, longGap, longRequestUS, perUS, watch)
	case SceneIdle:
		r, err = l.pulses(ctx, s.Requests+warmSuspends, watch)
		r.StartNS, r.EndNS = r.StartNS[min(warmSuspends, len(r.StartNS)):], r.EndNS[min(warmSuspends, len(r.EndNS)):]
	}
	if err != nil {
		return seen{}, err
	}
	watched, err := watchedBy(ctx, watch)
	if err != nil {
		return seen{}, err
	}
	got := stops(r.StartNS, r.EndNS, watched)
	got.FirstUS = r.LatencyUS
	return got, nil
}

// direct measures a program that suspends itself.
func (l *Lab) direct(ctx context.Context, s Suspend, beside bool, us, perUS float64) (seen, error) {
	if beside {
		b, err := l.startBackground(0, perUS, Load{KernelUS: besideUS, InFlight: 4}, nil)
		if err != nil {
			return seen{}, err
		}
		defer b.child.Kill()
		if _, err := b.child.Await(ctx, workloads.KindReady); err != nil {
			return seen{}, err
		}
		if err := b.child.Begin(); err != nil {
			return seen{}, err
		}
		if err := b.running(ctx, false); err != nil {
			return seen{}, err
		}
	}
	heart, fd, err := l.startHeart(ctx, preloaded{}, us, s.Requests)
	if err != nil {
		return seen{}, err
	}
	defer heart.Kill()
	watch, err := l.startBeatWatch(ctx, heart, fd, "", us)
	if err != nil {
		return seen{}, err
	}
	defer watch.Kill()
	for _, c := range []*Child{watch, heart} {
		if err := c.Begin(); err != nil {
			return seen{}, err
		}
	}
	if _, err := heart.Await(ctx, workloads.KindProgress); err != nil { // all suspensions are done
		return seen{}, err
	}
	if err := pause(ctx, directRun); err != nil {
		return seen{}, err
	}
	watched, err := watchedBy(ctx, watch)
	if err != nil {
		return seen{}, err
	}
	_ = heart.stdin.Close()
	var r workloads.Event
	if err := result(ctx, heart, &r); err != nil {
		return seen{}, err
	}
	// Its own word on when it asked stands for the daemon's.
	for i := range r.EndNS {
		watched.Asked = append(watched.Asked, workloads.Asked{AtNS: r.EndNS[i]})
	}
	got := stops(r.StartNS, r.EndNS, watched)
	got.HoldUS, got.ReleaseUS = r.HoldUS, r.ReleaseUS
	return got, nil
}

// startHeart starts the background; direct is how often it suspends itself.
func (l *Lab) startHeart(ctx context.Context, w way, us float64, direct int) (*Child, int, error) {
	const queued = 200 * time.Millisecond
	inFlight := min(max(int(float64(queued.Microseconds())/us), 2), 64)
	perUS, err := l.calibrateFull(ctx)
	if err != nil {
		return nil, 0, err
	}
	every := max(int(lookUS*perUS), 1)
	c, err := l.startWork("background", w, "beats", "--iterations", iterations(us, perUS), "--every", strconv.Itoa(every), "--in-flight", strconv.Itoa(inFlight),
		"--direct", strconv.Itoa(direct), "--run-for", directRun.String(), "--hold-for", directHold.String())
	if err != nil {
		return nil, 0, err
	}
	e, err := c.Await(ctx, workloads.KindReady)
	if err != nil {
		c.Kill()
		return nil, 0, err
	}
	var ready workloads.Event
	if err := e.Into(&ready); err != nil {
		c.Kill()
		return nil, 0, err
	}
	return c, ready.WordsFD, nil
}

// lookUS is how often a thread of the background asks whether a beat is due, on
// average: threads do not advance evenly, and some of them do so more often.
const lookUS = 5

// beatStill is how long nothing beats before the observer notes it: well over the
// beat of a kernel, and over the time between two.
const beatStill = 100 * time.Microsecond

func (l *Lab) startBeatWatch(ctx context.Context, heart *Child, fd int, uuid string, us float64) (*Child, error) {
	still := beatStill
	if l.Facts.Simulated { // whose beats come in bunches
		still = 2 * time.Millisecond
	}
	c, err := l.startWork("observer", nil, "beat-watch", "--pid", strconv.Itoa(heart.Pid()), "--words-fd", strconv.Itoa(fd),
		"--uuid", uuid, "--still", still.String())
	if err != nil {
		return nil, err
	}
	if _, err := c.Await(ctx, workloads.KindReady); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

// firsts runs the foreground; watch, if there is one, looks from before the first
// request that counts on.
func (l *Lab) firsts(ctx context.Context, w way, count int, gap time.Duration, longUS, perUS float64, watch *Child) (workloads.Event, error) {
	args := []string{"first", "--count", strconv.Itoa(count), "--warm", strconv.Itoa(warmSuspends), "--gap", gap.String()}
	if longUS > 0 {
		args = append(args, "--iterations", iterations(longUS, perUS))
	}
	c, err := l.startWork("requests", w, args...)
	if err != nil {
		return workloads.Event{}, err
	}
	defer c.Kill()
	if _, err := c.Await(ctx, workloads.KindReady); err != nil {
		return workloads.Event{}, err
	}
	if _, governed := w.(*Under); governed {
		if err := l.awaitTasks(ctx, c.Pid()); err != nil {
			return workloads.Event{}, err
		}
	}
	if watch != nil {
		if err := watch.Begin(); err != nil {
			return workloads.Event{}, err
		}
	}
	if err := c.Begin(); err != nil {
		return workloads.Event{}, err
	}
	var r workloads.Event
	if err := result(ctx, c, &r); err != nil {
		return workloads.Event{}, err
	}
	if err := verified("requests", r); err != nil {
		return workloads.Event{}, err
	}
	return r, pause(ctx, longGap) // the last resumption is seen, too
}

// pulses runs a client of a higher class that uses no device.
func (l *Lab) pulses(ctx context.Context, count int, watch *Child) (workloads.Event, error) {
	pulser, err := l.startPulser(ctx, pulses{count: count, hold: longRequestUS * time.Microsecond, rest: longGap, spread: longGap})
	if err != nil {
		return workloads.Event{}, err
	}
	defer pulser.Kill()
	for _, c := range []*Child{watch, pulser} {
		if err := c.Begin(); err != nil {
			return workloads.Event{}, err
		}
	}
	var r workloads.Event
	return r, result(ctx, pulser, &r)
}

func watchedBy(ctx context.Context, watch *Child) (*workloads.Watched, error) {
	_ = watch.stdin.Close() // its end makes it tell
	var e workloads.Event
	if err := result(ctx, watch, &e); err != nil {
		return nil, err
	}
	if e.Watched == nil {
		return nil, errors.New("observer: the result is empty")
	}
	return e.Watched, nil
}

// stops pairs requests with what the observer saw. The background stopped for a
// request when nothing beat from before the request's end until after it; it
// stopped at the last beat before, or before the request began.
func stops(start, end []int64, w *workloads.Watched) seen {
	got := seen{GapUS: w.GapUS}
	for i := range min(len(start), len(end)) {
		span, ok := around(w.Still, end[i])
		if !ok {
			got.Running++
			continue
		}
		got.StopUS = append(got.StopUS, float64(max(span.FromNS-start[i], 0))/1e3)
		if at, ok := released(w.Asked, end[i], span.ToNS); ok {
			got.ResumeUS = append(got.ResumeUS, float64(span.ToNS-at)/1e3)
		}
	}
	for _, a := range w.Asked {
		switch {
		case !a.Done:
		case a.Hold:
			got.HoldUS = append(got.HoldUS, a.TookUS)
		default:
			got.ReleaseUS = append(got.ReleaseUS, a.TookUS)
		}
	}
	return got
}

// around gives the span that holds a time. Spans are in order and apart.
func around(spans []workloads.Span, at int64) (workloads.Span, bool) {
	i, _ := slices.BinarySearchFunc(spans, at, func(s workloads.Span, at int64) int {
		switch {
		case s.ToNS < at:
			return -1
		case s.FromNS > at:
			return 1
		}
		return 0
	})
	if i == len(spans) || spans[i].FromNS > at || spans[i].ToNS < at {
		return workloads.Span{}, false
	}
	return spans[i], true
}

// released gives when the last resumption was asked for within a span of time.
func released(asked []workloads.Asked, from, to int64) (int64, bool) {
	for i := len(asked) - 1; i >= 0; i-- {
		if a := asked[i]; !a.Hold && !a.Done && a.AtNS >= from && a.AtNS <= to {
			return a.AtNS, true
		}
	}
	return 0, false
}

// metrics names what was seen; n counts the samples of what the scene is about.
func (s seen) metrics(scene string) (rows.Metrics, int, error) {
	m := rows.Metrics{}
	for name, samples := range map[string][]float64{
		"first": s.FirstUS, "stop": s.StopUS, "resume": s.ResumeUS, "hold_call": s.HoldUS, "release_call": s.ReleaseUS,
	} {
		if len(samples) == 0 || scene == SceneArmed && name != "first" {
			continue // short requests are over before anything is asked for
		}
		q, err := stats.Summarize(samples)
		if err != nil {
			return nil, 0, err
		}
		m[name+"_p50_us"], m[name+"_p99_us"], m[name+"_max_us"] = q.P50, q.P99, q.Max
	}
	n := len(s.StopUS)
	if scene == SceneAlone || scene == SceneNative || scene == SceneArmed {
		n = len(s.FirstUS)
	} else {
		m["running_count"], m["observer_gap_max_us"] = float64(s.Running), s.GapUS
	}
	if n == 0 {
		return nil, 0, fmt.Errorf("the background was never seen to stand still at the end of a request; it ran at the end of %d", s.Running)
	}
	return m, n, nil
}
