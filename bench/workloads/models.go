package workloads

import (
	"context"
	"fmt"
	"sync"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/compute"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
	"xmsched/preempt"
)

// Models is two models in one process, each a chain of kernels as a language
// model's decode is: layers of kernels, and at the end of a token a wait for
// it. One makes a token every Gap, which should take as long as alone; the other
// makes tokens without pause. It is measured in three phases: alone, both as the
// driver has it, and both behind XQueues of package preempt under HPF.
type Models struct {
	Layers    int           // of a token; a layer is one command
	Kernels   int           // of a layer
	KernelUS  float64       // length of a kernel, which fills the device
	Gap       time.Duration // between two tokens of the first
	Span      time.Duration // of each phase, all rounds together
	Rounds    int           // in which the phases take turns
	Threshold int           // layers of the other outstanding under XQueues
}

// ModelsResult is what came out, also of the C and Python programs.
type ModelsResult struct {
	Phases []ModelsPhase `json:"phases"`
}

// ModelsPhase is one phase, all its rounds together.
type ModelsPhase struct {
	Mode      string    `json:"mode"` // "alone", "other" (alone), "native", "xmsched"
	LatencyUS []float64 `json:"latency_us"`
	Tokens    uint64    `json:"tokens"` // of the other
	SpanS     float64   `json:"span_s"`
}

// Modes of the phases, in the order in which they take turns.
var modelModes = []string{"alone", "other", "native", "xmsched"}

// Validate says what is wrong with the settings.
func (m Models) Validate() error {
	return limit.First(
		limit.Check("layers", m.Layers, 1, 1000),
		limit.Check("kernels", m.Kernels, 1, 1000),
		limit.Check("kernel-us", m.KernelUS, 1, 100_000),
		limit.Check("gap-us", m.Gap, 0, maxPause),
		limit.Check("span", m.Span, time.Millisecond, 10*time.Minute),
		limit.Check("rounds", m.Rounds, 1, 1000),
		limit.Check("threshold", m.Threshold, 1, preempt.MaxThreshold),
	)
}

// RunModels runs all phases, or those until it is told to end.
func RunModels(st Steering, say *Speaker, m Models) error {
	if err := m.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	d, err := newDuo(g, m)
	if err != nil {
		return err
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		return err
	}
	phases := make([]ModelsPhase, len(modelModes))
	for i, mode := range modelModes {
		phases[i].Mode = mode
	}
	for range m.Rounds {
		for i := range phases {
			if st.Context.Err() != nil {
				return nil
			}
			if err := d.phase(st.Context, &phases[i], m.Span/time.Duration(m.Rounds)); err != nil {
				return fmt.Errorf("%s: %w", phases[i].Mode, err)
			}
		}
	}
	verified, wrong := uint64(0), uint64(0)
	for _, c := range []*decoder{d.first, d.other} {
		bad, err := c.job.check(c.stream)
		if err != nil {
			return err
		}
		verified += uint64(len(c.job.expected) / 4)
		wrong += bad
	}
	return say.Say(Event{
		Kind: KindResult, Models: &ModelsResult{Phases: phases}, Count: uint64(len(phases[0].LatencyUS)), AtNS: MonotonicNS(),
		Verified: verified, Wrong: wrong,
	})
}

// duo is the two models.
type duo struct {
	gpu          *gpu
	settings     Models
	first, other *decoder
}

// decoder is one model.
type decoder struct {
	models Models
	gpu    *gpu
	stream cuda.Stream
	job    *job
	queue  *preempt.XQueue // nil: plain
	direct bool            // launches layers itself
}

// Kernels that fill the device, so that two models cannot run side by side
// without loss, as those of real ones cannot.
const (
	fullBlocks  = 2 // a multiprocessor
	fullThreads = 1024
)

func newDuo(g *gpu, m Models) (*duo, error) {
	perUS, err := g.calibrateFull()
	if err != nil {
		return nil, err
	}
	d := &duo{gpu: g, settings: m}
	iterations := max(uint64(m.KernelUS*perUS), 1)
	for _, c := range []**decoder{&d.first, &d.other} {
		stream, err := g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING))
		if err != nil {
			return nil, err
		}
		j, err := g.newFullJob(iterations)
		if err != nil {
			return nil, err
		}
		*c = &decoder{models: m, gpu: g, stream: stream, job: j}
	}
	return d, nil
}

func (g *gpu) newFullJob(iterations uint64) (*job, error) {
	words := g.blocks * fullBlocks * fullThreads
	expected := make([]byte, 0, 4*words)
	for i := range words {
		w := kernels.SpinResult(i, iterations)
		expected = append(expected, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return g.newJob(iterations, expected)
}

func (j *job) launchFull(s cuda.Stream) error {
	return j.gpu.driver.Launch(j.gpu.spin, [3]uint32{j.gpu.blocks * fullBlocks, 1, 1}, [3]uint32{fullThreads, 1, 1}, 0, s, j.args)
}

// calibrateFull is calibrate for kernels that fill the device.
func (g *gpu) calibrateFull() (perUS float64, err error) {
	const short, tries = 20_000, 8
	best := [2]time.Duration{1 << 62, 1 << 62}
	for begun := time.Now(); time.Since(begun) < warmUp; {
		for range tries {
			for k := range best {
				args, err := cuda.NewLaunchArgs(abi.DevicePtr(0), uint64(short*(k+1)))
				if err != nil {
					return 0, err
				}
				j := &job{gpu: g, args: args}
				start := time.Now()
				if err := j.launchFull(cuda.Stream{}); err != nil {
					return 0, err
				}
				if err := (cuda.Stream{}).Synchronize(); err != nil {
					return 0, err
				}
				best[k] = min(best[k], time.Since(start))
			}
		}
	}
	if best[1] <= best[0] {
		return 0, fmt.Errorf("calibrate: twice the iterations took %v, once %v; is something else using the device?", best[1], best[0])
	}
	return short / (float64((best[1] - best[0]).Nanoseconds()) / 1e3), nil
}

// layer launches one layer's kernels.
func (c *decoder) layer() error {
	for range c.models.Kernels {
		if err := c.job.launchFull(c.stream); err != nil {
			return err
		}
	}
	return nil
}

// token makes one token and waits for it.
func (c *decoder) token(ctx context.Context) error {
	var last *preempt.Command
	for range c.models.Layers {
		var err error
		switch {
		case c.queue == nil:
			err = c.layer()
		case c.direct:
			_, err = c.queue.Do(ctx, c.layer)
		default:
			last, err = c.queue.Submit(c.layer)
		}
		if err != nil {
			return err
		}
	}
	if last != nil {
		return last.Wait(ctx)
	}
	return c.stream.Synchronize()
}

// phase runs one round of a phase.
func (d *duo) phase(ctx context.Context, p *ModelsPhase, span time.Duration) error {
	if p.Mode == "xmsched" {
		scheduler := preempt.NewScheduler(compute.HPF())
		defer scheduler.Close()
		for _, c := range []*decoder{d.first, d.other} {
			unqueue, err := c.enqueue(ctx, scheduler, c == d.first)
			if err != nil {
				return err
			}
			defer unqueue()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var other sync.WaitGroup
	var failed error
	if p.Mode != "alone" {
		other.Go(func() { failed = d.work(ctx, p, cancel) })
	}
	begun := time.Now()
	err := d.serve(ctx, p, begun.Add(span))
	p.SpanS += time.Since(begun).Seconds()
	cancel()
	other.Wait()
	if failed != nil {
		return failed
	}
	return err
}

// enqueue puts a model behind an XQueue.
func (c *decoder) enqueue(ctx context.Context, s *preempt.Scheduler, first bool) (undo func(), err error) {
	o := preempt.Options{Scheduler: s}
	if first {
		o.Hints.Priority = 10
		// Nothing preempts it: no bound has it wait in the midst of a token.
		o.LaunchConfig = preempt.LaunchConfig{Threshold: c.models.Layers, Batch: c.models.Layers}
	} else {
		o.LaunchConfig = preempt.LaunchConfig{Threshold: c.models.Threshold, Batch: 1}
	}
	stream, err := preempt.CUDAStream(c.gpu.driver, c.stream)
	if err != nil {
		return nil, err
	}
	if c.queue, err = preempt.New(stream, o); err != nil {
		return nil, err
	}
	c.direct = first
	return func() {
		_ = c.queue.Close(context.WithoutCancel(ctx)) // a failure of the device is told by the next call
		_ = stream.Close()
		c.queue = nil
	}, nil
}

// serve makes the first model's tokens; warmTokens of them are not counted.
func (d *duo) serve(ctx context.Context, p *ModelsPhase, until time.Time) error {
	const warmTokens = 3
	if p.Mode == "other" {
		sleep(ctx, time.Until(until))
		return nil
	}
	for i := 0; ctx.Err() == nil && time.Now().Before(until); i++ {
		sleep(ctx, d.settings.Gap)
		begun := time.Now()
		if err := d.first.token(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		if i >= warmTokens {
			p.LatencyUS = append(p.LatencyUS, float64(time.Since(begun).Nanoseconds())/1e3)
		}
	}
	return nil
}

// work makes the other model's tokens until the context ends.
func (d *duo) work(ctx context.Context, p *ModelsPhase, cancel func()) error {
	defer cancel() // the phase is over should this fail
	unlock, err := d.gpu.join()
	if err != nil {
		return err
	}
	defer unlock()
	for ctx.Err() == nil {
		if err := d.other.token(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		p.Tokens++
	}
	return nil
}
