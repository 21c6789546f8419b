package mover

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"xmsched/hal/cuda/abi"
	"xmsched/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// truth is one segment as the preload library and the two memories have it.
type truth struct {
	memory.Segment
	value, device, slot int // what the program wrote, and what each copy has
}

// unkeep says that the slot is to have other bytes.
func (t *truth) unkeep() {
	t.Kept = false
	t.Version++
}

// copying is one batch in flight.
type copying struct {
	step memory.Step
	ends time.Duration
	err  error
}

// model is a process's memory with both copy engines, on a virtual clock. It
// fails where it is told to, and checks every call.
type model struct {
	t        *rapid.T
	list     []memory.Segment
	segments map[memory.ID]*truth
	bound    memory.Bytes // the target
	now      time.Duration
	rate     memory.Rate
	each     time.Duration // of a quick step
	latency  time.Duration // of a call
	flying   [directions][]copying
	calls    []copying
	free     [directions]time.Duration // when the engine is

	fail     func(what string) error
	wants    func() bool
	retarget func(m *model)

	pending bool // somebody waits
	asked   bool // and the carrier knows it
	lost    bool
	told    bool // the carrier knows that
	steps   int
}

func (m *model) resident() (b memory.Bytes) {
	for _, s := range m.segments {
		if s.State.OnDevice() {
			b += s.Bytes
		}
	}
	return b
}

func (m *model) must(ok bool, format string, args ...any) {
	if !ok {
		m.t.Fatalf(format, args...)
	}
}

// enter checks what holds for every call of the library's.
func (m *model) enter(s memory.Step) error {
	m.steps++
	m.must(m.steps < 100_000, "no end")
	m.must(!m.told, "%s after the move was lost", s)
	m.must(m.asked || !m.pending, "%s without a look whether somebody waits", s)
	m.must(!m.asked || s.Act != memory.Reserve && s.Act != memory.Map && s.Act != memory.CopyOut, "%s although somebody waits", s)
	m.retarget(m)
	m.pending = m.pending || m.wants()
	err := m.fail(s.Act.String())
	if m.lost { // and the call that found it out has not ended
		err = syscall.EPERM
	}
	if err != nil {
		m.lost = errors.Is(err, syscall.EPERM)
		m.told = m.lost && s.Act != memory.Map && s.Act != memory.Unmap
	}
	return err
}

func (m *model) do(s memory.Step) error {
	if err := m.enter(s); err != nil {
		return err
	}
	m.now += m.each
	return m.apply(s)
}

func (m *model) apply(s memory.Step) error {
	if s.Act == memory.Map && m.resident()+s.Bytes > m.bound {
		return syscall.ENOSPC
	}
	for _, id := range s.IDs {
		t := m.segments[id]
		switch s.Act {
		case memory.Unmap, memory.Drop, memory.Restore:
			m.must(t.State.OnDevice(), "%s of a segment that is %s", s, t.State)
			if s.Act == memory.Drop && !t.Kept {
				return memory.ErrStale
			}
			t.State, t.device, t.Kept = memory.Away, 0, false
			m.must(t.slot == t.value, "segment %d is away by %s and its slot has something else", id, s)
		case memory.Reserve:
			t.unkeep()
		case memory.Map:
			m.must(!t.State.OnDevice(), "%s of a segment that is %s", s, t.State)
			t.State, t.device = memory.Loading, 0
		case memory.Commit:
			m.must(t.State == memory.Loading, "%s of a segment that is %s", s, t.State)
			m.must(t.device == t.value, "segment %d is to be on the device, which has something else", id)
			t.State, t.Kept = memory.Device, true
		}
	}
	return nil
}

func (m *model) call(s memory.Step) {
	m.must(len(m.calls) < maxCalls, "%d calls at once", len(m.calls)+1)
	m.calls = append(m.calls, copying{step: s, ends: m.now + m.latency, err: m.enter(s)})
}

func (m *model) linger(outward bool) bool {
	m.must(len(m.flying[out])+len(m.flying[in])+len(m.calls) == 0, "lingers while something is under way")
	before := m.bound
	m.now += time.Millisecond
	m.pending = m.pending || m.wants()
	m.retarget(m)
	return m.bound != before && m.bound > before != outward && !m.wanted()
}

// called is the end of the call that ends first.
func (m *model) called() (landing, bool) {
	i := 0
	for k := range m.calls {
		if m.calls[k].ends < m.calls[i].ends {
			i = k
		}
	}
	c := m.calls[i]
	m.calls = slices.Delete(m.calls, i, i+1)
	m.now = max(m.now, c.ends)
	if c.err == nil {
		c.err = m.apply(c.step)
	}
	m.told = m.told || errors.Is(c.err, syscall.EPERM)
	return landing{call: true, step: c.step, err: c.err}, true
}

// callFirst says whether a call ends before any copy.
func (m *model) callFirst() bool {
	return slices.ContainsFunc(m.calls, func(c copying) bool {
		for _, f := range m.flying {
			if len(f) > 0 && f[0].ends < c.ends {
				return false
			}
		}
		return true
	})
}

func (m *model) fly(s memory.Step) error {
	if err := m.enter(s); err != nil {
		return err
	}
	w := way(s.Act)
	m.must(len(m.flying[w]) < maxFlying, "%d batches in one direction", len(m.flying[w])+1)
	m.free[w] = max(m.free[w], m.now) + m.rate.Time(s.Bytes)
	c := copying{step: s, ends: m.free[w]}
	if err := m.fail("landing"); err != nil && !errors.Is(err, syscall.EPERM) {
		c.err = err
	}
	m.flying[w] = append(m.flying[w], c)
	return nil
}

func (m *model) await() (landing, bool) {
	w := out
	if len(m.flying[out]) == 0 || len(m.flying[in]) > 0 && m.flying[in][0].ends < m.flying[out][0].ends {
		w = in
	}
	m.must(len(m.flying[w])+len(m.calls) > 0, "waits for nothing")
	before := m.bound
	m.pending = m.pending || m.wants()
	if m.retarget(m); m.bound != before {
		return landing{}, false
	}
	if m.callFirst() {
		return m.called()
	}
	c := m.flying[w][0]
	m.flying[w] = m.flying[w][1:]
	m.now = max(m.now, c.ends)
	if c.err != nil {
		return landing{way: w, err: c.err}, true
	}
	for _, id := range c.step.IDs {
		t := m.segments[id]
		if c.step.Act == memory.CopyOut {
			m.must(t.State == memory.Device, "segment %d is copied out while %s", id, t.State)
			t.slot = t.device
		} else if !m.lost {
			m.must(t.State == memory.Loading, "copied in while %s", t.State)
			t.device = t.slot
		}
	}
	return landing{way: w}, true
}

func (m *model) wanted() bool {
	m.asked = m.pending
	return m.asked
}

func (m *model) target() memory.Bytes { return m.bound }

// good checks that nothing was lost, and nothing is under way.
func (m *model) good() {
	m.must(len(m.flying[out])+len(m.flying[in])+len(m.calls) == 0, "copies are under way after the end")
	for id, s := range m.segments {
		have := s.slot
		if s.State == memory.Device {
			have = s.device
		}
		m.must(have == s.value, "segment %d, which is %s, has %d, and should have %d", id, s.State, have, s.value)
	}
}

// begin makes a process with segments of these sizes, in MiB; every other one of
// those beyond the first few on the device is on the host.
func newModel(t *rapid.T, sizes []int, onDevice func(i int) bool) *model {
	m := &model{
		t: t, segments: map[memory.ID]*truth{}, rate: memory.LinkRate,
		fail: func(string) error { return nil }, wants: func() bool { return false }, retarget: func(*model) {},
	}
	at := uint64(1 << 40)
	for i, size := range sizes {
		s := memory.Segment{ID: memory.ID(i + 1), Allocation: uint64(i/3 + 1), Address: at, Bytes: memory.Bytes(size) * memory.MiB, State: memory.Host}
		at += uint64(s.Bytes)
		v := truth{Segment: s, value: 1000 + i, slot: 1000 + i}
		if onDevice(i) {
			v.State, v.Segment.State, v.device, v.slot = memory.Device, memory.Device, v.value, 0
		}
		m.segments[s.ID] = &v
	}
	return m
}

func (m *model) listing() []memory.Segment {
	m.list = m.list[:0]
	for id := memory.ID(1); int(id) <= len(m.segments); id++ {
		m.list = append(m.list, m.segments[id].Segment)
	}
	return m.list
}

// resumed is what the library does before the process runs.
func (m *model) resumed() {
	for _, s := range m.segments {
		if s.State == memory.Away || s.State == memory.Loading {
			s.State = memory.Host
			s.unkeep()
		}
	}
}

var failures = []error{
	abi.CUDA_ERROR_OUT_OF_MEMORY, abi.CUDA_ERROR_ILLEGAL_ADDRESS, syscall.EBUSY, syscall.ENOMEM, syscall.ENOSPC, syscall.EINVAL, syscall.EPERM, syscall.EPERM, syscall.EPERM,
}

// TestPropertyNothingIsLost carries random plans out while calls and copies fail, the target
// changes and the process is wanted: after every plan each segment's
// authoritative copy has its bytes, nothing is in flight, and nobody was kept waiting.
func TestPropertyNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{2, 6, 30, 32, 32, 32, 32}), 1, 40).Draw(t, "sizes")
		where := rapid.SliceOfN(rapid.Bool(), len(sizes), len(sizes)).Draw(t, "on the device")
		m := newModel(t, sizes, func(i int) bool { return where[i] })
		m.each, m.latency = 300*time.Microsecond, rapid.SampledFrom([]time.Duration{0, time.Millisecond, 10 * time.Millisecond}).Draw(t, "latency")
		unlucky := rapid.SampledFrom([]int{0, 0, 3, 10, 30}).Draw(t, "failures in a hundred")
		m.fail = func(what string) error {
			if rapid.IntRange(0, 99).Draw(t, what) >= unlucky {
				return nil
			}
			return rapid.SampledFrom(failures).Draw(t, "failure")
		}
		restless := rapid.IntRange(0, 10).Draw(t, "target changes in a hundred")
		m.retarget = func(m *model) {
			if rapid.IntRange(0, 99).Draw(t, "retarget") < restless {
				m.bound = memory.Bytes(rapid.IntRange(0, 1300).Draw(t, "target")) * memory.MiB
			}
		}
		impatient := rapid.IntRange(0, 3).Draw(t, "wanted in a hundred")
		m.wants = func() bool { return rapid.IntRange(0, 99).Draw(t, "wanted") < impatient }

		p, c := newPlanner(), carrier{world: m}
		for range rapid.IntRange(1, 5).Draw(t, "plans") {
			m.bound = memory.Bytes(rapid.IntRange(0, 1300).Draw(t, "target")) * memory.MiB
			m.pending, m.asked, m.lost, m.told = false, false, false, false
			p.list = append(p.list[:0], m.listing()...)
			aim, err := p.make(m.bound, false)
			if err != nil {
				t.Fatal(err)
			}
			o := c.carry(&p.table, &p.plan, aim)
			m.good()
			if o.lost != m.lost {
				t.Fatalf("%s; lost by the library: %t", o, m.lost)
			}
			if !m.lost {
				for _, s := range m.segments {
					if have, _ := p.table.Get(s.ID); have.State != s.State {
						t.Fatalf("segment %d is %s in the table, in truth %s", s.ID, have.State, s.State)
					}
				}
			}
			if m.asked || m.lost || rapid.Bool().Draw(t, "resumed") {
				m.resumed()
			}
		}
	})
}

// TestPropertyTargetIsReached holds that, with nothing in the way, a plan that
// makes room ends at or below the target, and one that brings in leaves room for no
// more than part of a batch.
func TestPropertyTargetIsReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{2, 8, 32, 32, 32}), 1, 40).Draw(t, "sizes")
		where := rapid.SliceOfN(rapid.Bool(), len(sizes), len(sizes)).Draw(t, "on the device")
		m := newModel(t, sizes, func(i int) bool { return where[i] })
		m.bound = memory.Bytes(rapid.IntRange(0, 1300).Draw(t, "target")) * memory.MiB
		p, c := newPlanner(), carrier{world: m}
		for turns := 0; ; turns++ {
			p.list = append(p.list[:0], m.listing()...)
			aim, err := p.make(m.bound, false)
			if err != nil {
				t.Fatal(err)
			}
			f := p.table.Figures()
			n := needs(Figures{f.Resident, f.Host}, m.bound)
			if n == nothing {
				break
			}
			before := m.resident()
			o := c.carry(&p.table, &p.plan, aim)
			if o.err != nil || o.lost || m.resident() == before {
				t.Fatalf("from %s to %s: %s", before, m.bound, o)
			}
			if turns == 3 {
				t.Fatalf("%s on the device, target %s, after %d plans", m.resident(), m.bound, turns)
			}
		}
		m.good()
		if have := m.resident(); have > m.bound {
			t.Errorf("%s on the device, target %s", have, m.bound)
		}
	})
}

// TestCreditsPassWhileItLoads raises the target as somebody else's memory goes:
// what came in follows without a plan of its own for each batch.
func TestCreditsPassWhileItLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := slices.Repeat([]int{32}, 64)
		m := newModel(t, sizes, func(int) bool { return false })
		m.each, m.latency = 300*time.Microsecond, 3*time.Millisecond
		m.bound = 256 * memory.MiB
		began := m.now
		m.retarget = func(m *model) { // at the speed of the link
			m.bound = 256*memory.MiB + memory.LinkRate.Over(m.now-began)/memory.BatchBytes*memory.BatchBytes
		}
		p, c := newPlanner(), carrier{world: m}
		p.list = m.listing()
		aim, err := p.make(m.bound, false)
		if err != nil {
			t.Fatal(err)
		}
		if o := c.carry(&p.table, &p.plan, aim); o.In != 2*memory.GiB || o.err != nil {
			t.Fatalf("%s", o)
		}
		m.good()
	})
}

// TestExchangesOutlastASmallRaise raises the target by less than a batch once something has
// gone: what was to come for it comes all the same.
func TestExchangesOutlastASmallRaise(t *testing.T) {
	const half = 8
	rapid.Check(t, func(t *rapid.T) {
		sizes := slices.Repeat([]int{32}, 2*half)
		m := newModel(t, sizes, func(i int) bool { return i < half })
		m.bound = half * 32 * memory.MiB
		more := memory.Bytes(rapid.IntRange(2, 127).Draw(t, "more")) * memory.MiB
		p, c := newPlanner(), carrier{world: m}
		p.list = m.listing()
		uses := func(yield func(Use) bool) {
			for i := range half {
				s := p.list[half+i]
				if !yield(Use{Address: s.Address, Bytes: s.Bytes, Times: 8}) {
					return
				}
			}
		}
		p.forecast.read(p.list, uses, time.Second)
		aim, err := p.make(m.bound, true)
		if err != nil {
			t.Fatal(err)
		}
		m.retarget = func(m *model) {
			if m.resident() < half*32*memory.MiB {
				m.bound = half*32*memory.MiB + more
			}
		}
		if o := c.carry(&p.table, &p.plan, aim); o.In != half*32*memory.MiB || o.Out != o.In || o.err != nil {
			t.Fatalf("%s", o)
		}
		m.good()
	})
}

// TestTheRestFollowsAFallingTarget lowers the target as somebody else's memory comes: what
// goes follows without a plan, and a look at what is clean, of its own for each batch, and
// no more goes than has to.
func TestTheRestFollowsAFallingTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := slices.Repeat([]int{32}, 256)
		m := newModel(t, sizes, func(int) bool { return true })
		m.each, m.latency = 300*time.Microsecond, 3*time.Millisecond
		m.rate *= memory.Rate(rapid.SampledFrom([]int{1, 20}).Draw(t, "times as fast")) // as what is clean
		all := m.resident()
		least := memory.Bytes(rapid.IntRange(0, 60).Draw(t, "batches that stay")) * memory.BatchBytes
		odd := memory.Bytes(rapid.SampledFrom([]int{0, 8, 120}).Draw(t, "and a part of one")) * memory.MiB // more goes than has to
		began := m.now
		m.retarget = func(m *model) { // at the speed of the link
			m.bound = max(least, all-memory.GiB-memory.LinkRate.Over(m.now-began)/memory.BatchBytes*memory.BatchBytes) + odd
			m.must(m.resident() > m.bound-2*memory.BatchBytes, "%s on the device, target %s", m.resident(), m.bound)
		}
		m.retarget(m)
		p, c := newPlanner(), carrier{world: m}
		p.list = m.listing()
		aim, err := p.make(m.bound, false)
		if err != nil {
			t.Fatal(err)
		}
		if o := c.carry(&p.table, &p.plan, aim); o.err != nil || m.resident() > least+odd || m.resident() <= least+odd-memory.BatchBytes {
			t.Fatalf("%s, to %s: %s", o, least+odd, m.resident())
		}
		m.good()
	})
}

// TestCallsHideBehindCopies holds that 8 GiB take as long as the link needs for them,
// though a quick step takes a tenth of a batch's copy, and a call half as long again:
// only the first call is waited for.
func TestCallsHideBehindCopies(t *testing.T) {
	for _, there := range []bool{true, false} {
		t.Run(fmt.Sprintf("on the device %t", there), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				sizes := slices.Repeat([]int{32}, 256)
				m := newModel(t, sizes, func(int) bool { return there })
				m.each, m.latency = 260*time.Microsecond, 4*time.Millisecond
				if !there {
					m.bound = 8 * memory.GiB
				}
				p, c := newPlanner(), carrier{world: m}
				p.list = m.listing()
				aim, err := p.make(m.bound, false)
				if err != nil {
					t.Fatal(err)
				}
				if o := c.carry(&p.table, &p.plan, aim); o.Out+o.In != 8*memory.GiB {
					t.Fatalf("%s", o)
				}
				if least := memory.LinkRate.Time(8 * memory.GiB); m.now > least+least/50+m.latency {
					t.Errorf("%v, the link alone needs %v", m.now, least)
				}
			})
		})
	}
}
