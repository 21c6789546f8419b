package mover

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/sim/simtest"
	"xmsched/memory"
)

// onDevice runs a test of this binary again, in a process whose driver is that of
// a simulated device.
func onDevice(t *testing.T, test string, options ...simtest.Option) {
	t.Helper()
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^"+regexp.QuoteMeta(test)+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(append(os.Environ(), simtest.Start(t, append(options, simtest.HBM(1<<30))...)...), "XMSCHED_TEST_INNER="+test)
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "--- PASS: "+test) {
		t.Fatalf("%s: %v\n%s", test, err, said)
	}
}

// program is a process with memory on a simulated device, and an engine in it.
type program struct {
	t       *testing.T
	driver  *cuda.Driver
	memory  *lender
	page    *page
	engine  *Engine
	cancel  context.CancelFunc
	parts   sync.WaitGroup
	served  chan struct{}
	broken  atomic.Pointer[string] // what was recovered from
	written map[memory.ID]uint64   // what each segment was filled with
	buffer  []byte
	wanted  []byte

	mu    sync.Mutex
	moves []Entry // protected by mu
	host  memory.HostFigures
}

func start(t *testing.T, sizes ...memory.Bytes) *program {
	return startWith(t, func(*Config, *lender) {}, sizes...)
}

// startWith changes what the engine is made of before it is made.
func startWith(t *testing.T, change func(*Config, *lender), sizes ...memory.Bytes) *program {
	if os.Getenv("XMSCHED_TEST_INNER") != t.Name() {
		t.Skip("runs as a process of its own, started by another test")
	}
	runtime.LockOSThread()
	p := &program{t: t, written: map[memory.ID]uint64{}, buffer: make([]byte, 32*memory.MiB), wanted: make([]byte, 32*memory.MiB), host: memory.HostFigures{Available: 8 * memory.GiB}}
	var err error
	p.driver, err = cuda.Open()
	p.must(err)
	p.must(p.driver.Init())
	device, err := p.driver.Device(0)
	p.must(err)
	own, err := p.driver.PrimaryContext(device)
	p.must(err)
	p.must(own.SetCurrent())
	p.memory = newLender(p.driver, device)
	for i, size := range sizes {
		id := memory.ID(i + 1)
		p.must(p.memory.allocate(id, size))
		p.fill(id, uint64(i)<<32)
	}
	p.page = newPage(p.memory)
	config := Config{
		Memory: p.memory,
		Go:     p.spawn,
		HostMemory: func() memory.HostFigures {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.host
		},
		Journal: func(e Entry) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.moves = append(p.moves, e)
		},
	}
	config.look = time.Minute // a simulated device is slow at it
	change(&config, p.memory)
	p.engine = New(config)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.served = make(chan struct{})
	p.spawn(func() { defer close(p.served); p.engine.Serve(ctx, 0, p.page, nil) })
	t.Cleanup(p.end)
	return p
}

// spawn is what the agent gives the engine.
func (p *program) spawn(f func()) {
	p.parts.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				said := fmt.Sprint(r)
				p.broken.Store(&said)
				p.cancel()
			}
		}()
		f()
	})
}

func (p *program) end() {
	p.cancel()
	done := make(chan struct{})
	go func() { <-p.served; p.engine.Close(); p.parts.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		p.t.Error("the engine does not end")
	}
}

func (p *program) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// pattern is what a segment has that was filled from a seed: pages of the same
// words, each with its own first one.
func (p *program) pattern(b []byte, seed uint64) {
	const page = 4096
	for i := 0; i < page; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], seed+uint64(i)*0x9e3779b97f4a7c15)
	}
	for at := page; at < len(b); at += page {
		copy(b[at:], b[:page])
		binary.LittleEndian.PutUint64(b[at:], seed^uint64(at))
	}
}

// fill writes a segment as the program would.
func (p *program) fill(id memory.ID, seed uint64) {
	p.t.Helper()
	s := p.memory.segments[id]
	b := p.buffer[:s.Bytes]
	p.pattern(b, seed)
	p.must(p.driver.MemcpyHtoD(abi.DevicePtr(s.Address), b))
	p.written[id] = seed
}

// check reads every segment at its address, as the program would.
func (p *program) check() {
	p.t.Helper()
	for id, seed := range p.written {
		s := p.memory.segments[id]
		b, want := p.buffer[:s.Bytes], p.wanted[:s.Bytes]
		p.must(p.driver.MemcpyDtoH(b, abi.DevicePtr(s.Address)))
		if p.pattern(want, seed); !bytes.Equal(b, want) {
			p.t.Fatalf("segment %d, %s: not the bytes that were written", id, s.State)
		}
	}
}

func (p *program) eventually(what string, good func() bool) {
	p.t.Helper()
	for began := time.Now(); !good(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			p.t.Fatalf("waited a minute for %s; moves %+v; %+v", what, p.entries(), p.memory.figures())
		}
	}
}

func (p *program) entries() []Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Entry(nil), p.moves...)
}

func (p *program) stop()   { p.memory.stop(); p.page.hold() }
func (p *program) resume() { p.t.Helper(); p.must(p.memory.resume()); p.page.hold() }

// resident says whether that much is on the device, and none of it is still coming.
func (p *program) resident(b memory.Bytes) func() bool {
	return func() bool {
		p.memory.mu.Lock()
		defer p.memory.mu.Unlock()
		for _, s := range p.memory.segments {
			if s.State == memory.Loading {
				return false
			}
		}
		return p.memory.figuresLocked().Resident == b
	}
}

const mib = memory.MiB

var sizes = []memory.Bytes{32 * mib, 32 * mib, 32 * mib, 32 * mib, 32 * mib, 32 * mib, 8 * mib, 2 * mib, 2 * mib}

func TestMovesOutAndIn(t *testing.T) { onDevice(t, "TestInnerOutAndIn") }

// TestInnerOutAndIn has memory go while the program is stopped, runs it from the
// host, and brings it back, twice; and all its bytes are right at every time.
func TestInnerOutAndIn(t *testing.T) {
	p := start(t, sizes...)
	for round := range 2 {
		p.page.order(Orders{Managed: true, Target: 64 * mib})
		p.eventually("host memory ahead", func() bool { all, _, _ := p.memory.Pool(0); return all >= 192*mib })
		if n := len(p.entries()); n != round*3 {
			t.Fatalf("moved while it ran: %+v", p.entries())
		}
		// Others may have what goes as soon as it is gone, which takes the answer as noted.
		p.eventually("the answer to be noted before anything goes", func() bool { return p.page.told() == 2*uint32(round)+1 })
		p.stop()
		p.eventually("memory to go", func() bool { return p.memory.figures().Resident <= 64*mib })
		if r := p.memory.figures().Resident; r < 32*mib {
			t.Errorf("%s on the device", r)
		}
		p.resume()
		p.check()
		p.fill(9, uint64(7+round))
		p.fill(1, uint64(9+round))
		p.stop()
		p.page.order(Orders{Managed: true, Target: 204 * mib})
		p.eventually("memory to come", p.resident(204*mib))
		p.resume()
		p.check()
		p.eventually("the moves to end", func() bool { return len(p.entries()) >= round*3+2 })
		for len(p.entries()) < (round+1)*3 { // as many in every round
			p.mu.Lock()
			p.moves = append(p.moves, Entry{})
			p.mu.Unlock()
		}
	}
}

func TestAFallingTargetIsHeardOfInTheMove(t *testing.T) { onDevice(t, "TestInnerFalling") }

// TestInnerFalling lowers the target while memory goes, each time as soon as the last one is
// taken note of: others may have what has gone by then. Most are while a move goes on.
func TestInnerFalling(t *testing.T) {
	p := start(t, sizes...)
	p.page.order(Orders{Managed: true, Target: 204 * mib})
	p.stop()
	const steps = 6
	for n := range uint32(steps) {
		p.page.order(Orders{Managed: true, Target: memory.Bytes(steps-1-n) * 32 * mib})
		p.eventually("the answer to be noted", func() bool { return p.page.told() == n+2 })
		p.eventually("memory to go", func() bool { return p.memory.figures().Resident <= memory.Bytes(steps-1-n)*32*mib })
	}
	if p.page.heardInMoves() < steps/2 {
		t.Errorf("%d of %d targets taken note of while memory went, in %d moves", p.page.heardInMoves(), steps, len(p.entries()))
	}
	p.resume()
	p.check()
}

func TestWantedEndsTheMove(t *testing.T) { onDevice(t, "TestInnerWanted") }

// TestInnerWanted resumes the program again and again while its memory moves to and fro.
func TestInnerWanted(t *testing.T) {
	p := start(t, sizes...)
	for round := range 12 {
		p.page.order(Orders{Managed: true, Target: []memory.Bytes{0, 204 * mib, 96 * mib}[round%3]})
		p.stop()
		time.Sleep(time.Duration(round%5) * 3 * time.Millisecond)
		p.resume()
		p.check()
		p.fill(memory.ID(round%len(sizes)+1), uint64(round)<<40)
	}
}

func TestFailuresLoseNothing(t *testing.T) { onDevice(t, "TestInnerFailures") }

// TestInnerFailures has each call fail, with what it may fail with, while memory
// goes and comes. Afterwards everything works again.
func TestInnerFailures(t *testing.T) {
	copied := func(_ *Config, l *lender) { l.lacks = "cuModuleLoadData" } // whether it changed or not
	p := startWith(t, copied, 8*mib, 8*mib, 4*mib, 2*mib, 2*mib)
	few, all := Orders{Managed: true, Target: 10 * mib}, Orders{Managed: true, Target: 24 * mib}
	for _, call := range []string{"list", "begin", "slots", "slot", "away", "load", "loaded"} {
		for _, failure := range []error{abi.CUDA_ERROR_OUT_OF_MEMORY, abi.CUDA_ERROR_UNKNOWN, syscall.EBUSY, syscall.EINVAL} {
			met := p.failing(call, failure)
			p.page.order(few)
			if call == "slots" {
				p.eventually("slots", met)
			}
			p.stop()
			if call == "load" || call == "loaded" {
				p.eventually("memory to go", func() bool { return p.memory.figures().Resident <= few.Target })
				p.page.order(all)
			}
			p.eventually(call, met)
			p.resume()
			p.check()
			p.failing("", nil)
			p.page.order(few)
			p.stop()
			p.eventually("memory to go after "+call, func() bool { return p.memory.figures().Resident <= few.Target })
			p.page.order(all)
			p.eventually("memory to come after "+call, p.resident(all.Target))
			p.resume()
			p.check()
		}
	}
}

// failing has a call fail from now on, and tells whether it was made.
func (p *program) failing(call string, failure error) (met func() bool) {
	var made atomic.Bool
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	p.memory.fail = func(c string) error {
		if c != call {
			return nil
		}
		made.Store(true)
		return failure
	}
	return made.Load
}

func TestHostMemoryHasALimit(t *testing.T) { onDevice(t, "TestInnerHostLimit") }

// TestInnerHostLimit holds that no more goes out than there is host memory for,
// be it the daemon's word or what the machine has, and that it goes as there is more.
func TestInnerHostLimit(t *testing.T) {
	p := start(t, sizes...)
	p.mu.Lock()
	p.host.Available = 180 * mib // half of it, at any time
	p.mu.Unlock()
	p.stop()
	p.page.order(Orders{Managed: true, Target: 0, Host: 44 * mib})
	time.Sleep(100 * time.Millisecond)
	if f := p.memory.figures(); f.Host > 44*mib {
		t.Errorf("%s on the host, allowed 44 MiB", f.Host)
	}
	p.page.order(Orders{Managed: true, Target: 0})
	time.Sleep(100 * time.Millisecond)
	if all, _, _ := p.memory.Pool(0); all > 180*mib {
		t.Errorf("%s of slots", all)
	}
	p.mu.Lock()
	p.host.Available = 8 * memory.GiB
	p.mu.Unlock()
	p.page.order(Orders{Managed: true, Target: 0, Host: 300 * mib})
	p.eventually("all to go", p.resident(0))
	p.resume()
	p.check()
}

func TestPanicLeavesNoMoveBehind(t *testing.T) { onDevice(t, "TestInnerPanic") }

// TestInnerPanic has the engine break in the middle of a move, in a call of its own or in one
// that goes on beside: its copies have ended and the move lock is given back, and the bytes
// are right.
func TestInnerPanic(t *testing.T) {
	for _, broken := range []string{"slot", "away"} {
		p := start(t, sizes...)
		n := 0
		p.memory.mu.Lock()
		p.memory.fail = func(call string) error {
			if call == broken {
				if n++; n == 2 {
					panic("broken " + call)
				}
			}
			return nil
		}
		p.memory.mu.Unlock()
		p.page.order(Orders{Managed: true, Target: 0})
		p.stop()
		p.eventually("the panic", func() bool { return p.broken.Load() != nil })
		if said := *p.broken.Load(); said != "broken "+broken {
			t.Errorf("recovered %q", said)
		}
		p.eventually("the end of the move", func() bool {
			p.memory.mu.Lock()
			defer p.memory.mu.Unlock()
			return !p.memory.moving
		})
		p.resume()
		p.check()
	}
}

func TestStallIsTold(t *testing.T) { onDevice(t, "TestInnerStall") }

// TestInnerStall holds that a process that would run, and stands still for a move, is told
// to have lost that time, and one whose turn it is not is not.
func TestInnerStall(t *testing.T) {
	p := start(t, sizes...)
	stalled := func() time.Duration {
		p.page.mu.Lock()
		defer p.page.mu.Unlock()
		return p.page.stalled
	}
	p.stop()
	p.page.order(Orders{Managed: true, Target: 64 * mib})
	p.eventually("memory to go", func() bool { return p.page.told() == 1 })
	if d := stalled(); d != 0 {
		t.Errorf("stalled %v while it was not its turn", d)
	}
	p.page.change(func() { p.page.open = true })
	began := time.Now()
	p.page.order(Orders{Managed: true, Target: 204 * mib})
	p.eventually("memory to come", func() bool { return p.resident(204*mib)() && stalled() > 0 })
	if d := stalled(); d > time.Since(began) {
		t.Errorf("stalled %v of %v", d, time.Since(began))
	}
	p.resume()
	p.check()
}
