package mover

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"xmsched/hal/cuda/abi"
	"xmsched/memory"
)

// round has all memory go and come back.
func (p *program) round() {
	p.t.Helper()
	p.stop()
	p.page.order(Orders{Managed: true, Target: 0})
	p.eventually("all to go", p.resident(0))
	p.page.order(Orders{Managed: true, Target: memory.GiB})
	p.eventually("all to come", func() bool { f := p.memory.figures(); return p.resident(f.Resident + f.Host)() })
	p.resume()
}

func (p *program) clean() (hashed, spared, wrong memory.Bytes) {
	p.page.mu.Lock()
	defer p.page.mu.Unlock()
	return p.page.hashed, p.page.spared, p.page.wrong
}

// flip alters one bit of a segment, as the program would.
func (p *program) flip(id memory.ID, bit uint64) {
	p.t.Helper()
	at := abi.DevicePtr(p.memory.segments[id].Address + bit/8)
	var b [1]byte
	p.must(p.driver.MemcpyDtoH(b[:], at))
	b[0] ^= 1 << (bit % 8)
	p.must(p.driver.MemcpyHtoD(at, b[:]))
}

func TestCleanStaysHome(t *testing.T) { onDevice(t, "TestInnerCleanStaysHome") }

// TestInnerCleanStaysHome has memory that nobody writes to go without being copied; where a
// single bit was altered, that segment is copied, and the bit is there afterwards.
func TestInnerCleanStaysHome(t *testing.T) {
	p := start(t, sizes...)
	const all = 204 * mib
	p.round() // what has no copy at home
	if _, spared, _ := p.clean(); spared != 0 {
		t.Errorf("%s went uncopied the first time", spared)
	}
	p.round()
	hashed, spared, wrong := p.clean()
	if hashed < 2*all || spared != all || wrong != 0 || p.memory.spared != all {
		t.Errorf("hashed %s, spared %s (%s by the library), wrong %s of %s", hashed, spared, p.memory.spared, wrong, memory.Bytes(all))
	}
	p.check()
	p.flip(2, 0)
	p.flip(8, 2*8<<20-1) // the last bit of 2 MiB
	p.round()
	_, twice, wrong := p.clean()
	if twice-spared != all-34*mib || wrong != 34*mib {
		t.Errorf("spared %s, wrong %s", twice-spared, wrong)
	}
	for id, bit := range map[memory.ID]uint64{2: 0, 8: 2*8<<20 - 1} {
		p.flip(id, bit) // back
	}
	p.check()
	p.round()
	p.check()
}

func TestSparingFails(t *testing.T) { onDevice(t, "TestInnerSparingFails") }

// TestInnerSparingFails has what is clean be refused to go: it stays, or goes by a copy,
// and when there is nothing in the way it goes.
func TestInnerSparingFails(t *testing.T) {
	p := start(t, 8*mib, 4*mib)
	p.round()
	for _, failure := range []error{syscall.ESTALE, syscall.EBUSY, abi.CUDA_ERROR_UNKNOWN} {
		met := p.failing("spare", failure)
		p.page.order(Orders{Managed: true, Target: 0})
		p.stop()
		p.eventually("the call", met)
		p.resume()
		p.check()
		p.failing("", nil)
		for range maxMissed + 2 { // until there are digests that hold
			p.round()
		}
		p.check()
	}
	if _, spared, _ := p.clean(); spared == 0 {
		t.Error("nothing was spared")
	}
}

func TestWritesAtRandom(t *testing.T) { onDevice(t, "TestInnerWritesAtRandom") }

// TestInnerWritesAtRandom writes a little here and there while memory goes and comes by
// random targets, stopped at any moment: the bytes are right whenever the program looks.
func TestInnerWritesAtRandom(t *testing.T) {
	p := start(t, 8*mib, 8*mib, 4*mib, 4*mib, 2*mib, 2*mib, 2*mib)
	random := rand.New(rand.NewPCG(5, 6))
	for range 40 {
		switch random.IntN(4) {
		case 0:
			p.page.order(Orders{Managed: true, Target: memory.Bytes(random.IntN(5)) * 8 * mib})
			p.stop()
			p.resume()
		case 1:
			p.fill(memory.ID(1+random.IntN(7)), random.Uint64())
		case 2:
			id := memory.ID(1 + random.IntN(7))
			bit := random.Uint64N(8 * uint64(p.memory.segments[id].Bytes))
			p.flip(id, bit)
			p.round()
			p.flip(id, bit)
		default:
			p.round()
		}
		p.check()
	}
	if _, spared, wrong := p.clean(); spared == 0 || wrong == 0 {
		t.Errorf("spared %s, wrong %s", spared, wrong)
	}
}

// failing is a summer that fails.
type failing struct{ left int }

func (f *failing) sums(_ []memory.Segment, into []digest, _ func() bool) ([]digest, error) {
	f.left--
	return into, errors.New("the kernel ended with an error")
}

func TestNoDigestsNoHarm(t *testing.T) {
	for _, test := range []string{"TestInnerDigestFails", "TestInnerNoModule", "TestInnerWrongKernel"} {
		t.Run(test, func(t *testing.T) { onDevice(t, test) })
	}
}

// copied checks that everything is copied, all the time.
func (p *program) copied() {
	p.t.Helper()
	for range 4 {
		p.round()
		p.flip(1, 77)
		p.flip(1, 77)
	}
	p.check()
	if hashed, spared, _ := p.clean(); hashed != 0 || spared != 0 {
		p.t.Errorf("hashed %s, spared %s", hashed, spared)
	}
}

func TestInnerDigestFails(t *testing.T) {
	f := &failing{}
	p := startWith(t, func(c *Config, _ *lender) { c.sums = func(summer) summer { return f } }, 32*mib, 8*mib)
	p.copied()
	if f.left != -maxHashFailures {
		t.Errorf("tried %d times", -f.left)
	}
}

func TestInnerNoModule(t *testing.T) {
	startWith(t, func(_ *Config, l *lender) { l.lacks = "cuModuleLoadData" }, 32*mib, 8*mib).copied()
}

// TestInnerWrongKernel has a device whose launches do nothing: that shows before a
// digest is relied on.
func TestInnerWrongKernel(t *testing.T) {
	startWith(t, func(_ *Config, l *lender) { l.inert = "cuLaunchKernel" }, 32*mib, 8*mib).copied()
}
