package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/stats"
	"xmsched/bench/workloads"
)

// Laxity is the experiment behind the row of that name: a task of 25 frames a second
// and one that works every three seconds for long, which together leave the device
// idle for a tenth of the time. A frame must not be late, and the long work must be
// done before its next period. (The paper behind XSched has the case in its section
// 6.3.)
type Laxity struct {
	FrameUS  float64 // of the device's time a frame
	JobUS    float64 // of the device's time a period
	Jobs     int     // periods
	Policies []string
	Level    Level
	Native   bool // measures sharing without us, too
}

// The shape of the two tasks.
const (
	framePeriod = 40 * time.Millisecond
	jobPeriod   = 3 * time.Second
	frameParts  = 10   // kernels a frame
	jobKernelUS = 5000 // length of the other's kernels
	maxJobUS    = 5e6  // 1000 kernels
)

// What the tasks say of themselves: a frame can wait a little, the long work until its
// period is nearly over. Under HPF the frames have the higher priority.
const (
	frameLaxity   = "5ms:0:10"
	jobLaxity     = "2850ms:5:20"
	framePriority = 10
)

// Validate says what is wrong with the experiment.
func (x Laxity) Validate() error {
	if len(x.Policies) == 0 && !x.Native {
		return errors.New("no policy")
	}
	return limit.First(
		limit.Check("frame-us", x.FrameUS, frameParts, float64(framePeriod.Microseconds())),
		limit.Check("job-us", x.JobUS, jobKernelUS, maxJobUS),
		limit.Check("jobs", x.Jobs, 1, 1000),
	)
}

// RunLaxity measures: frames alone, then both, without us and under each policy.
func (l *Lab) RunLaxity(ctx context.Context, x Laxity, report func(what string, done, total int)) ([]rows.Row, error) {
	report, err := l.prepare(x, report)
	if err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	runs := []struct{ mode, policy string }{{rows.ModeAlone, ""}}
	if x.Native {
		runs = append(runs, struct{ mode, policy string }{rows.ModeNative, ""})
	}
	for _, p := range x.Policies {
		runs = append(runs, struct{ mode, policy string }{rows.ModeXmsched, p})
	}
	alone := 0.0
	var out []rows.Row
	for i, r := range runs {
		report(fmt.Sprintf("laxity %s %s", r.mode, r.policy), i, len(runs))
		frames, jobs, level, err := l.laxity(ctx, x, r.mode, r.policy)
		l.StopDaemon()
		if err != nil {
			return out, fmt.Errorf("laxity %s %s: %w", r.mode, r.policy, err)
		}
		metrics, err := laxityMetrics(frames, jobs, &alone)
		if err != nil {
			return out, err
		}
		params := rows.Params{"frame_us": x.FrameUS, "frame_period_us": framePeriod.Microseconds()}
		if r.mode != rows.ModeAlone {
			params["job_us"], params["job_period_us"] = x.JobUS, jobPeriod.Microseconds()
		}
		if r.policy != "" {
			params["policy"], params["level"] = r.policy, level
		}
		out = append(out, l.Row("laxity", r.mode, len(frames), params, metrics))
	}
	return out, nil
}

// laxityMetrics: a frame is late when the next one is due before it is done, a period
// missed likewise. The first call's frames are those alone.
func laxityMetrics(frames, jobs []float64, alone *float64) (rows.Metrics, error) {
	f, err := stats.Summarize(frames)
	if err != nil {
		return nil, fmt.Errorf("frames: %w", err)
	}
	if *alone == 0 {
		*alone = f.P99
	}
	m := rows.Metrics{
		"frame_p50_us": f.P50, "frame_p99_us": f.P99, "frame_max_us": f.Max, "frame_p99_ratio": f.P99 / *alone,
		"frame_late_count": over(frames, framePeriod),
	}
	if len(jobs) > 0 {
		m["job_max_ms"] = slices.Max(jobs) / 1e3
		m["missed_count"], m["jobs_count"] = over(jobs, jobPeriod), float64(len(jobs))
	}
	return m, nil
}

func over(us []float64, period time.Duration) (n float64) {
	for _, v := range us {
		if v > float64(period.Microseconds()) {
			n++
		}
	}
	return n
}

// laxity gives the latencies of the frames, and of the long work's periods.
func (l *Lab) laxity(ctx context.Context, x Laxity, mode, policy string) (frames, jobs []float64, level int, err error) {
	span := time.Duration(x.Jobs) * jobPeriod
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout+5*span, errors.New("the periods did not end in time"))
	defer cancel()
	perUS, err := l.Calibrate(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	forFrames, forJobs, err := l.laxityWays(ctx, x, mode, policy)
	if err != nil {
		return nil, nil, 0, err
	}
	perFrame := Requests{RequestUS: x.FrameUS, Kernels: frameParts, Count: int(span / framePeriod), PeriodUS: float64(framePeriod.Microseconds())}
	perJob := Requests{RequestUS: x.JobUS, Kernels: max(int(x.JobUS/jobKernelUS), 1), Count: x.Jobs, PeriodUS: float64(jobPeriod.Microseconds())}
	var all []*Child
	defer func() {
		for _, c := range all {
			c.Kill()
		}
	}()
	f, err := l.startRequests(perUS, perFrame, forFrames, false, nil)
	if err != nil {
		return nil, nil, 0, err
	}
	all = append(all, f)
	if mode != rows.ModeAlone {
		j, err := l.startRequests(perUS, perJob, forJobs, false, nil)
		if err != nil {
			return nil, nil, 0, err
		}
		all = append(all, j)
	}
	if level, err = l.beginAll(ctx, all, mode, x.Level); err != nil {
		return nil, nil, 0, err
	}
	var latency [2][]float64
	for i, c := range all {
		var r workloads.Event
		if err := result(ctx, c, &r); err != nil {
			return nil, nil, 0, err
		}
		if err := verified(c.spec.Name, r); err != nil {
			return nil, nil, 0, err
		}
		latency[i] = r.LatencyUS
	}
	return latency[0], latency[1], level, nil
}

func (l *Lab) laxityWays(ctx context.Context, x Laxity, mode, policy string) (forFrames, forJobs way, err error) {
	if mode != rows.ModeXmsched {
		return nil, nil, nil
	}
	if err := l.daemonFor(ctx, x.Level); err != nil {
		return nil, nil, err
	}
	if err := l.setPolicy(ctx, policy); err != nil {
		return nil, nil, err
	}
	frames, jobs := &Under{Name: "frames", Level: x.Level}, &Under{Name: "jobs", Level: x.Level}
	switch policy {
	case "LAX":
		frames.Hints, jobs.Hints = []string{"--laxity", frameLaxity}, []string{"--laxity", jobLaxity}
	case "HPF":
		frames.Priority = framePriority
	}
	return frames, jobs, nil
}

// beginAll lets programs begin together, once all are set up and, under xmsched,
// registered. It gives the level of the last one.
func (l *Lab) beginAll(ctx context.Context, all []*Child, mode string, asked Level) (level int, err error) {
	var pids []int
	for _, c := range all {
		if _, err := c.Await(ctx, workloads.KindReady); err != nil {
			return 0, err
		}
		pids = append(pids, c.Pid())
	}
	if mode == rows.ModeXmsched {
		if err := l.awaitTasks(ctx, pids...); err != nil {
			return 0, err
		}
	}
	for _, c := range all {
		if err := c.Begin(); err != nil {
			return 0, err
		}
	}
	if mode != rows.ModeXmsched {
		return 0, nil
	}
	return l.effective(ctx, pids[len(pids)-1], asked)
}
