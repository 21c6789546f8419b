package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"xmsched/memory"
	"xmsched/nvx/mover"
	"xmsched/predictor"
	"xmsched/preempt/board"
)

// program is a program whose records a forecast is fed with.
type program struct {
	t        *testing.T
	f        *feeder
	view     *board.Board
	on       bool
	lost     uint64
	now      uint64
	sequence uint64
	counted  uint64 // of it on the board
	records  []byte
	ranges   []byte
	graphs   map[uint64][]byte
	told     int
	awayFrom uint64 // memory from that address on is on the host; 0: none
}

const (
	forecastBase  = 0x7000_0000_0000
	forecastRange = 64 << 20 // of each allocation
)

// The program has eight allocations and two kernels: fill(address, bytes) of which
// nothing is known, and one nobody knows the parameters of.
func newProgram(t *testing.T) *program {
	t.Helper()
	view, err := board.Create(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = view.Close() })
	view.Device(0).Claim(board.Identity{Name: "test GPU"})
	p := &program{t: t, view: view, now: 1 << 40, graphs: map[uint64][]byte{}}
	for i := range uint64(8) {
		p.ranges = append(p.ranges, p.record(CommandAlloc, 0, 0, forecastBase+i*forecastRange, forecastRange, 0)...)
	}
	known := NewKnowledge(nil, func(err error) { t.Error(err) })
	p.f = &feeder{forecast: NewForecast(p, known), view: view, tell: func(int) { p.told++ }, away: p.away, buffer: make([]byte, 64*CommandBytes)}
	return p
}

// newForeseen is one whose commands are looked at, and that runs.
func newForeseen(t *testing.T) *program {
	p := newProgram(t)
	p.predict(true)
	p.looks()
	p.view.Device(0).Publish(0, board.Grant{Open: true, Mode: board.Bounded})
	return p
}

// hosts has memory be on the host from an address on.
func (p *program) hosts(from uint64) {
	p.awayFrom = from
	all := uint64(forecastBase + 8*forecastRange)
	p.view.Device(0).TellMemory(board.MemoryView{State: board.MemoryActive, Allocated: 8 * forecastRange, Resident: 8*forecastRange - (all - from), Host: all - from})
}

func (p *program) away(_ int, into []memory.Segment) []memory.Segment {
	into = into[:0]
	for at := uint64(forecastBase); at < forecastBase+8*forecastRange; at += forecastRange / 2 {
		if at >= p.awayFrom {
			into = append(into, memory.Segment{Address: at, Bytes: forecastRange / 2, State: memory.Host})
		}
	}
	return into
}

func (p *program) Record(on bool) bool { was := p.on; p.on = on; return was }
func (p *program) Take([]byte) ([]byte, error) {
	out := p.records
	p.records = nil
	return out, nil
}
func (p *program) Dropped() uint64               { return p.lost }
func (p *program) Ranges([]byte) ([]byte, error) { return p.ranges, nil }
func (p *program) Graph(id uint64, _ []byte) ([]byte, uint64, error) {
	if g, ok := p.graphs[id]; ok {
		return g, 1, nil
	}
	return nil, 0, errors.New("no such graph")
}

func (p *program) Kernel(id uint32) (Kernel, error) {
	if id == 0 {
		return Kernel{}, errors.New("no such kernel")
	}
	return Kernel{Name: fmt.Sprint("kernel", id), Parameters: []Parameter{{0, 8}, {8, 8}}, Bytes: 16, Layout: true}, nil
}

// record is one of a command with these words as payload.
func (p *program) record(kind CommandKind, kernel uint32, flags CommandFlags, payload ...uint64) []byte {
	b := make([]byte, commandHead+8*len(payload))
	le := binary.LittleEndian
	le.PutUint32(b, uint32(len(b)))
	le.PutUint16(b[4:], uint16(kind))
	le.PutUint32(b[12:], kernel)
	le.PutUint64(b[16:], p.sequence)
	le.PutUint64(b[24:], p.now)
	for i := range 6 {
		le.PutUint32(b[32+4*i:], 1)
	}
	le.PutUint32(b[60:], uint32(8*len(payload)))
	le.PutUint32(b[64:], uint32(flags))
	for i, w := range payload {
		le.PutUint64(b[commandHead+8*i:], w)
	}
	return b
}

func (p *program) submits(kind CommandKind, kernel uint32, flags CommandFlags, payload ...uint64) {
	p.sequence++
	p.now += 1000
	p.records = append(p.records, p.record(kind, kernel, flags, payload...)...)
}

// launches a kernel on an allocation.
func (p *program) launches(kernel uint32, allocation uint64) {
	p.submits(CommandKernel, kernel, 0, forecastBase+allocation*forecastRange, 4096)
}

// step is what the program does again and again: four allocations of its eight.
func (p *program) step() {
	for i := range uint64(12) {
		p.launches(1+uint32(i%3), i%4)
	}
	p.looks()
}

func (p *program) looks() {
	p.now += 1000
	p.view.Slot(0).Submit(p.sequence - p.counted)
	p.counted = p.sequence
	p.view.Slot(0).Mark(p.sequence)
	p.view.Slot(0).Complete(p.sequence)
	p.f.look(p.now)
}

func (p *program) predict(on bool) {
	m := board.Memory{Flags: board.MemoryManaged}
	if on {
		m.Flags |= board.MemoryPredict
	}
	p.view.Device(0).SetMemory(0, m)
}

// uses are the allocations that are foreseen, in their order, each once.
func (p *program) uses() (list []uint64, known bool) {
	seq, known := p.f.forecast.Next(0, time.Second)
	if !known {
		return nil, false
	}
	seen := map[uint64]bool{}
	for u := range seq {
		if i := (u.Address - forecastBase) / forecastRange; !seen[i] {
			seen[i] = true
			list = append(list, i)
		}
	}
	return list, true
}

func TestForecastFollowsAPeriod(t *testing.T) {
	p := newProgram(t)
	p.step()
	if p.on {
		t.Error("recorded though nobody wants it")
	}
	p.records = nil
	p.predict(true)
	p.looks()
	if !p.on {
		t.Fatal("not recorded though somebody wants it")
	}
	for range 4 {
		p.step()
	}
	list, known := p.uses()
	if !known || len(list) != 4 {
		t.Fatalf("foreseen: %v, %v", list, known)
	}
	for _, i := range list {
		if i > 3 {
			t.Errorf("allocation %d is foreseen, and never used", i)
		}
	}
	if list[0] != 0 {
		t.Errorf("a step begins with allocation 0; foreseen: %v", list)
	}
	p.launches(1, 0)
	p.launches(2, 1)
	p.looks()
	if list, _ := p.uses(); list[0] != 2 {
		t.Errorf("next is allocation 2; foreseen: %v", list)
	}
	if p.told == 0 {
		t.Error("nobody was told")
	}
	if _, known := p.f.forecast.Next(1, time.Second); known {
		t.Error("a device that is not used is foreseen")
	}
}

// TestForecastBetweenPeriods: a program that goes from one part of its memory to another,
// or never repeats itself, is taken to go on with what it did last.
func TestForecastBetweenPeriods(t *testing.T) {
	p := newProgram(t)
	p.predict(true)
	p.looks()
	random := rand.New(rand.NewPCG(1, 2))
	launch := func(n int, of ...uint64) {
		for range n {
			p.launches(1+random.Uint32N(3), of[random.IntN(len(of))])
		}
		p.looks()
	}
	launch(lately/2, 0, 1)
	if _, known := p.uses(); known {
		t.Error("foreseen after a few commands that do not repeat")
	}
	launch(10*lately, 0, 1)
	if list, known := p.uses(); !known || len(list) != 2 || max(list[0], list[1]) != 1 {
		t.Errorf("foreseen: %v, %v", list, known)
	}
	launch(lately, 5)
	launch(3, 6)
	if list, known := p.uses(); !known || list[0] != 6 || list[1] != 5 {
		t.Errorf("after it went on: %v, %v", list, known)
	}
	p.launches(0, 0) // nobody knows its parameters
	p.looks()
	if _, known := p.uses(); known {
		t.Error("foreseen though the last command did not say what it touches")
	}
	launch(lately, 5, 6)
	if _, known := p.uses(); !known {
		t.Error("not foreseen though that is long past")
	}
}

// TestSlowForItsMemory: of a command that was slow as its memory was away nothing is
// learnt; of one whose memory was there, that more than was foretold is touched.
func TestSlowForItsMemory(t *testing.T) {
	for _, away := range []bool{true, false} {
		p := newForeseen(t)
		if away {
			p.hosts(forecastBase)
		}
		fill := func() { p.submits(CommandFill, 0, 0, forecastBase+3*forecastRange, 4096, 1, 4096) }
		for range 2 * lately {
			fill()
			p.looks()
		}
		fill()
		p.now += uint64(10 * time.Millisecond)
		p.looks()
		whole := false
		seq, known := p.f.forecast.Next(0, time.Second)
		if !known {
			t.Fatal("not foreseen")
		}
		for u := range seq {
			whole = whole || u.Bytes == forecastRange
		}
		if whole == away {
			t.Errorf("away %t: all of the allocation is foreseen: %t", away, whole)
		}
	}
}

// TestTimesAreOfMemoryThatIsThere: a program that goes over eight allocations in 8 ms, half
// of which it has to read from the host, where each takes 50 ms, touches all eight in a
// turn: as soon as some of it is there that is foreseen, and it stays so.
func TestTimesAreOfMemoryThatIsThere(t *testing.T) {
	const turn = 200 * time.Millisecond
	p := newForeseen(t)
	pass := func(away uint64) (foreseen int) {
		p.hosts(forecastBase + (8-away)*forecastRange)
		for i := range uint64(8) {
			p.launches(1, i)
			if p.now += uint64(time.Millisecond); i >= 8-away {
				p.now += uint64(50 * time.Millisecond)
			}
			p.looks()
		}
		seq, known := p.f.forecast.Next(0, turn)
		if !known {
			return 0
		}
		seen := map[uint64]bool{}
		for u := range seq {
			if i := (u.Address - forecastBase) / forecastRange; u.In < turn && !seen[i] {
				seen[i] = true
				foreseen++
			}
		}
		return foreseen
	}
	for range 10 {
		pass(8)
	}
	if n := pass(8); n > 4 {
		t.Errorf("with all of it on the host %d are foreseen, each of which takes 51 ms", n)
	}
	for round := range 10 {
		if n := pass(4); n != 8 {
			t.Errorf("with half of it on the device %d are foreseen for a turn of %v after %d rounds", n, turn, round+1)
		}
	}
}

func TestForecastIsSilentAboutWhatItDoesNotKnow(t *testing.T) {
	p := newProgram(t)
	p.predict(true)
	p.looks()
	if _, known := p.uses(); known {
		t.Error("known before anything was done")
	}
	for range 3 {
		p.step()
	}
	p.submits(CommandOther, 0, CommandUnknown)
	p.looks()
	if _, known := p.uses(); known {
		t.Error("known though a command may touch anything")
	}
	for range 4 {
		p.step()
	}
	if _, known := p.uses(); !known {
		t.Error("not known though every command of four steps said what it touches")
	}
	p.lost++
	p.step()
	if _, known := p.uses(); known {
		t.Error("known though records were lost")
	}
	for range 4 {
		p.step()
	}
	if _, known := p.uses(); !known {
		t.Error("not known again")
	}
	p.predict(false)
	p.now += uint64(keepFor)
	p.looks()
	if _, known := p.uses(); known || p.on {
		t.Error("still foreseen, or recorded, though nobody wants it")
	}
}

// TestForecastMindsWhatWasCut: a parameter beyond the bound of a record may be a
// pointer, in a launch as in a graph's node.
func TestForecastMindsWhatWasCut(t *testing.T) {
	for name, cut := range map[string]func(p *program){
		"parameters cut":     func(p *program) { p.submits(CommandKernel, 1, CommandCut, forecastBase, 4096) },
		"parameters unknown": func(p *program) { p.submits(CommandKernel, 1, CommandUnknown, forecastBase, 4096) },
		"a node's cut": func(p *program) {
			p.graphs[9] = p.record(CommandKernel, 1, CommandCut, forecastBase, 64)
			p.submits(CommandGraph, 0, 0, 9, 1)
		},
	} {
		p := newProgram(t)
		p.predict(true)
		p.looks()
		begin := p.now + 1
		for range 4 {
			p.step()
		}
		if _, known := p.uses(); !known {
			t.Fatalf("%s: not known before", name)
		}
		cut(p)
		p.looks()
		if _, known := p.uses(); known {
			t.Errorf("%s: known though the launch may touch anything", name)
		}
		if got := p.f.forecast.Written(0, forecastBase+6*forecastRange, 2<<20, time.Duration(begin)); got != mover.WrittenUnknown {
			t.Errorf("%s: %v, though the launch may write anything", name, got)
		}
	}
}

func TestForecastOfGraphsAndCopies(t *testing.T) {
	p := newProgram(t)
	p.graphs[7] = append(p.record(CommandKernel, 1, 0, forecastBase+5*forecastRange, 64),
		p.record(CommandKernel, 1, CommandDisabled, forecastBase+6*forecastRange, 64)...)
	p.predict(true)
	p.looks()
	for range 12 {
		p.submits(CommandGraph, 0, 0, 7, 1)
		p.submits(CommandCopy, 0, CommandFromHost, forecastBase+2*forecastRange, 0x1000, 4096, 1, 1, 0, 0, 0, 0)
		p.submits(CommandFill, 0, 0, forecastBase+3*forecastRange, 4096, 1, 4096)
		p.looks()
	}
	list, known := p.uses()
	if !known || len(list) != 3 || list[0] != 5 || list[1] != 2 || list[2] != 3 {
		t.Errorf("foreseen: %v, %v", list, known)
	}
}

func TestForecastKnowsWhatWasWritten(t *testing.T) {
	p := newProgram(t)
	p.predict(true)
	p.looks()
	at := func(i uint64) uint64 { return forecastBase + i*forecastRange }
	written := func(i uint64, since uint64) mover.Written {
		return p.f.forecast.Written(0, at(i), 2<<20, time.Duration(since))
	}
	begin := p.now + 1
	p.submits(CommandFill, 0, 0, at(1), 4096, 1, 4096)
	p.submits(CommandCopy, 0, CommandToHost, 0x1000, at(2), 4096, 1, 1, 0, 0, 0, 0)
	p.looks()
	for _, c := range []struct {
		allocation, since uint64
		want              mover.Written
	}{{1, begin, mover.WasWritten}, {2, begin, mover.NotWritten}, {3, begin, mover.NotWritten}, {1, p.now, mover.NotWritten}, {3, 1, mover.WrittenUnknown}} {
		if got := written(c.allocation, c.since); got != c.want {
			t.Errorf("allocation %d since %d: %v, want %v", c.allocation, c.since, got, c.want)
		}
	}
	p.launches(1, 4) // of a kernel of which nothing is learnt
	p.looks()
	if got := written(4, begin); got != mover.WrittenUnknown {
		t.Errorf("what a kernel may have written, or read alone: %v", got)
	}
	p.submits(CommandOther, 0, CommandUnknown)
	p.looks()
	if got := written(3, begin); got != mover.WrittenUnknown {
		t.Errorf("after a command that may write anything: %v", got)
	}
	if got := written(1, begin); got != mover.WasWritten {
		t.Errorf("what was written stays so: %v", got)
	}
}

// TestForecastTakesNoHarm has records that contradict themselves.
func TestForecastTakesNoHarm(t *testing.T) {
	p := newProgram(t)
	p.predict(true)
	p.looks()
	for _, words := range [][]uint64{nil, {1}, {^uint64(0), ^uint64(0), ^uint64(0)}, {0, ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}} {
		for kind := range CommandKind(12) {
			p.submits(kind, uint32(kind%3), 0, words...)
		}
	}
	p.looks()
	p.records = []byte{1, 2, 3}
	p.looks()
	for range 4 {
		p.step()
	}
	if _, known := p.uses(); !known {
		t.Error("not known afterwards")
	}
}

// phase has the program go over two of its allocations for 100 ms, a kernel every 0.5 ms.
// before is called before each step.
func (p *program) phase(first uint64, before func(step int)) {
	for i := range 100 {
		before(i)
		for k := range uint64(2) {
			p.launches(1, first+k)
			p.now += uint64(498 * time.Microsecond)
			p.looks()
		}
	}
}

// TestForecastOfPhases: what the next phase touches is foreseen behind what this one
// does, which counts for each time that it comes, and the mover is told as it comes near.
func TestForecastOfPhases(t *testing.T) {
	const turn = 50 * time.Millisecond
	p := newForeseen(t)
	times := func() (list [8]uint32, order []uint64) {
		seq, known := p.f.forecast.Next(0, turn)
		if !known {
			t.Fatal("not foreseen")
		}
		for u := range seq {
			i := (u.Address - forecastBase) / forecastRange
			if order = append(order, i); u.In < turn {
				list[i] += u.Times
			}
		}
		return list, order
	}
	for phase := range uint64(12) {
		first := 2 * (phase % 4)
		next := (first + 2) % 8
		told := p.told
		p.phase(first, func(step int) {
			if phase < 2 || phase == 3 || step%10 != 5 || phase < 5 && step < 20 {
				return // it has not settled, or nothing says what follows it
			}
			list, order := times()
			if n := list[first]; n < 48 || n > 52 {
				t.Errorf("phase %d, step %d: a kernel comes %d times in a turn, want 50", phase, step, n)
			}
			want := max(0, step-50)
			if n := int(list[next]); n < want-2 || n > want+2 {
				t.Errorf("phase %d, step %d: one of the next phase comes %d times in a turn, want %d", phase, step, n, want)
			}
			if len(order) < 4 || order[0]/2 != first/2 || order[2] != next {
				t.Errorf("phase %d, step %d: foreseen in the order %v", phase, step, order)
			}
		})
		// At its beginning, and as the next one comes within a turn and within half of one.
		if told = p.told - told; phase >= 5 && told != 3 || told > 5 {
			t.Errorf("phase %d: told %d times", phase, told)
		}
	}
}

// TestTimes: of a turn.
func TestTimes(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		at, every, turn time.Duration
		want            uint32
	}{{0, 0, 100 * ms, 1}, {0, ms, 100 * ms, 100}, {40 * ms, ms, 100 * ms, 60}, {99 * ms, ms, 100 * ms, 1}, {100 * ms, ms, 100 * ms, 1}, {0, time.Second, ms, 1}, {0, 1, 1 << 40, 1<<32 - 1}} {
		if got := times(&predictor.Use{At: c.at, Every: c.every}, c.turn); got != c.want {
			t.Errorf("in %v every %v of %v: %d times, want %d", c.at, c.every, c.turn, got, c.want)
		}
	}
}
