package workloads

import (
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// Request is the latency-critical program: it waits, launches the kernels of
// one request, synchronises, and notes how long that took.
type Request struct {
	Iterations uint64        // of each kernel
	Kernels    int           // a request
	Count      int           // requests, after the warm-up
	Gap        time.Duration // between two requests
	// Period, if it is not 0, releases a request every so often from the first one
	// on, instead of a gap after the one before; its latency is from its release.
	Period time.Duration
	Burst  int // requests between two pauses; 0: no pauses
	Pause  time.Duration
	High   bool // its stream has the device's highest priority
}

// Validate says what is wrong with the settings.
func (r Request) Validate() error {
	return limit.First(
		limit.Check("iterations", r.Iterations, 1, maxIterations),
		limit.Check("kernels", r.Kernels, 1, 1000),
		limit.Check("count", r.Count, 1, maxRequests),
		limit.Check("gap", r.Gap, 0, maxPause),
		limit.Check("period", r.Period, 0, maxPause),
		limit.Check("burst", r.Burst, 0, maxRequests),
		limit.Check("pause", r.Pause, 0, maxPause),
	)
}

// Ranges of the settings; those of a measurement that makes sense are far inside.
const (
	maxIterations = 1 << 40 // some minutes on any device
	maxRequests   = 1_000_000
	maxPause      = time.Minute
)

// Results are verified after every verifyEvery requests (with bursts: after each
// burst). The copy and the clearing come right after a request, never before
// one: they would make the task ready early and hide what a decision costs.
const verifyEvery = 16

// warmRequests, of one kernel each, are made after "start" and not counted: the
// first launch of a kernel loads it.
const warmRequests = 3

// progressEvery is how often progress is told; a row's rates are read off it.
const progressEvery = 50 * time.Millisecond

// RunRequest runs until all requests are done or it is told to end; then the
// result holds what was measured so far.
func RunRequest(st Steering, say *Speaker, r Request) error {
	if err := r.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	server, err := newServer(g, r)
	if err != nil {
		return err
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	return server.run(st, say)
}

type server struct {
	settings Request
	stream   cuda.Stream
	job      *job
	verified uint64
	wrong    uint64
}

func newServer(g *gpu, r Request) (*server, error) {
	s := &server{settings: r}
	var err error
	if s.stream, err = g.requestStream(r.High); err != nil {
		return nil, err
	}
	if s.job, err = g.newJob(r.Iterations, g.expected(r.Iterations)); err != nil {
		return nil, err
	}
	return s, nil
}

func (g *gpu) requestStream(high bool) (cuda.Stream, error) {
	if !high {
		return g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING))
	}
	_, highest, err := g.driver.PriorityRange()
	if err != nil {
		return cuda.Stream{}, err
	}
	return g.driver.NewStreamWithPriority(uint32(abi.CU_STREAM_NON_BLOCKING), highest)
}

func (s *server) run(st Steering, say *Speaker) error {
	r := s.settings
	for range warmRequests {
		if err := s.request(1); err != nil {
			return err
		}
	}
	if err := s.verify(); err != nil {
		return err
	}
	latency, start := make([]float64, 0, r.Count), make([]int64, 0, r.Count)
	began := MonotonicNS()
	told := time.Now()
	for i := 1; i <= r.Count && st.Context.Err() == nil; i++ {
		released := s.release(began, i-1)
		start = append(start, released)
		if err := s.request(r.Kernels); err != nil {
			return err
		}
		latency = append(latency, float64(MonotonicNS()-released)/1e3)
		last := r.Burst > 0 && i%r.Burst == 0
		if last || i == r.Count || r.Burst == 0 && i%verifyEvery == 0 {
			if err := s.verify(); err != nil {
				return err
			}
		}
		if time.Since(told) >= progressEvery {
			told = time.Now()
			if err := say.Say(Event{Kind: KindProgress, Count: uint64(i), AtNS: MonotonicNS()}); err != nil {
				return err
			}
		}
		if last && i < r.Count {
			wait(r.Pause)
		}
	}
	return say.Say(Event{
		Kind: KindResult, Count: uint64(len(latency)), BeganNS: began, AtNS: MonotonicNS(),
		LatencyUS: latency, StartNS: start, Verified: s.verified, Wrong: s.wrong,
	})
}

// release waits for the next request and gives when its latency begins. One whose
// time has passed begins at once, and has waited since.
func (s *server) release(began int64, i int) int64 {
	r := s.settings
	if r.Period == 0 {
		wait(r.Gap)
		return MonotonicNS()
	}
	at := began + int64(i)*r.Period.Nanoseconds()
	wait(time.Duration(at - MonotonicNS()))
	return at
}

func (s *server) request(kernels int) error {
	for range kernels {
		if err := s.job.launch(s.stream); err != nil {
			return err
		}
	}
	return s.stream.Synchronize()
}

// verify compares the last request's results and clears them.
func (s *server) verify() error {
	wrong, err := s.job.check(s.stream)
	if err != nil {
		return err
	}
	s.verified += uint64(len(s.job.expected) / 4)
	s.wrong += wrong
	if err := s.job.poison(s.stream); err != nil {
		return err
	}
	return s.stream.Synchronize()
}

// wait waits for d. Short waits spin: a sleep of 50 us takes twice that on a
// virtual machine (88 us for a futex wake-up).
func wait(d time.Duration) {
	const spin = 200 * time.Microsecond
	if d > spin {
		time.Sleep(d)
		return
	}
	for begun := time.Now(); time.Since(begun) < d; {
	}
}
