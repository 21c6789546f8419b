package mover

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"xmsched/hal/cuda/abi"
	"xmsched/memory"
)

// prophet foresees what it is told.
type prophet struct {
	mu    sync.Mutex
	uses  []Use // protected by mu, as is all below
	known bool
	turn  time.Duration
	since time.Duration // of the last question whether something was written
	says  Written
}

func (p *prophet) Next(_ int, turn time.Duration) (iter.Seq[Use], bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = turn
	return slices.Values(slices.Clone(p.uses)), p.known
}

func (p *prophet) Written(_ int, _ uint64, _ memory.Bytes, since time.Duration) Written {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = since
	return p.says
}

func (p *prophet) say(says Written) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.says = says
}

// foresee has the program use these segments soon, each several times.
func (p *program) foresee(of *prophet, ids ...memory.ID) {
	of.mu.Lock()
	of.uses, of.known = nil, true
	for i, id := range ids {
		s := p.memory.segments[id]
		of.uses = append(of.uses, Use{Address: s.Address, Bytes: s.Bytes, In: time.Duration(i) * time.Millisecond, Times: 3})
	}
	of.mu.Unlock()
	p.engine.Foreseen(0)
}

func (p *program) foretold() (working, exchange memory.Bytes) {
	p.page.mu.Lock()
	defer p.page.mu.Unlock()
	return p.page.working, p.page.exchange
}

func (p *program) onDevice(ids ...memory.ID) bool { return p.missing(ids...) == 0 }

// missing is how much of some segments is not on the device.
func (p *program) missing(ids ...memory.ID) (b memory.Bytes) {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	for _, id := range ids {
		if s := p.memory.segments[id]; s.State != memory.Device {
			b += s.Bytes
		}
	}
	return b
}

// asks says whether an exchange is asked for.
func (p *program) asks() bool { _, x := p.foretold(); return x > 0 }

// halves are those of halfOnDevice's program, first the one that is not there.
var halves = [...][]memory.ID{{6, 7, 8, 9, 10}, {1, 2, 3, 4, 5}}

// halfOnDevice starts a program of 320 MiB in ten segments, of which half is on the device
// and no more may be.
func halfOnDevice(t *testing.T, change ...func(*lender)) (p *program, of *prophet) {
	of = &prophet{}
	sizes := slices.Repeat([]memory.Bytes{32 * mib}, 10)
	p = startWith(t, func(c *Config, l *lender) {
		c.Uses = of
		for _, f := range change {
			f(l)
		}
	}, sizes...)
	p.page.order(Orders{Managed: true, Target: 160 * mib, Turn: 20 * time.Millisecond})
	p.stop()
	p.eventually("the target", p.resident(160*mib))
	p.resume()
	return p, of
}

func TestWhatIsForeseenIsThere(t *testing.T) { onDevice(t, "TestInnerForeseen") }

// TestInnerForeseen has a program of 320 MiB, of which 160 may be on the device, use one
// half, then the other: the daemon is told what it uses, and that an exchange is worth a
// stop, and after that stop the half that it uses is there.
func TestInnerForeseen(t *testing.T) {
	p, of := halfOnDevice(t)
	for i, half := range [][]memory.ID{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {5, 4, 3, 2, 1}} {
		p.foresee(of, half...)
		p.eventually("the working set", func() bool { w, _ := p.foretold(); return w == 160*mib })
		if i > 0 {
			p.eventually("the exchange to be asked for", func() bool { _, x := p.foretold(); return x == 160*mib })
		}
		p.page.change(func() { p.page.open = true })
		p.stop()
		p.eventually("what is used to be there", func() bool { return p.onDevice(half...) })
		p.eventually("no exchange to be asked for", func() bool { _, x := p.foretold(); return x == 0 })
		if i > 0 {
			p.eventually("what went to be mapped to its slots", func() bool { return p.in(memory.Away) == 0 && p.in(memory.Host) == 160*mib })
		}
		if n := p.memory.mappedInPassing(); n > 0 != (i > 0) {
			t.Errorf("half %d: %d segments were mapped to their slots while others were copied", i, n)
		}
		p.resume()
		p.check()
		if r := p.memory.figures().Resident; r > 160*mib {
			t.Errorf("%s on the device", r)
		}
	}
	of.mu.Lock()
	if of.known = false; of.turn != 20*time.Millisecond {
		t.Errorf("asked for a turn of %v", of.turn)
	}
	of.mu.Unlock()
	p.engine.Foreseen(0)
	p.eventually("nothing to be known", func() bool { w, _ := p.foretold(); return w == 0 })
	p.stop()
	p.page.order(Orders{Managed: true, Target: 64 * mib})
	p.eventually("the target", p.resident(64*mib))
	if b := p.in(memory.Away); b != 96*mib {
		t.Errorf("%s of 96 MiB away, of which nobody knows whether they come again", b)
	}
	p.resume()
	p.check()
}

func TestExchangesOfWhatIsOnlyReadAreSpared(t *testing.T) { onDevice(t, "TestInnerExchangesSpared") }

// TestInnerExchangesSpared has a program that writes nothing turn from one half of its memory
// to the other: what goes is known for clean before long, also where it was mapped to its
// slots while the last batches came in.
func TestInnerExchangesSpared(t *testing.T) {
	p, of := halfOnDevice(t)
	for i := range 8 {
		p.foresee(of, halves[i%2]...)
		p.eventually("an exchange to be asked for", p.asks)
		moves := len(p.entries())
		p.stop()
		p.eventually("the exchange", func() bool { return len(p.entries()) > moves && p.onDevice(halves[i%2]...) })
		p.resume()
	}
	for _, e := range p.entries()[7:] { // of each half
		if e.Out != 160*mib || e.Spared != e.Out {
			t.Errorf("%s of %s spared, and nothing was written; %+v", e.Spared, e.Out, p.entries())
		}
	}
	p.check()
}

func TestWhatHasNoRoomIsMappedToItsSlots(t *testing.T) { onDevice(t, "TestInnerNoRoom") }

// TestInnerNoRoom has all of a program's memory go, and what its coming turn touches come in
// again: the rest, which has no room, is mapped to its slots before the program is to run.
func TestInnerNoRoom(t *testing.T) {
	of := &prophet{}
	p := startWith(t, func(c *Config, _ *lender) { c.Uses = of }, slices.Repeat([]memory.Bytes{32 * mib}, 10)...)
	p.foresee(of, 1, 2, 3, 4)
	p.page.order(Orders{Managed: true, Target: 0, Turn: 20 * time.Millisecond})
	p.stop()
	p.eventually("all to go", func() bool { return p.in(memory.Away) == 320*mib })
	p.page.order(Orders{Managed: true, Target: 128 * mib, Turn: 20 * time.Millisecond})
	p.eventually("what is used to be there", func() bool { return p.onDevice(1, 2, 3, 4) })
	p.eventually("the rest to be mapped to its slots", func() bool { return p.in(memory.Host) == 192*mib })
	p.resume()
	p.check()
}

func TestExchangesFailAndLoseNothing(t *testing.T) { onDevice(t, "TestInnerExchangesFail") }

// TestInnerExchangesFail has each call fail in the middle of an exchange, those on several
// segments also when they have done some of them, or the move be lost there. Afterwards the
// program has its bytes, and the next exchange is made, but for less than a batch, and what is
// out is mapped to its slots.
func TestInnerExchangesFail(t *testing.T) {
	p, of := halfOnDevice(t, func(l *lender) { l.lacks = "cuModuleLoadData" }) // a simulated device is slow at digests
	i := 0
	for _, call := range []string{"slot", "away", "away, one of several", "load", "loaded", "home", "home, one of several"} {
		for _, failure := range []error{abi.CUDA_ERROR_UNKNOWN, syscall.EPERM} {
			half := halves[i%2]
			i++
			p.foresee(of, half...)
			p.eventually("an exchange to be asked for", p.asks)
			var met atomic.Bool
			n := 0
			p.memory.mu.Lock()
			p.memory.fail = func(c string) error {
				if c != call {
					return nil
				}
				if n++; n < 2 && strings.Contains(call, "several") {
					return nil
				}
				met.Store(true)
				return failure
			}
			p.memory.mu.Unlock()
			p.stop()
			p.eventually(call+" to fail", met.Load)
			p.resume()
			p.check()
			p.failing("", nil)
			p.page.hold()
			p.stop()
			p.eventually("the exchange after "+call, func() bool { return p.missing(half...) < memory.BatchBytes && p.in(memory.Away) == 0 })
			p.resume()
			p.check()
		}
	}
}

// in is how much is in a state.
func (p *program) in(state memory.State) (b memory.Bytes) {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	for _, s := range p.memory.segments {
		if s.State == state {
			b += s.Bytes
		}
	}
	return b
}

func (l *lender) mappedInPassing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passing
}

func TestExchangesAreAskedForAgain(t *testing.T) { onDevice(t, "TestInnerAskedForAgain") }

// TestInnerAskedForAgain: an exchange that is cut short before anything came in, as the
// program is wanted, is asked for again at once: it was not in vain.
func TestInnerAskedForAgain(t *testing.T) {
	p, of := halfOnDevice(t)
	moving := func() bool {
		p.memory.mu.Lock()
		defer p.memory.mu.Unlock()
		return p.memory.moving
	}
	for i := range 20 {
		p.foresee(of, halves[i%2]...)
		p.eventually("an exchange to be asked for", p.asks)
		moves := len(p.entries())
		p.stop()
		p.eventually("a move", moving)
		p.resume()
		p.eventually("its end", func() bool { return len(p.entries()) > moves })
		p.check()
		if p.entries()[moves].In > 0 {
			continue
		}
		began := time.Now()
		p.eventually("it to be asked for again", p.asks)
		if d := time.Since(began); d > latest/2 {
			t.Errorf("asked for again after %v", d)
		}
		return
	}
	t.Fatal("none of 20 moves was cut short in time")
}

func TestHintsChooseWhatIsHashed(t *testing.T) { onDevice(t, "TestInnerHints") }

// TestInnerHints has somebody say of memory that it was written, whether it was or not: that
// saves digests, or costs some, and no byte.
func TestInnerHints(t *testing.T) {
	of := &prophet{says: WasWritten}
	p := startWith(t, func(c *Config, _ *lender) { c.Uses = of }, 32*mib, 8*mib)
	began := monotonic()
	for range 3 {
		p.round()
	}
	if hashed, spared, _ := p.clean(); spared != 0 {
		t.Errorf("hashed %s, spared %s of what is said to be written", hashed, spared)
	}
	of.mu.Lock()
	if of.since < began || of.since > monotonic() {
		t.Errorf("asked since %v, between %v and %v", of.since, began, monotonic())
	}
	of.mu.Unlock()
	of.say(NotWritten)
	for i := range uint64(4) {
		p.flip(1, i)
		p.round()
		p.flip(1, i)
		p.check()
	}
	p.round()
	if _, spared, wrong := p.clean(); spared < 24*mib || wrong < 64*mib {
		t.Errorf("spared %s, wrong %s", spared, wrong)
	}
	p.check()
}

// TestVainExchangesAreRare: one that brought nothing in is left for a tenth of a second, then
// longer, up to a second; one that did ends that.
func TestVainExchangesAreRare(t *testing.T) {
	var v foresight
	now := time.Second
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		v.exchanged(false, now)
		if got := v.barren - now; got != want*later {
			t.Errorf("left for %v, want %v", got, want*later)
		}
		now = v.barren
	}
	v.exchanged(true, now)
	if v.barren > now {
		t.Error("left though it brought something in")
	}
	if v.exchanged(false, now); v.barren-now != later {
		t.Errorf("left for %v after one that did not fail", v.barren-now)
	}
}
