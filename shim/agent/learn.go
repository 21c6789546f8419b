package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"xmsched/memory"
	"xmsched/nvx/faults"
	"xmsched/predictor"
)

// Learning is by what the agent learns which memory the program's kernels touch.
// The C library offers launches; what is worth a look is isolated, and its page faults
// are read.
type Learning struct {
	Samples  Samples
	Device   Device
	Observer Observer
	// Open opens the feed of page faults, when there is a first launch to look at.
	Open func() (Feed, error)
	// Host is what of the host's memory may be taken. The driver keeps what it once
	// took for a range for as long as the range lives.
	Host memory.Bytes
}

// Samples are launches that wait for us (shim/cuda/preload/samples.h). Whoever is
// late finds that the launch went on.
type Samples interface {
	// Next takes the launch that waits; false: there was none for so long. The
	// error is ErrNoSamples.
	Next(limit time.Duration) (Sample, bool, error)
	// Skip lets a launch go that is worth nothing.
	Skip(number uint32) bool
	// Ready lets it enter the driver.
	Ready(number uint32) bool
	// Ran waits until the driver took it; an error: it will not, or not for us.
	Ran(number uint32, limit time.Duration) (bool, error)
	// Done lets the thread go on. False: it has, and what was seen is not the launch's
	// alone.
	Done(number uint32) bool
	// Stop wants no more of them.
	Stop()
	// Ranges adds the allocations that fault, by address.
	Ranges(to []faults.Range) []faults.Range
}

// ErrNoSamples is the end of Samples: of the process, or of learning.
var ErrNoSamples = errors.New("no more launches to learn from")

// Sample is a launch that waits. Its command's payload is valid until the next one.
type Sample struct {
	Number  uint32
	Context uint64 // CUcontext
	Device  int    // CUdevice
	Command Command
}

// Device does to the program's memory what a sample needs. One goroutine uses it,
// locked to its thread.
type Device interface {
	// Enter makes a context of the program's current, until Leave.
	Enter(context uint64) error
	Leave()
	// Quiet waits until the context has nothing to do.
	Quiet() error
	// Away brings ranges to the host, so that whoever touches them faults, also
	// with a write after a read.
	Away(ranges []faults.Range) error
	// Plain ends the second.
	Plain(ranges []faults.Range) error
	// Home begins to bring ranges back to a device.
	Home(ranges []faults.Range, device int) error
}

// Feed is a fault feed (nvx/faults).
type Feed interface {
	Drain(take func(faults.Event)) int
	Flush()
	Dropped() uint64
	Close()
}

// Observer learns. One of its methods is called at a time, on no thread of the
// program's.
type Observer interface {
	// Worth says whether a launch would tell something new.
	Worth(c *Command) bool
	// Observe takes in what a launch was seen to touch.
	Observe(c *Command, seen *predictor.Observation)
}

const (
	// awayBytes bounds what one sample sends away, and so how long its launch
	// waits: a quarter of a second, at the 9 GB/s of h200.md.
	awayBytes = 2 << 30
	// allEvery is how often all memory is sent away, not only what the launch
	// names: kernels follow pointers that lie in memory.
	allEvery = 8
	// drainEvery is how often the feed is read while a sample runs: at 8 GB/s of
	// faults some 500 of its entries are filled between.
	drainEvery = 200 * time.Microsecond
	// listenFor is how long one look for a sample takes.
	listenFor = time.Second
	// patience is how long a launch waits for an observation before it to be taken
	// in: less than the C library's limit, behind which it would count as missed.
	patience = 500 * time.Millisecond
)

// student learns, on a goroutine of its own.
type student struct {
	*Learning
	feed   Feed
	ranges []faults.Range // reused
	taken  int
	spawn  func(func())
	idle   chan struct{}             // holds one while nothing is taken in
	kept   map[faults.Range]struct{} // of those, what was on the host before
}

// learn runs until there is nothing more to learn, or ctx ends.
func (a *Agent) learn(ctx context.Context, l *Learning) {
	runtime.LockOSThread() // contexts are the thread's; it ends with the goroutine
	s := newStudent(l, a.goQuietly)
	defer s.close()
	for ctx.Err() == nil {
		sample, there, err := s.Samples.Next(listenFor)
		if err != nil {
			return
		}
		if !there {
			continue
		}
		if err := s.open(); err != nil {
			s.Samples.Stop()
			a.host.WarnOnce(WarnLearning, fmt.Sprintf("%v: nothing can be learnt of this program, which goes on", err))
			return
		}
		s.look(&sample)
	}
}

func newStudent(l *Learning, spawn func(func())) *student {
	s := &student{Learning: l, spawn: spawn, idle: make(chan struct{}, 1), kept: map[faults.Range]struct{}{}}
	s.idle <- struct{}{}
	return s
}

// close waits until what was seen is taken in.
func (s *student) close() {
	<-s.idle
	if s.feed != nil {
		s.feed.Close()
	}
}

func (s *student) open() error {
	if s.feed != nil {
		return nil
	}
	feed, err := s.Open()
	if err != nil {
		return err
	}
	s.feed = feed
	return nil
}

// look is one sample. Whatever fails, its thread goes on at its limit.
func (s *student) look(sample *Sample) {
	select {
	case <-s.idle:
	case <-time.After(patience):
		s.Samples.Skip(sample.Number)
		return
	}
	done, returns := false, true
	defer func() {
		if !done { // a panic: no launch is to wait for what does not come
			s.Samples.Stop()
		}
		if returns {
			s.idle <- struct{}{}
		}
	}()
	if seen := s.see(sample); seen != nil {
		c := sample.Command
		c.payload = slices.Clone(c.payload) // the next sample's lies there
		returns = false
		s.spawn(func() {
			defer func() { s.idle <- struct{}{} }()
			s.Observer.Observe(&c, seen)
		})
	}
	done = true
}

// see is what the launch touches; nil: it was not seen alone, or is worth nothing.
func (s *student) see(sample *Sample) *predictor.Observation {
	if !s.Observer.Worth(&sample.Command) {
		s.Samples.Skip(sample.Number)
		return nil
	}
	s.ranges = s.Samples.Ranges(s.ranges[:0])
	away := s.choose(&sample.Command)
	if len(away) == 0 || s.Device.Enter(sample.Context) != nil {
		s.Samples.Skip(sample.Number)
		return nil
	}
	defer s.Device.Leave()
	if s.Device.Quiet() != nil || s.Device.Away(away) != nil {
		s.Samples.Skip(sample.Number)
		_ = s.Device.Plain(away)
		return nil
	}
	fold, lossy, alone := s.isolated(sample.Number, away)
	_ = s.Device.Home(away, sample.Device)
	if !alone {
		return nil
	}
	s.taken++
	return observation(fold, away, lossy)
}

// isolated lets the launch run and reads its faults. alone: nothing else was seen.
func (s *student) isolated(number uint32, away []faults.Range) (fold *faults.Fold, lossy, alone bool) {
	s.feed.Flush()
	s.feed.Drain(func(faults.Event) {})
	before := s.feed.Dropped()
	fold = faults.NewFold(s.ranges)
	if !s.Samples.Ready(number) {
		_ = s.Device.Plain(away)
		return fold, false, false
	}
	err := s.reading(fold, func() error {
		for {
			ran, err := s.Samples.Ran(number, listenFor)
			if err != nil {
				return err
			}
			if ran {
				err := s.Device.Quiet()
				s.feed.Flush()
				return err
			}
		}
	})
	lossy = s.feed.Dropped() != before
	_ = s.Device.Plain(away)
	return fold, lossy, s.Samples.Done(number) && err == nil
}

// reading folds what the feed has while work is done, and what it has then.
func (s *student) reading(fold *faults.Fold, work func() error) error {
	stop, stopped := make(chan struct{}), make(chan struct{})
	s.spawn(func() {
		defer close(stopped)
		for {
			s.feed.Drain(fold.Add)
			select {
			case <-stop:
				return
			case <-time.After(drainEvery):
			}
		}
	})
	defer func() {
		close(stop)
		<-stopped
		s.feed.Drain(fold.Add)
	}()
	return work()
}

// choose says what is to be sent away: what the launch names, and now and then all,
// the small first, as far as there is time for it.
func (s *student) choose(c *Command) []faults.Range {
	named := make([]bool, len(s.ranges))
	mark := func(address uint64) {
		i, exact := s.find(address)
		if !exact {
			i--
		}
		if i >= 0 && address-s.ranges[i].Base < s.ranges[i].Bytes {
			named[i] = true
		}
	}
	for p := c.Parameters(); len(p) >= 8; p = p[8:] {
		mark(word64(p, 0))
	}
	for _, m := range c.AppendTensorMaps(nil) {
		mark(m.Address)
	}
	var first, second []faults.Range
	for i, r := range s.ranges {
		if named[i] {
			first = append(first, r)
		} else if s.taken%allEvery == allEvery-1 {
			second = append(second, r)
		}
	}
	if len(first) == 0 { // nothing of the launch would be seen
		return nil
	}
	return s.within(awayBytes, first, second)
}

// find is the range that begins at an address, or the next one.
func (s *student) find(base uint64) (i int, there bool) {
	return slices.BinarySearchFunc(s.ranges, base, func(r faults.Range, at uint64) int { return cmp.Compare(r.Base, at) })
}

// within takes of each list the smallest, as far as they fit: one sample, and the
// host.
func (s *student) within(limit uint64, lists ...[]faults.Range) (all []faults.Range) {
	host := uint64(s.Host)
	for r := range s.kept {
		if i, there := s.find(r.Base); there && s.ranges[i] == r {
			host -= min(host, r.Bytes)
		} else {
			delete(s.kept, r)
		}
	}
	for _, list := range lists {
		slices.SortFunc(list, func(a, b faults.Range) int { return cmp.Compare(a.Bytes, b.Bytes) })
		for _, r := range list {
			_, kept := s.kept[r]
			if r.Bytes > limit || !kept && r.Bytes > host {
				continue
			}
			if !kept {
				s.kept[r] = struct{}{}
				host -= r.Bytes
			}
			limit -= r.Bytes
			all = append(all, r)
		}
	}
	return all
}

func observation(fold *faults.Fold, away []faults.Range, lossy bool) *predictor.Observation {
	o := &predictor.Observation{Grain: faults.BlockBytes, Watched: make([]predictor.Range, 0, len(away)), Lossy: lossy}
	for _, r := range away {
		o.Watched = append(o.Watched, predictor.Range{Base: r.Base, Bytes: r.Bytes})
	}
	for _, b := range fold.Blocks() {
		t := predictor.Touch{Base: b.Base, Bytes: b.Bytes, Count: 1}
		if b.Access&faults.Read != 0 {
			t.Access |= predictor.Read
		}
		if b.Access&faults.Write != 0 {
			t.Access |= predictor.Write
		}
		o.Touched = append(o.Touched, t)
	}
	return o
}
