package mover

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"xmsched/memory"
)

// Config is what an Engine is made of.
type Config struct {
	Memory Memory
	// Go starts a goroutine that survives no panic: it recovers, and ends the agent.
	Go func(func())
	// HostMemory tells what is known of the machine's memory; nil: HostMemory.
	HostMemory func() memory.HostFigures
	// Uses foresees what the process's commands touch; nil: nobody does.
	Uses Uses
	// Journal is told of each move, on the goroutine that made it; nil: nobody is.
	Journal func(Entry)

	now  func() time.Duration
	sums func(summer) summer // in the place of what takes digests; nil: it itself
	look time.Duration       // how long digests may take however little moves; 0: leastLook
	mend time.Duration       // after how long a context is made in the place of one that broke; 0: later
}

// Engine moves a process's memory. It outlives the boards that it serves: what it
// made on a device stays.
type Engine struct {
	config Config

	mu       sync.Mutex
	sections map[int]*section // protected by mu; each used by one Serve at a time
}

// New makes an engine. Nothing is made on any device yet.
func New(c Config) *Engine {
	if c.HostMemory == nil {
		c.HostMemory = HostMemory
	}
	if c.now == nil {
		began := time.Now()
		c.now = func() time.Duration { return time.Since(began) }
	}
	if c.look == 0 {
		c.look = leastLook
	}
	if c.mend == 0 {
		c.mend = later
	}
	return &Engine{config: c, sections: map[int]*section{}}
}

// Serve moves the memory of one device by what the board asks, until ctx ends and
// what was under way has ended. One call at a time for each section. Without a pool host memory
// is made and given back to the system.
func (e *Engine) Serve(ctx context.Context, index int, b Board, p Pool) {
	s := e.section(index)
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	var watchers sync.WaitGroup
	watchers.Add(2)
	e.config.Go(func() {
		defer watchers.Done()
		watch(ctx, s, b.WaitOrders, func() uint32 { want, _ := b.Orders(); return want })
	})
	e.config.Go(func() {
		defer watchers.Done()
		watch(ctx, s, b.WaitHolds, b.Holds)
	})
	if p != nil {
		watchers.Add(1)
		e.config.Go(func() {
			defer watchers.Done()
			s.passOn(ctx, b, p)
		})
	}
	e.config.Go(func() { watchers.Wait(); close(watched) })
	defer func() {
		cancel()
		for {
			b.Wake()
			select {
			case <-watched:
				return
			case <-time.After(time.Millisecond): // it was about to sleep
			}
		}
	}()
	s.serve(ctx, b, p)
}

// Foreseen says that what Config.Uses foresees for a section has changed. From any
// goroutine; a hundred times a second is often enough.
func (e *Engine) Foreseen(index int) {
	s := e.section(index)
	s.foreseen.Store(true)
	s.ring()
}

// Away lists what of a section's memory is not on the device now, by address, in the place
// of what is in into. From any goroutine.
func (e *Engine) Away(index int, into []memory.Segment) []memory.Segment {
	list, err := e.config.Memory.List(index, into)
	if err != nil {
		return into[:0]
	}
	list = slices.DeleteFunc(list, func(s memory.Segment) bool { return s.State == memory.Device })
	slices.SortFunc(list, func(a, b memory.Segment) int { return cmp.Compare(a.Address, b.Address) })
	return list
}

// watch rings when a word of the board changes.
func watch(ctx context.Context, s *section, wait func(uint32, time.Duration), load func() uint32) {
	old := load()
	s.ring() // whoever looked before that may have missed a change
	for ctx.Err() == nil {
		wait(old, latest)
		if word := load(); word != old {
			old = word
			s.ring()
		}
	}
}

func (e *Engine) section(index int) *section {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sections[index]
	if s == nil {
		s = newSection(index, e.config)
		e.sections[index] = s
	}
	return s
}

// Close ends what is left when no Serve runs any more. The contexts stay as long
// as the process.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sections {
		if s.copier != nil {
			s.copier.close()
			s.copier = nil
		}
	}
}
