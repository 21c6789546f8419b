package predictor

import (
	"cmp"
	"slices"
)

// Config of a library.
type Config struct {
	// Kernels bounds the models; 0 is 8,192. A training step of PyTorch has some
	// hundred kernels, an application that makes kernels at run time any number.
	Kernels int
}

const defaultKernels = 8192

// Library holds the models of kernels.
type Library struct {
	// Score sums the outcomes of all observations that templates were tried on
	// before they were fitted to them, since the library was made or read.
	Score Score

	config   Config
	models   map[Key]*Model
	families map[Key]*kindred
}

// NewLibrary returns a library without models.
func NewLibrary(c Config) *Library {
	if c.Kernels <= 0 {
		c.Kernels = defaultKernels
	}
	return &Library{config: c, models: make(map[Key]*Model), families: make(map[Key]*kindred)}
}

// Len is the number of models.
func (l *Library) Len() int { return len(l.models) }

// Kernel returns the model of a kernel, a new one if there is none, or if the
// layout of its parameters is another than before: then it is another kernel of
// the same name. Where the library is full the model used longest ago goes; who
// holds it may go on with it.
func (l *Library) Kernel(k Kernel, now uint64) *Model {
	k = k.clone()
	if m := l.models[k.Key]; m != nil {
		if len(k.Params) == 0 || slices.Equal(m.kernel.Params, k.Params) {
			m.Used = now
			return m
		}
		if len(m.kernel.Params) == 0 {
			m.setLayout(k.Params)
			l.join(m)
			m.Used = now
			return m
		}
	}
	m := l.put(k)
	m.Used = now
	return m
}

func (l *Library) put(k Kernel) *Model {
	if l.models[k.Key] == nil && len(l.models) >= l.config.Kernels {
		l.evict()
	}
	m := &Model{kernel: k}
	m.setLayout(k.Params)
	l.models[k.Key] = m
	l.join(m)
	return m
}

func (m *Model) setLayout(params []Param) {
	m.kernel.Params = params
	m.layout = layout{params: params, known: len(params) > 0}
	m.not = m.layout.noPointers()
	for _, s := range m.samples {
		m.scalars(&s.launch)
	}
}

// evict lets a sixteenth of the models go, so that the search for the oldest is
// rare.
func (l *Library) evict() {
	list := l.Models()
	for _, m := range list[len(list)-max(len(list)/16, 1):] {
		l.Remove(m.kernel.Key)
	}
}

// clone copies a kernel's description within bounds.
func (k Kernel) clone() Kernel {
	if len(k.Name) > maxName {
		k.Name = k.Name[:maxName]
	}
	k.Params = slices.Clone(k.Params[:min(len(k.Params), maxLayout)])
	return k
}

// Models lists the models, the last used first.
func (l *Library) Models() []*Model {
	list := make([]*Model, 0, len(l.models))
	for _, m := range l.models {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *Model) int {
		return cmp.Or(-cmp.Compare(a.Used, b.Used), compareKeys(a.kernel.Key, b.kernel.Key))
	})
	return list
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.Code[:], b.Code[:]))
}

// Remove forgets a kernel.
func (l *Library) Remove(k Key) {
	if m := l.models[k]; m != nil {
		l.leave(m)
		delete(l.models, k)
	}
}

// Merge takes in the models of another library, which is not used any more: of
// one kernel's two the one that has seen more stays. Of their scores too the one
// over more launches does: both may count the same.
func (l *Library) Merge(o *Library) {
	for _, m := range o.Models() {
		mine := l.models[m.kernel.Key]
		switch {
		case mine == nil:
			if len(l.models) >= l.config.Kernels {
				l.evict()
			}
		case !m.better(mine):
			mine.Used = max(mine.Used, m.Used)
			mine.score = fuller(mine.score, m.score)
			continue
		default:
			m.Used = max(mine.Used, m.Used)
			m.score = fuller(m.score, mine.score)
		}
		if mine != nil {
			l.leave(mine)
		}
		l.models[m.kernel.Key] = m
		l.join(m)
	}
	l.Score.Add(o.Score)
}

func fuller(a, b Score) Score {
	if b.Launches > a.Launches {
		return b
	}
	return a
}

// better says whether a model knows more than another. What dropped templates has
// fewer that are verified, and is right all the same: observations count first.
func (m *Model) better(o *Model) bool {
	return cmp.Or(cmp.Compare(m.stats.Observations, o.stats.Observations), cmp.Compare(m.verified(), o.verified())) > 0
}

// verified counts the variants that predict.
func (m *Model) verified() int {
	n := 0
	m.root.leaves(func(v *variant) {
		if v.verified > 0 {
			n++
		}
	})
	return n
}
