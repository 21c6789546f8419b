package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"xmsched/predictor"
	"xmsched/shim/templates"
)

// Knowledge is what is known of kernels, for who learns and who foresees: read from
// the user's store when it is first needed, and saved there when there is more of it.
// It may be used from several goroutines, none of them the program's.
type Knowledge struct {
	store *templates.Store // nil: it is not kept
	lost  error            // why not, for who learnt; nil: that is as the user wants it
	warn  func(error)

	saving sync.Mutex // held by Save; taken before mu

	mu      sync.Mutex
	library *predictor.Library // protected by mu; nil: not read yet
	changed bool               // protected by mu: since it was saved
}

// NewKnowledge returns what is in the store, nil for none; warn is told why that
// could not be used.
func NewKnowledge(store *templates.Store, warn func(error)) *Knowledge {
	return &Knowledge{store: store, warn: warn}
}

// UserKnowledge is that of this process's user. The host is told, once, why it cannot
// be used.
func UserKnowledge(host Host) *Knowledge {
	warn := func(err error) { host.WarnOnce(WarnTemplates, err.Error()) }
	dir, err := templates.Dir()
	if err != nil {
		k := NewKnowledge(nil, warn)
		if !errors.Is(err, templates.ErrOff) {
			k.lost = err
		}
		return k
	}
	store := templates.Open(dir)
	return NewKnowledge(&store, warn)
}

// Use calls f with the library, which it must not keep.
func (k *Knowledge) Use(f func(*predictor.Library)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.library == nil {
		k.library = k.load()
	}
	f(k.library)
}

// Prepare reads the store, so that nobody waits for that later: a large one, or a slow
// disk, takes seconds.
func (k *Knowledge) Prepare() { k.Use(func(*predictor.Library) {}) }

func (k *Knowledge) load() *predictor.Library {
	if k.store == nil {
		return predictor.NewLibrary(predictor.Config{})
	}
	library, err := k.store.Load()
	if err != nil {
		k.warn(err)
	}
	return library
}

// Learnt says that there is more to keep.
func (k *Knowledge) Learnt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed = true
}

// Model is a kernel's. It is used within Use alone.
func (k *Knowledge) Model(of Kernel) (m *predictor.Model) {
	k.Use(func(l *predictor.Library) { m = l.Kernel(KernelOf(of), uint64(time.Now().Unix())) })
	return m
}

// kernelModels are the models of a program's kernels by the C library's ids of them.
type kernelModels map[uint32]*predictor.Model

// of is a kernel's model, nil when nobody knows what it is. The C library is asked of
// each kernel once.
func (m kernelModels) of(id uint32, commands Commands, knowledge *Knowledge) *predictor.Model {
	if known := m[id]; known != nil || id == 0 {
		return known
	}
	k, err := commands.Kernel(id)
	if err != nil {
		return nil
	}
	m[id] = knowledge.Model(k)
	return m[id]
}

// Save merges what was learnt into the store. What could not be saved is saved the
// next time. Whoever saves at the end waits for one that is under way: the process
// ends behind it.
func (k *Knowledge) Save() {
	k.saving.Lock()
	defer k.saving.Unlock()
	encoded, err := k.take()
	if err == nil && encoded != nil {
		if err = k.store.Save(encoded); err != nil {
			k.Learnt()
		}
	}
	if err != nil {
		k.warn(err)
	}
}

// take is what is to be saved; nil: nothing.
func (k *Knowledge) take() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.changed || k.library == nil {
		return nil, nil
	}
	k.changed = false
	if k.store == nil {
		return nil, k.lost
	}
	return k.library.Encode(0), nil
}

// keepEvery is how often what was learnt is saved: a program may be killed, and those in
// Go end without any handler. Of the time one part in keepShare at most is spent with
// that.
const (
	keepEvery = 250 * time.Millisecond
	keepShare = 20
)

// keep saves what was learnt now and then, until ctx ends.
func (a *Agent) keep(ctx context.Context) {
	for pause := keepEvery; ; {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		a.cfg.Knowledge.Save()
		pause = max(keepEvery, keepShare*time.Since(begun))
	}
}
