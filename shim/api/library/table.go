package library

import (
	"sync"
	"sync/atomic"
)

// lastHandle counts all kinds of handles together, so that one of a wrong kind
// is in no table.
var lastHandle atomic.Uint64

// table maps handles to what they stand for.
type table[T any] struct {
	kind string
	mu   sync.RWMutex
	of   map[uint64]*T
}

func newTable[T any](kind string) table[T] { return table[T]{kind: kind, of: make(map[uint64]*T)} }

func (t *table[T]) add(v *T) uint64 {
	h := lastHandle.Add(1)
	t.mu.Lock()
	t.of[h] = v
	t.mu.Unlock()
	return h
}

func (t *table[T]) get(h uint64) (*T, error) {
	t.mu.RLock()
	v := t.of[h]
	t.mu.RUnlock()
	if v == nil {
		return nil, refuse(NotFound, "%s %#x is not known", t.kind, h)
	}
	return v, nil
}

func (t *table[T]) remove(h uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.of[h]
	delete(t.of, h)
	return ok
}

func (t *table[T]) all() []*T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]*T, 0, len(t.of))
	for _, v := range t.of {
		list = append(list, v)
	}
	return list
}

// keep is how many commands stay known for sure after they are over.
const keep = 4096

// recent forgets commands that are over and that nobody has asked for in a
// while: callers need not destroy what they submit.
type recent struct {
	mu   sync.Mutex
	list []uint64
}

// submitted notes a command; forget takes the oldest ones that are over.
func (r *recent) submitted(h uint64, over func(uint64) bool, forget func(uint64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, h)
	// Two looks a submission: the list shrinks to keep when commands do end.
	for range 2 {
		if len(r.list) <= keep {
			return
		}
		oldest := r.list[0]
		r.list = r.list[1:]
		if over(oldest) {
			forget(oldest)
		} else {
			r.list = append(r.list, oldest)
		}
	}
}
