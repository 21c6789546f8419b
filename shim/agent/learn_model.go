package agent

import (
	"sync"

	"xmsched/predictor"
)

// Learner is an Observer that adds to what is known. It may be used from several
// goroutines.
type Learner struct {
	commands  Commands
	knowledge *Knowledge

	mu     sync.Mutex // protects all below
	models kernelModels
	ranges predictor.Ranges // of the last launch that was looked at
	buffer []byte
}

// NewLearner adds to that knowledge.
func NewLearner(knowledge *Knowledge, commands Commands) *Learner {
	return &Learner{commands: commands, knowledge: knowledge, models: kernelModels{}}
}

// Worth implements Observer. Of a launch that is not known whole nothing can be
// learnt: what it touches would be put down to the wrong parameters.
func (l *Learner) Worth(c *Command) (worth bool) {
	if !c.whole() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.models.of(c.Kernel, l.commands, l.knowledge)
	if m == nil || l.lookAround() != nil {
		return false
	}
	launch := LaunchOf(c)
	l.knowledge.Use(func(*predictor.Library) { worth = m.Worth(&launch, &l.ranges) })
	return worth
}

// Observe implements Observer. The ranges are those that Worth saw: the launch's
// thread has been waiting since.
func (l *Learner) Observe(c *Command, seen *predictor.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.models.of(c.Kernel, l.commands, l.knowledge); m != nil {
		launch := LaunchOf(c)
		l.knowledge.Use(func(*predictor.Library) { m.Observe(&launch, &l.ranges, seen) })
		l.knowledge.Learnt()
	}
}

// lookAround takes in the allocations that there are. Precondition: mu is held.
func (l *Learner) lookAround() error {
	buffer, err := l.commands.Ranges(l.buffer)
	if err != nil {
		return err
	}
	l.buffer = buffer[:cap(buffer)]
	l.ranges = predictor.Ranges{}
	for rest := buffer; len(rest) > 0; {
		var c Command
		if c, rest, err = NextCommand(rest); err != nil {
			return err
		}
		if r, ok := c.Range(); ok {
			l.ranges.Add(predictor.Range{Base: r.Base, Bytes: r.Bytes})
		}
	}
	return nil
}

// KernelOf is a kernel as the predictor knows it.
func KernelOf(k Kernel) predictor.Kernel {
	out := predictor.Kernel{Key: predictor.Key{Name: k.Name}}
	for i, word := range k.Code {
		for b := range 8 {
			out.Code[8*i+b] = byte(word >> (8 * b))
		}
	}
	for _, p := range k.Parameters {
		out.Params = append(out.Params, predictor.Param{Offset: p.Offset, Bytes: p.Size})
	}
	if !k.Layout || k.More {
		out.Params = nil // every word may be a value
	}
	return out
}

// LaunchOf is a launch as the predictor knows it. Its parameters lie in the
// command's payload.
func LaunchOf(c *Command) predictor.Launch {
	l := predictor.Launch{Grid: c.Grid, Block: c.Block, Shared: c.Shared, Params: c.Parameters()}
	for _, m := range c.AppendTensorMaps(nil) {
		l.Maps = append(l.Maps, predictor.Range{Base: m.Address, Bytes: m.Bytes()})
	}
	return l
}

// Bytes is how much memory a tensor map spans; 0: that is not known.
func (m *TensorMap) Bytes() uint64 {
	if m.Element == 0 || m.Rank < 1 || m.Rank > len(m.Dims) {
		return 0
	}
	n := (m.Dims[0]*uint64(m.Element) + 7) / 8
	for i := 1; i < m.Rank; i++ {
		if m.Dims[i] == 0 {
			return 0
		}
		n += (m.Dims[i] - 1) * m.Strides[i-1]
	}
	return n
}
