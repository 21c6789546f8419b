package agent

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"xmsched/nvx/faults"
	"xmsched/predictor"
)

const mib = uint64(1 << 20)

// kernelRecord is a record of a launch with these words as parameters.
func kernelRecord(kernel uint32, words ...uint64) []byte {
	b := make([]byte, commandHead, commandHead+8*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	le := binary.LittleEndian
	le.PutUint32(b, uint32(len(b)))
	le.PutUint16(b[4:], uint16(CommandKernel))
	le.PutUint32(b[12:], kernel)
	for i := range 6 {
		le.PutUint32(b[32+4*i:], 1)
	}
	le.PutUint32(b[60:], uint32(8*len(words)))
	return b
}

func kernelCommand(t *testing.T, kernel uint32, words ...uint64) Command {
	t.Helper()
	c, rest, err := NextCommand(kernelRecord(kernel, words...))
	if err != nil || len(rest) != 0 {
		t.Fatal(err)
	}
	return c
}

// stage is everything that a student deals with; it writes down what happens.
type stage struct {
	mu      sync.Mutex
	said    []string      // protected by mu while it learns
	hold    chan struct{} // nil, or what the observer waits for
	offers  []Sample
	ranges  []faults.Range
	worth   bool
	refuse  string // the step that fails
	panics  string // or panics
	faults  []faults.Event
	early   []faults.Event // from before the launch
	dropped uint64
	seen    []*predictor.Observation
}

func (s *stage) say(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	s.said = append(s.said, line)
	if s.panics != "" && strings.HasPrefix(line, s.panics) {
		panic("the device is broken")
	}
	if s.refuse != "" && strings.HasPrefix(line, s.refuse) {
		return errors.New(s.refuse)
	}
	return nil
}

// did tells whether something of that beginning happened.
func (s *stage) did(begin string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.said, func(line string) bool { return strings.HasPrefix(line, begin) })
}

func (s *stage) Next(time.Duration) (Sample, bool, error) {
	if len(s.offers) == 0 {
		return Sample{}, false, ErrNoSamples
	}
	next := s.offers[0]
	s.offers = s.offers[1:]
	return next, next.Number != 0, nil
}

func (s *stage) Skip(number uint32) bool  { return s.say("skip %d", number) == nil }
func (s *stage) Ready(number uint32) bool { return s.say("ready %d", number) == nil }
func (s *stage) Done(number uint32) bool  { return s.say("done %d", number) == nil }
func (s *stage) Stop()                    { _ = s.say("stop") }
func (s *stage) Ranges(to []faults.Range) []faults.Range {
	return append(to, s.ranges...)
}

func (s *stage) Ran(number uint32, _ time.Duration) (bool, error) {
	if err := s.say("ran %d", number); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.said) > 1 && s.said[len(s.said)-2] == s.said[len(s.said)-1], nil // at the second time of asking
}

func (s *stage) Enter(context uint64) error              { return s.say("enter %#x", context) }
func (s *stage) Leave()                                  { _ = s.say("leave") }
func (s *stage) Quiet() error                            { return s.say("quiet") }
func (s *stage) Away(r []faults.Range) error             { return s.say("away %v", r) }
func (s *stage) Plain(r []faults.Range) error            { return s.say("plain %v", r) }
func (s *stage) Home(r []faults.Range, device int) error { return s.say("home %v %d", r, device) }
func (s *stage) Worth(*Command) bool                     { return s.worth }
func (s *stage) Observe(_ *Command, o *predictor.Observation) {
	if s.hold != nil {
		<-s.hold
	}
	s.seen = append(s.seen, o)
}

// stagedFeed has the early faults until the launch is ready.
type stagedFeed struct{ *stage }

func (f stagedFeed) Drain(take func(faults.Event)) int {
	all := &f.faults
	if !f.did("ready") {
		all = &f.early
	}
	n := len(*all)
	for _, e := range *all {
		take(e)
	}
	*all = nil
	return n
}

func (f stagedFeed) Flush() { _ = f.say("flush") }
func (f stagedFeed) Close() { _ = f.say("close") }
func (f stagedFeed) Dropped() uint64 {
	if f.did("ran") {
		return f.dropped
	}
	return 0
}

// learns runs an agent's learning over a stage to its end.
func learns(t *testing.T, s *stage, open error) *fakeHost {
	t.Helper()
	h := &fakeHost{said: map[Warning]bool{}}
	a := &Agent{host: h, cancel: func() {}}
	defer a.parts.Wait()
	done := make(chan struct{})
	go func() { // its own thread, as in the agent
		defer close(done)
		a.learn(t.Context(), &Learning{Samples: s, Device: s, Observer: s, Host: 1 << 40, Open: func() (Feed, error) { return stagedFeed{s}, open }})
	}()
	<-done
	return h
}

var staged = []faults.Range{{Base: 8 * mib, Bytes: 4 * mib}, {Base: 32 * mib, Bytes: 3 * mib}, {Base: 64 * mib, Bytes: 8 * mib}}

func TestSampleIsIsolatedAndLearntFrom(t *testing.T) {
	s := &stage{
		worth: true, ranges: staged,
		offers: []Sample{{}, {Number: 7, Context: 0xc, Device: 2, Command: kernelCommand(t, 1, 33*mib, 5, 10*mib, 1000*mib)}},
		early:  []faults.Event{{Address: 64 * mib, Access: faults.Write}},
		faults: []faults.Event{
			{Address: 34 * mib, Access: faults.Read}, {Address: 34*mib + 4096, Access: faults.Write},
			{Address: 9 * mib, Access: faults.Write}, {Address: 70 * mib, Access: faults.Read}, {Address: 2 * mib, Access: faults.Read},
		},
	}
	learns(t, s, nil)
	away := "[{33554432 3145728} {8388608 4194304}]" // what is named, the small first
	want := []string{
		"enter 0xc", "quiet", "away " + away, "flush", "ready 7", "ran 7", "ran 7", "quiet", "flush", "plain " + away, "done 7", "home " + away + " 2", "leave", "close",
	}
	if diff := cmp.Diff(want, s.said); diff != "" {
		t.Errorf("(-want +said):\n%s", diff)
	}
	seen := []*predictor.Observation{{
		Touched: []predictor.Touch{
			{Base: 8 * mib, Bytes: 2 * mib, Count: 1, Access: predictor.Write},
			{Base: 34 * mib, Bytes: 1 * mib, Count: 1, Access: predictor.Either},
			{Base: 70 * mib, Bytes: 2 * mib, Count: 1, Access: predictor.Read},
		},
		Grain: faults.BlockBytes, Watched: []predictor.Range{{Base: 32 * mib, Bytes: 3 * mib}, {Base: 8 * mib, Bytes: 4 * mib}},
	}}
	if diff := cmp.Diff(seen, s.seen); diff != "" {
		t.Errorf("(-want +seen):\n%s", diff)
	}
}

func TestSamplesThatTeachNothing(t *testing.T) {
	named := []uint64{8 * mib}
	for name, c := range map[string]struct {
		words  []uint64
		worth  bool
		refuse string
		last   string // what it did last, but for leaving
	}{
		"known":            {named, false, "", "skip 1"},
		"names nothing":    {[]uint64{0, 12 * mib}, true, "", "skip 1"},
		"context is gone":  {named, true, "enter", "skip 1"},
		"not quiet":        {named, true, "quiet", "plain [{8388608 4194304}]"},
		"stays":            {named, true, "away", "plain [{8388608 4194304}]"},
		"late":             {named, true, "ready", "home [{8388608 4194304}] 0"},
		"refused":          {named, true, "ran", "home [{8388608 4194304}] 0"},
		"too late":         {named, true, "done", "home [{8388608 4194304}] 0"},
		"feed cannot tell": {named, true, "", ""},
	} {
		s := &stage{worth: c.worth, refuse: c.refuse, ranges: staged, offers: []Sample{{Number: 1, Command: kernelCommand(t, 1, c.words...)}}}
		if c.last == "" {
			s.dropped = 3
		}
		learns(t, s, nil)
		var did []string
		for _, line := range s.said {
			if line != "leave" && line != "close" {
				did = append(did, line)
			}
		}
		if c.last == "" {
			if len(s.seen) != 1 || !s.seen[0].Lossy {
				t.Errorf("%s: %+v", name, s.seen)
			}
			continue
		}
		if len(s.seen) != 0 || did[len(did)-1] != c.last {
			t.Errorf("%s: %q, %d observations", name, s.said, len(s.seen))
		}
	}
}

// TestEveryEighthSampleSendsAll: kernels follow pointers that lie in memory.
func TestEveryEighthSampleSendsAll(t *testing.T) {
	s := &stage{worth: true, ranges: staged}
	for i := range uint32(9) {
		s.offers = append(s.offers, Sample{Number: i + 1, Command: kernelCommand(t, 1, 8*mib)})
	}
	learns(t, s, nil)
	for i, o := range s.seen {
		want := 1
		if i == allEvery-1 {
			want = len(staged)
		}
		if len(o.Watched) != want {
			t.Errorf("sample %d watched %v", i, o.Watched)
		}
	}
	if len(s.seen) != 9 {
		t.Errorf("%d observations", len(s.seen))
	}
}

// TestLaunchesDoNotWaitForAnObserver: one that thinks for long is let think.
func TestLaunchesDoNotWaitForAnObserver(t *testing.T) {
	s := &stage{worth: true, ranges: staged, hold: make(chan struct{})}
	for i := range uint32(2) {
		s.offers = append(s.offers, Sample{Number: i + 1, Command: kernelCommand(t, 1, 8*mib)})
	}
	go func() { // the first observation ends when the second launch has gone on
		for !s.did("skip 2") {
			time.Sleep(time.Millisecond)
		}
		close(s.hold)
	}()
	learns(t, s, nil)
	if len(s.seen) != 1 || !s.did("done 1") || s.did("ready 2") {
		t.Errorf("%q, %d observations", s.said, len(s.seen))
	}
}

// TestAPanicLeavesNobodyWaiting: the program's launches go on, and so does the panic, which
// ends the agent.
func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	for _, step := range []string{"quiet", "ran"} {
		s := &stage{worth: true, ranges: staged, panics: step, offers: []Sample{{Number: 7, Context: 0xc, Command: kernelCommand(t, 1, 8*mib)}}}
		a := &Agent{host: &fakeHost{said: map[Warning]bool{}}, cancel: func() {}}
		over := make(chan any)
		go func() {
			defer func() { over <- recover() }()
			a.learn(t.Context(), &Learning{Samples: s, Device: s, Observer: s, Host: 1 << 40, Open: func() (Feed, error) { return stagedFeed{s}, nil }})
		}()
		select {
		case why := <-over:
			if why == nil || !s.did("stop") {
				t.Errorf("%s: ended by %v; stopped: %v", step, why, s.did("stop"))
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it does not end", step)
		}
	}
}

func TestWithoutAFeedNothingIsLearnt(t *testing.T) {
	s := &stage{worth: true, ranges: staged, offers: []Sample{{Number: 1, Command: kernelCommand(t, 1, 8*mib)}, {Number: 2}}}
	h := learns(t, s, faults.ErrUnavailable)
	if !slices.Equal(s.said, []string{"stop"}) || len(s.seen) != 0 || !h.said[WarnLearning] {
		t.Errorf("%q, warned %q", s.said, h.warnings)
	}
}

func TestWithinTakesTheSmallFirst(t *testing.T) {
	a := []faults.Range{{Base: 1, Bytes: 50}, {Base: 2, Bytes: 10}, {Base: 3, Bytes: 30}}
	b := []faults.Range{{Base: 4, Bytes: 70}, {Base: 5, Bytes: 9}}
	want := []faults.Range{{Base: 2, Bytes: 10}, {Base: 3, Bytes: 30}, {Base: 5, Bytes: 9}}
	s := newStudent(&Learning{Host: 1000}, nil)
	s.ranges = slices.Concat(a, b)
	if got := s.within(60, a, b); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	// The host has room for what was there before, and for 60 bytes more.
	s.Host = 10 + 30 + 9 + 60
	if got := s.within(200, a, b); !slices.Equal(got, append(want[:2:2], a[slices.Index(a, faults.Range{Base: 1, Bytes: 50})], want[2])) {
		t.Errorf("%v", got)
	}
	if got := s.within(200, b); len(got) != 1 {
		t.Errorf("beyond the host's room: %v", got)
	}
	s.ranges = []faults.Range{{Base: 4, Bytes: 70}, {Base: 5, Bytes: 9}} // what was freed is no longer kept
	if got := s.within(200, b); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

const high = uint64(1) << 40 // where no size looks like an address

// table is the C library's commands: a kernel and two allocations.
type table struct{ Commands }

func (table) Kernel(id uint32) (Kernel, error) {
	if id != 1 {
		return Kernel{}, errors.New("no such kernel")
	}
	return Kernel{Name: "fill", Code: [2]uint64{1, 2}, Parameters: []Parameter{{0, 8}, {8, 8}}, Bytes: 16, Layout: true}, nil
}

func (table) Ranges(buf []byte) ([]byte, error) {
	buf = buf[:0]
	for _, r := range []predictor.Range{{Base: high, Bytes: 64 * mib}, {Base: high + 128*mib, Bytes: 4 * mib}} {
		b := kernelRecord(0, r.Base, r.Bytes, 0)
		binary.LittleEndian.PutUint16(b[4:], uint16(CommandAlloc))
		buf = append(buf, b...)
	}
	return buf, nil
}

// TestLearnerLearns: from observations of a kernel that fills so many bytes the
// learner's library knows of one that nobody has seen.
func TestLearnerLearns(t *testing.T) {
	known := NewKnowledge(nil, func(err error) { t.Error(err) })
	l := NewLearner(known, table{})
	var log bytes.Buffer
	o := Logged(l, table{}, &log)
	seen := 0
	for i := range 40 {
		n := uint64(1+i%9) * 3 * mib
		c := kernelCommand(t, 1, high, n)
		if !o.Worth(&c) {
			continue
		}
		seen++
		fold := faults.NewFold([]faults.Range{{Base: high, Bytes: 64 * mib}})
		for at := uint64(0); at < n; at += 4096 {
			fold.Add(faults.Event{Address: high + at, Access: faults.Write})
		}
		o.Observe(&c, observation(fold, fold.Ranges(), false))
	}
	if seen < 2 || seen > 10 {
		t.Errorf("%d of 40 launches were worth it", seen)
	}
	var first Seen
	if err := json.NewDecoder(&log).Decode(&first); err != nil || first.Kernel != "fill" || first.Params != "00000000000100000000300000000000" ||
		len(first.Touched) != 2 || first.Touched[0] != [3]uint64{high, 2 * mib, 2} || len(first.Watched) != 1 {
		t.Errorf("logged %+v, %v", first, err)
	}
	c := kernelCommand(t, 1, high+10*mib, 41*mib)
	launch := LaunchOf(&c)
	var touches []predictor.Touch
	known.Use(func(lib *predictor.Library) {
		k, _ := table{}.Kernel(1)
		var ranges predictor.Ranges
		ranges.Add(predictor.Range{Base: high, Bytes: 64 * mib})
		touches, _ = lib.Kernel(KernelOf(k), 0).AppendTouches(nil, &launch, &ranges)
	})
	if len(touches) != 1 || touches[0].Base != high+10*mib || touches[0].Bytes < 41*mib || touches[0].Bytes > 43*mib || touches[0].Access != predictor.Write {
		t.Errorf("of a fill that nobody has seen it is said: %+v", touches)
	}
	unknown := kernelCommand(t, 2, high, mib)
	if o.Worth(&unknown) {
		t.Error("a kernel that nobody knows is worth a look")
	}
	o.Observe(&unknown, &predictor.Observation{})
}

// TestWhatIsCutTeachesNothing: what such a launch touches may be what a parameter names
// that is not there.
func TestWhatIsCutTeachesNothing(t *testing.T) {
	for flag, want := range map[CommandFlags]bool{0: true, CommandCut: false, CommandUnknown: false} {
		c := kernelCommand(t, 1, high, 4*mib)
		c.Flags |= flag
		if worth := NewLearner(NewKnowledge(nil, func(err error) { t.Error(err) }), table{}).Worth(&c); worth != want {
			t.Errorf("worth a look with flags %d: %v", flag, worth)
		}
	}
}

func TestTensorMapSpans(t *testing.T) {
	for _, c := range []struct {
		m    TensorMap
		want uint64
	}{
		{TensorMap{Rank: 1, Dims: [5]uint64{100}, Element: 16}, 200},
		{TensorMap{Rank: 2, Dims: [5]uint64{64, 10}, Strides: [4]uint64{256}, Element: 8}, 9*256 + 64},
		{TensorMap{Rank: 3, Dims: [5]uint64{64, 10, 4}, Strides: [4]uint64{256, 4096}, Element: 32}, 3*4096 + 9*256 + 256},
		{TensorMap{Rank: 2, Dims: [5]uint64{64, 10}, Strides: [4]uint64{256}}, 0},
		{TensorMap{Rank: 2, Dims: [5]uint64{64}, Element: 8}, 0},
		{TensorMap{Rank: 6, Element: 8}, 0},
	} {
		if got := c.m.Bytes(); got != c.want {
			t.Errorf("%+v spans %d, want %d", c.m, got, c.want)
		}
	}
}
