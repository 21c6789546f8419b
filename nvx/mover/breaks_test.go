package mover

import (
	"sync/atomic"
	"testing"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
	"xmsched/hal/sim/device"
	"xmsched/memory"
)

// saboteur has a kernel of the copier's context look where nothing is, instead of taking
// digests: the context is broken from then on.
type saboteur struct {
	*hasher
	left *atomic.Int32 // how often
	how  sabotage
}

type sabotage int

const (
	heard  sabotage = iota // by who asks for digests
	unsaid                 // he does not hear of it, but those who copy
	under                  // while the copies that follow are under way
)

const nowhere = 0x1000

func (s *saboteur) sums(list []memory.Segment, into []digest, stop func() bool) ([]digest, error) {
	if s.left.Add(-1) < 0 {
		return s.hasher.sums(list, into, stop)
	}
	if s.how != under {
		_, err := s.hasher.sums([]memory.Segment{{Address: nowhere, Bytes: 2 * mib}}, into, stop)
		if s.how == unsaid {
			err = nil
		}
		return into, err
	}
	h, n := s.hasher, 0
	for _, seg := range list {
		for at := range uint64(seg.Bytes) / kernels.DigestUnit {
			h.list(n, seg.Address+at*kernels.DigestUnit)
			n++
		}
	}
	h.list(n, nowhere)
	for _, l := range [...]struct{ first, units int }{{0, n}, {n, 1}} { // the first takes its time
		args, err := cuda.NewLaunchArgs(h.at+abi.DevicePtr(8*mostUnits), h.at+abi.DevicePtr(8*l.first), h.key, uint32(l.units))
		if err == nil {
			err = h.driver.Launch(h.kernel, [3]uint32{1, 1, 1}, [3]uint32{kernels.DigestThreads, 1, 1}, 0, h.stream, args)
		}
		if err != nil {
			return into, err
		}
	}
	return into, nil
}

// sabotaged is a program whose mover's contexts break, that many times.
func sabotaged(t *testing.T, left *atomic.Int32, how sabotage, sizes ...memory.Bytes) *program {
	return startWith(t, func(c *Config, _ *lender) {
		c.mend = time.Millisecond
		c.sums = func(s summer) summer { return &saboteur{s.(*hasher), left, how} }
	}, sizes...)
}

func (p *program) contexts() int {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	return p.memory.contexts
}

// quiet waits until nothing is in flight, and nobody has the move.
func (p *program) quiet() {
	p.t.Helper()
	p.eventually("nothing to be in flight", func() bool {
		p.memory.mu.Lock()
		defer p.memory.mu.Unlock()
		return p.memory.flights == 0 && !p.memory.moving
	})
}

func slow(c *device.Config) { c.Model.LinkOneWay, c.Model.LinkBoth = 1_000_000_000, 1_000_000_000 }

func TestAContextThatDigestsBreakIsMadeAnew(t *testing.T) { onDevice(t, "TestInnerBroken") }

func TestAContextThatBreaksUnderCopiesIsMadeAnew(t *testing.T) {
	onDevice(t, "TestInnerBrokenLater", slow)
}

func TestInnerBroken(t *testing.T)      { breakAndMend(t, heard) }
func TestInnerBrokenLater(t *testing.T) { breakAndMend(t, under) }

// breakAndMend breaks the context that copies: no byte is lost, and memory moves again by
// another one, again and again.
func breakAndMend(t *testing.T, how sabotage) {
	var left atomic.Int32
	p := sabotaged(t, &left, how, sizes...)
	for round := range 2 {
		left.Store(1)
		before := p.contexts()
		p.stop()
		p.page.order(Orders{Managed: true, Target: 0})
		p.eventually("all to go", p.resident(0))
		// What was looked at in vain of late is not looked at: then nothing broke. And what
		// broke after the last copy is noticed the next time.
		if n, broke := p.contexts()-before, left.Load() < 1; n > 2 || round == 0 && !broke {
			t.Errorf("%d contexts made; one broke: %t", n, broke)
		}
		p.resume()
		p.quiet()
		p.check()
		p.fill(9, uint64(round))
		p.stop()
		left.Store(1) // after what came in
		p.page.order(Orders{Managed: true, Target: 204 * mib})
		p.eventually("all to come", p.resident(204*mib))
		p.resume()
		p.quiet()
		p.check()
		left.Store(0)
		p.fill(1, uint64(round))
	}
	if p.contexts() < 2 {
		t.Error("no context was made anew")
	}
}

func TestContextsThatBreakAreNotMadeForEver(t *testing.T) {
	onDevice(t, "TestInnerBrokenForGood")
}

// TestInnerBrokenForGood breaks every context that is made: after maxBreaks of them there
// are no more, and the process goes on where its memory is.
func TestInnerBrokenForGood(t *testing.T) {
	const many = 1 << 20
	var left atomic.Int32
	left.Store(many)
	p := sabotaged(t, &left, unsaid, 32*mib, 32*mib)
	p.stop()
	p.page.order(Orders{Managed: true, Target: 0})
	p.eventually("the last context to break", func() bool { return p.contexts() == maxBreaks && left.Load() <= many-maxBreaks })
	p.quiet()
	left.Store(0)
	for range 20 {
		p.page.hold()
		time.Sleep(5 * time.Millisecond)
	}
	if n := p.contexts(); n != maxBreaks {
		t.Errorf("%d contexts", n)
	}
	if r := p.memory.figures().Resident; r != 64*mib {
		t.Errorf("%s on the device", r)
	}
	p.resume()
	p.check()
}

func TestDigestsThatBreakContextsAreLeftOff(t *testing.T) { onDevice(t, "TestInnerDigestsBreak") }

// TestInnerDigestsBreak breaks a context whenever digests are taken: after some of them none
// are, and memory moves.
func TestInnerDigestsBreak(t *testing.T) {
	var left atomic.Int32
	left.Store(1 << 20)
	p := sabotaged(t, &left, heard, 32*mib, 32*mib)
	p.stop()
	p.page.order(Orders{Managed: true, Target: 0})
	p.eventually("all to go", p.resident(0))
	if n := p.contexts(); n != maxHashFailures+1 {
		t.Errorf("%d contexts", n)
	}
	p.resume()
	p.quiet()
	p.check()
}

// TestBreaks holds that pauses grow, and that there is an end to them.
func TestBreaks(t *testing.T) {
	b := breaks{first: later}
	var at time.Duration
	for n := range maxBreaks {
		if d := b.rest(at); d != 0 {
			t.Fatalf("after %d breaks and the pause: %v more", n, d)
		}
		b.broke(at)
		if n+1 == maxBreaks {
			break
		}
		if d := b.rest(at); d != later<<(2*n) {
			t.Errorf("break %d: a pause of %v", n, d)
		}
		at += b.rest(at)
	}
	if d := b.rest(at + time.Hour); d != never {
		t.Errorf("after %d breaks: %v", maxBreaks, d)
	}
	if b.worked(); b.rest(at) != 0 {
		t.Error("a context that works does not count")
	}
}
