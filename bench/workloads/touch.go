package workloads

import (
	"fmt"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// Touch is a program with much memory: it fills it with words that tell where they
// belong, goes over what its pattern says, step by step, with one kernel for each
// piece, until it is told to end, and compares all that was read and all that is
// there with what it must be.
type Touch struct {
	Pattern string
	Bytes   uint64 // all its memory
	Piece   uint64 // that a kernel goes over
	First   uint64 // what its first piece holds at first, each other the next: see content
	Phase   int    // steps until a pattern of a part goes on to another part
	Rounds  int    // times that a kernel of PatternLong goes over its piece
	Steps   int    // that it makes; 0: until it is told to end
	// Period is how often a step is released, which then waits for its end: a program
	// whose latency matters. 0: steps come one after the other.
	Period time.Duration
	// Burst is the number of such steps between two pauses; 0: no pauses.
	Burst int
	Pause time.Duration
	// Together is what all paged programs of the run have.
	Together uint64
}

// Bounds of the settings.
const (
	minPiece  = 1 << 20
	maxPiece  = 8 << 30 // words of a kernel are counted in 32 bits
	maxMemory = 1 << 42
	maxRounds = 1 << 20
	maxPhase  = 1 << 30
	maxPieces = 1 << 12
	maxFirst  = 1 << 20
)

// Validate says what is wrong with the settings.
func (t Touch) Validate() error {
	if err := limit.First(
		limit.Check("piece", t.Piece, minPiece, maxPiece),
		limit.Check("bytes", t.Bytes, t.Piece, maxMemory),
		limit.Check("pieces", t.Bytes/max(t.Piece, 1), 1, maxPieces),
		limit.Check("first", t.First, 0, maxFirst),
		limit.Check("phase", t.Phase, 1, maxPhase),
		limit.Check("rounds", t.Rounds, 1, maxRounds),
		limit.Check("steps", t.Steps, 0, maxPhase),
		limit.Check("period", t.Period, 0, maxPause),
		limit.Check("burst", t.Burst, 0, maxPulses),
		limit.Check("pause", t.Pause, 0, maxPause),
	); err != nil {
		return err
	}
	if t.Piece%minPiece != 0 {
		return fmt.Errorf("piece is %d, want a multiple of %d", t.Piece, minPiece)
	}
	return t.plan().validate()
}

func (t Touch) plan() touchPlan {
	return touchPlan{pattern: t.Pattern, pieces: int(t.Bytes / t.Piece), phase: uint64(t.Phase)}
}

// Pieces is how many it has.
func (t Touch) Pieces() int { return t.plan().pieces }

// StepBytes is what a step touches, PhaseBytes what all steps of a phase do.
func (t Touch) StepBytes() uint64 { return uint64(t.plan().perStep()) * t.Piece }

// PhaseBytes: see StepBytes.
func (t Touch) PhaseBytes() uint64 { return uint64(t.plan().inPhase()) * t.Piece }

// Touched is how far a program of that kind was, and when.
type Touched struct {
	AtNS  []int64  `json:"at_ns"` // CLOCK_MONOTONIC, rising
	Steps []uint64 `json:"steps"` // that had ended by then
	// StepBytes is what one step touches.
	StepBytes uint64 `json:"step_bytes"`
}

// touchToldEvery is how often a program with much memory says how far it is.
const touchToldEvery = 250 * time.Millisecond

// markEvery is the shortest time between two marks, which bounds them: ten minutes'
// are 300,000.
const markEvery = 2 * time.Millisecond

func (t *Touched) mark(at int64, steps uint64) {
	if n := len(t.AtNS); n == 0 || at-t.AtNS[n-1] >= markEvery.Nanoseconds() {
		t.AtNS, t.Steps = append(t.AtNS, at), append(t.Steps, steps)
	}
}

// RunTouch runs until it is told to end.
func RunTouch(st Steering, say *Speaker, t Touch) error {
	if err := t.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	m, err := newMassif(g, t, g.driver.MemAlloc)
	if err != nil {
		return err
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	r := &toucher{m: m, settings: t, result: Touched{StepBytes: t.StepBytes()}}
	began := MonotonicNS()
	stop := tell(st.Context, say, touchToldEvery, r.ended.Load)
	err = r.run(st.Context)
	stop()
	if err != nil {
		return err
	}
	at := MonotonicNS()
	verified, wrong, err := m.check()
	if err != nil {
		return err
	}
	return say.Say(Event{
		Kind: KindResult, Count: r.ended.Load(), BeganNS: began, AtNS: at, LatencyUS: r.latency, StartNS: r.released,
		Touched: &r.result, Verified: verified, Wrong: wrong,
	})
}

// massif is a program's memory on the device, piece by piece, with the kernels that
// go over it.
type massif struct {
	gpu    *gpu
	plan   touchPlan
	rounds uint32
	words  uint64 // of a piece
	first  uint64
	stream cuda.Stream

	at      []abi.DevicePtr // of each piece
	sums    abi.DevicePtr   // one word of 64 bits for each: the sum of what was read
	base    []uint64        // the sum of each piece at first
	touched []uint64        // how often each was touched
	visit   []*cuda.LaunchArgs
	kernel  cuda.Function
	sum     cuda.Function
}

// newMassif allocates the memory by the given function and fills it.
func newMassif(g *gpu, t Touch, allocate func(uint64) (abi.DevicePtr, error)) (*massif, error) {
	m := &massif{gpu: g, plan: t.plan(), rounds: 1, words: t.Piece / 4, first: t.First}
	if t.Pattern == PatternLong {
		m.rounds = uint32(t.Rounds)
	}
	var err error
	if m.stream, err = g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return nil, err
	}
	if err := m.load(); err != nil {
		return nil, err
	}
	if err := m.allocate(t.Piece, allocate); err != nil {
		return nil, err
	}
	m.base, m.touched = make([]uint64, m.plan.pieces), make([]uint64, m.plan.pieces)
	if err := m.arguments(); err != nil {
		return nil, err
	}
	return m, m.fill()
}

func (m *massif) load() error {
	module, err := m.gpu.driver.LoadModule(kernels.PTX())
	if err != nil {
		return err
	}
	if m.sum, err = module.Function("xm_checksum"); err != nil {
		return err
	}
	m.kernel = m.sum
	if !m.plan.writes() {
		return nil
	}
	text, name := kernels.StressPTX(), "xm_churn"
	if m.plan.pattern == PatternStencil {
		text, name = kernels.SciencePTX(), "xm_stencil"
	}
	if module, err = m.gpu.driver.LoadModule(text); err != nil {
		return err
	}
	m.kernel, err = module.Function(name)
	return err
}

func (m *massif) allocate(piece uint64, allocate func(uint64) (abi.DevicePtr, error)) error {
	pieces := uint64(m.plan.pieces)
	if m.plan.whole() {
		all, err := allocate(pieces * piece)
		if err != nil {
			return fmt.Errorf("allocate %d bytes: %w", pieces*piece, err)
		}
		for i := range pieces {
			m.at = append(m.at, all+abi.DevicePtr(i*piece))
		}
	}
	for len(m.at) < m.plan.pieces {
		at, err := allocate(piece)
		if err != nil {
			return fmt.Errorf("allocate piece %d of %d: %w", len(m.at)+1, pieces, err)
		}
		m.at = append(m.at, at)
	}
	var err error
	if m.sums, err = m.gpu.driver.MemAlloc(8 * pieces); err != nil {
		return err
	}
	return m.gpu.zero(m.sums, 2*pieces)
}

func (m *massif) sumAt(piece int) abi.DevicePtr { return m.sums + abi.DevicePtr(8*piece) }

// arguments makes those of the kernels, once: they are the same in each step.
func (m *massif) arguments() error {
	for i, at := range m.at {
		args, err := cuda.NewLaunchArgs(m.sumAt(i), at, m.words)
		switch {
		case m.plan.pattern == PatternStencil && i%2 == 0:
			args = nil // it is read when the next one is worked out
		case m.plan.pattern == PatternStencil:
			args, err = cuda.NewLaunchArgs(at, m.at[i-1], uint32(m.words/stencilColumns), uint32(stencilColumns))
		case m.plan.writes():
			args, err = cuda.NewLaunchArgs(at, uint32(m.words), m.rounds)
		}
		if err != nil {
			return err
		}
		m.visit = append(m.visit, args)
	}
	return nil
}

// stencilColumns are those of a piece taken as a table.
const stencilColumns = 1 << 12

// Shape of the kernels that go over a piece: enough threads to fill the device.
const (
	touchThreads = 256
	touchBlocks  = 8 // for each multiprocessor
)

// touch queues that a piece is gone over.
func (m *massif) touch(piece int) error {
	m.touched[piece]++
	if m.visit[piece] == nil {
		return nil
	}
	grid := [3]uint32{touchBlocks * m.gpu.blocks, 1, 1}
	return m.gpu.driver.Launch(m.kernel, grid, [3]uint32{touchThreads, 1, 1}, 0, m.stream, m.visit[piece])
}

// queue queues step n.
func (m *massif) queue(n uint64, scratch []int) ([]int, error) {
	scratch = m.plan.step(n, scratch[:0])
	for _, i := range scratch {
		if err := m.touch(i); err != nil {
			return scratch, err
		}
	}
	return scratch, nil
}
