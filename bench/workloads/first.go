package workloads

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// First is the foreground program of the row preempt at Level 3: requests whose
// first instruction writes a word of host memory, which the program waits for.
type First struct {
	Count int // requests that count
	Warm  int // requests before those
	Gap   time.Duration
	// Iterations of a kernel on every multiprocessor behind the first one: what
	// makes a request long. 0: none.
	Iterations uint64
}

// Validate says what is wrong with the settings.
func (f First) Validate() error {
	return limit.First(
		limit.Check("count", f.Count, 1, maxRequests),
		limit.Check("warm", f.Warm, 0, maxRequests),
		limit.Check("gap", f.Gap, 0, maxPause),
		limit.Check("iterations", f.Iterations, 0, maxIterations),
	)
}

// firstLimit is how long a first instruction may take to come: on a simulated device a
// machine that is busy takes its time.
const firstLimit = 2 * time.Minute

// RunFirst runs until all requests are done or it is told to end.
func RunFirst(st Steering, say *Speaker, f First) error {
	if err := f.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	p, err := newProbe(g, f)
	if err != nil {
		return err
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	e := Event{Kind: KindResult, BeganNS: MonotonicNS()}
	for i := range f.Warm + f.Count {
		sleep(st.Context, f.Gap+evenly(i, f.Gap))
		if st.Context.Err() != nil {
			break
		}
		start, first, end, err := p.request()
		if err != nil {
			return err
		}
		if i >= f.Warm {
			e.StartNS = append(e.StartNS, start)
			e.LatencyUS = append(e.LatencyUS, float64(first-start)/1e3)
			e.EndNS = append(e.EndNS, end)
		}
	}
	e.Count, e.AtNS = uint64(len(e.StartNS)), MonotonicNS()
	e.Verified, e.Wrong = p.verified, p.wrong
	return say.Say(e)
}

type probe struct {
	gpu      *gpu
	stream   cuda.Stream
	word     *uint32
	args     *cuda.LaunchArgs
	long     *job // nil: requests are short
	verified uint64
	wrong    uint64
}

func newProbe(g *gpu, f First) (*probe, error) {
	p := &probe{gpu: g}
	var err error
	if p.stream, err = g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return nil, err
	}
	w, _, err := newWords()
	if err != nil {
		return nil, err
	}
	if err := g.driver.HostRegister(w.mapping, uint32(abi.CU_MEMHOSTREGISTER_DEVICEMAP)); err != nil {
		return nil, err
	}
	at, err := g.driver.HostDevicePointer(w.mapping)
	if err != nil {
		return nil, err
	}
	p.word = w.word(0)
	if p.args, err = cuda.NewLaunchArgs(at, uint64(1)); err != nil { // one step of the generator: never 0
		return nil, err
	}
	if f.Iterations > 0 {
		p.long, err = g.newJob(f.Iterations, g.expected(f.Iterations))
	}
	return p, err
}

// request gives when it began, when its first instruction was seen and when it
// was done, CLOCK_MONOTONIC in ns.
func (p *probe) request() (start, first, end int64, err error) {
	atomic.StoreUint32(p.word, 0)
	start = MonotonicNS()
	if err := p.gpu.driver.Launch(p.gpu.spin, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, p.stream, p.args); err != nil {
		return 0, 0, 0, err
	}
	if p.long != nil {
		if err := p.long.launch(p.stream); err != nil {
			return 0, 0, 0, err
		}
	}
	for n := 1; atomic.LoadUint32(p.word) == 0; n++ {
		if n%(1<<16) == 0 {
			if time.Duration(MonotonicNS()-start) > firstLimit {
				return 0, 0, 0, fmt.Errorf("the first instruction of a request did not come within %v", firstLimit)
			}
			runtime.Gosched()
		}
	}
	first = MonotonicNS()
	if err := p.stream.Synchronize(); err != nil {
		return 0, 0, 0, err
	}
	end = MonotonicNS()
	return start, first, end, p.verify()
}

// verify compares what a long request wrote, and clears it: behind a request,
// never before one, which would make the task ready early.
func (p *probe) verify() error {
	if p.long == nil {
		p.verified++ // the word came
		return nil
	}
	wrong, err := p.long.check(p.stream)
	p.verified += uint64(len(p.long.expected) / 4)
	p.wrong += wrong
	if err != nil {
		return err
	}
	if err := p.long.poison(p.stream); err != nil {
		return err
	}
	return p.stream.Synchronize()
}
