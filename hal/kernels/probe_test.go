package kernels

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestHeartbeatShowsTheTimeItHad(t *testing.T) {
	m := flat{0x1000, make([]byte, 16)}
	k, _ := ByName("xm_heartbeat")
	l := Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Args: args(uint64(0x1000), uint64(0x1008), uint64(1000))}
	if err := k.Check(l); err != nil {
		t.Fatal(err)
	}
	if c := k.Cost(l); c != 1000*beat {
		t.Errorf("1000 beats cost %v", c)
	}
	beats := func() uint32 { return binary.LittleEndian.Uint32(m.data) }
	for _, c := range []struct {
		ran     time.Duration
		stop    uint32
		beats   uint32
		through bool
	}{
		{0, 0, 0, false},
		{10*beat + beat/2, 0, 10, false},
		{999 * beat, 0, 999, false},
		{1000 * beat, 0, 1000, true},
		{time.Hour, 0, 1000, true},
		{20 * beat, 1, 20, true},
	} {
		binary.LittleEndian.PutUint32(m.data[8:], c.stop)
		through, err := k.Step(m, l, c.ran)
		if err != nil || through != c.through || beats() != c.beats {
			t.Errorf("after %v with stop %d: %d beats, through %v, %v; want %d, %v", c.ran, c.stop, beats(), through, err, c.beats, c.through)
		}
	}
	if err := run(t, "xm_heartbeat", m, 1, 32, uint64(0x1000), uint64(0x1008), uint64(7)); err != nil || beats() != 7 {
		t.Errorf("a whole run: %d beats, %v", beats(), err)
	}
	for _, a := range [][]any{{uint64(0), uint64(0x1008), uint64(1)}, {uint64(0x1000), uint64(0x2000), uint64(1)}} {
		if run(t, "xm_heartbeat", m, 1, 32, a...) == nil {
			t.Errorf("a heartbeat ran outside its memory: %#x", a)
		}
	}
}

func TestWorkBeatsByTheTimeItHad(t *testing.T) {
	m := flat{0x1000, make([]byte, 32)}
	k, _ := ByName("xm_work")
	const iterations, every, interval = 1_000_000, 100, 10_000
	at := func(progress, stop, state uint64) []any {
		return []any{progress, stop, state, uint64(iterations), uint32(every), uint32(interval)}
	}
	const progress, stop, state = 0x1000, 0x1008, 0x1010
	l := Launch{Grid: [3]uint32{528, 1, 1}, Block: [3]uint32{512, 1, 1}, Args: args(at(progress, stop, state)...)}
	if err := k.Check(l); err != nil {
		t.Fatal(err)
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(m.data[8*i:]) }
	cost := k.Cost(l)
	all := uint32(cost / interval)
	if all < 1000 {
		t.Fatalf("a kernel of %v has %d beats", cost, all)
	}
	for _, c := range []struct {
		ran      time.Duration
		stop     uint32
		progress uint32
		through  bool
	}{
		{0, 0, 0, false},
		{95 * time.Microsecond, 0, 9, false},
		{95 * time.Microsecond, 0, 9, false}, // looked at again
		{cost - 1, 0, uint32((cost - 1) / interval), false},
		{cost, 0, all, true},
		{25 * time.Microsecond, 0, all + 2, false}, // the next kernel counts on
		{time.Hour, 0, 2 * all, true},
		{40 * time.Microsecond, 3, 2*all + 4, true}, // told to end
		{10 * time.Microsecond, 0, 2*all + 5, true}, // once for all that come after
	} {
		binary.LittleEndian.PutUint32(m.data[8:], c.stop)
		through, err := k.Step(m, l, c.ran)
		if err != nil || through != c.through || word(0) != c.progress {
			t.Errorf("after %v with stop %d: progress %d, through %v, %v; want %d, %v", c.ran, c.stop, word(0), through, err, c.progress, c.through)
		}
	}
	if word(2) != 3 {
		t.Errorf("the state says %d, not what ended the kernels", word(2))
	}
	before := word(0)
	short := []any{uint64(progress), uint64(stop), uint64(state), uint64(1), uint32(1), uint32(interval)}
	if err := run(t, "xm_work", m, 1, 32, short...); err != nil || word(0) != before+1 {
		t.Errorf("a kernel shorter than a beat: %d beats, %v; want one", word(0)-before, err)
	}
	for _, a := range [][]any{at(0, stop, state), at(progress, 0, state), at(progress, stop, 0)} {
		if run(t, "xm_work", m, 1, 32, a...) == nil {
			t.Errorf("work ran outside its memory: %#x", a)
		}
	}
}

func TestCountCountsEqualWords(t *testing.T) {
	const base, n = 0x10000, 1000
	m := flat{base, make([]byte, 8+4*n)}
	for i := range n {
		binary.LittleEndian.PutUint32(m.data[8+4*i:], uint32(i%7))
	}
	for range 2 { // adds to what is there
		if err := run(t, "xm_count", m, 2, 32, uint64(base), uint64(base+8), uint64(n), uint32(3)); err != nil {
			t.Fatal(err)
		}
	}
	if got := binary.LittleEndian.Uint64(m.data); got != 2*143 {
		t.Errorf("counted %d, want %d", got, 2*143)
	}
	if run(t, "xm_count", m, 1, 32, uint64(base), uint64(base+8), uint64(n+1), uint32(3)) == nil {
		t.Error("counted outside its memory")
	}
}

func TestProbePTXDeclaresTheTable(t *testing.T) {
	declares(t, string(ProbePTX()), ".target sm_70\n", probeTable)
}
