package bpf

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = 1_000_000 // nanoseconds

// bytesOf is a process as the map holds it.
func bytesOf(t testing.TB, p observeProcess) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, p); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func comm(name string) (c [16]int8) {
	for i := range name {
		c[i] = int8(name[i])
	}
	return c
}

func TestProcessIsDecoded(t *testing.T) {
	p := observeProcess{Started: 1, Commands: 2, WaitedNs: 3, GateLongestNs: 4, Bytes: 5, Untracked: 6, LostStreams: 7, Comm: comm("python")}
	p.Busy.Number[3], p.Idle.Ns[39] = 8, 9
	got, err := decodeProcess(bytesOf(t, p))
	if err != nil || got != p {
		t.Errorf("%+v, %v", got, err)
	}
	for _, n := range []int{0, 1, binary.Size(p) - 1, binary.Size(p) + 1} {
		if _, err := decodeProcess(make([]byte, n)); err == nil {
			t.Errorf("%d bytes are taken for a process", n)
		}
	}
}

// TestWork puts together what is over and what still lasts.
func TestWork(t *testing.T) {
	// Seen from 1000 ms on: two blocks of 2 ms, a gap of 100 ms; a third block
	// since 1500 ms with 5 commands, which a thread waits for since 1550 ms.
	p := observeProcess{
		Started: 1000 * ms, Window: 0, Word: 1<<16 | 1, Since: 1500 * ms, Commands: 25, BlockFrom: 20,
		LongestNs: 2 * ms, LongestCommands: 10, WaitedNs: 1 * ms, WaitedUntil: 1450 * ms, Waits: 2, CommandNs: ms, Comm: comm("train"),
	}
	p.Busy.Number[21], p.Busy.Ns[21] = 2, 4*ms
	p.Idle.Number[27], p.Idle.Ns[27] = 1, 100*ms
	got := figuresOf(p, 1550*ms, windowsOf(500*ms), 1600*ms)
	want := Work{
		Busy: 104 * time.Millisecond, Idle: 100 * time.Millisecond, Unknown: 396 * time.Millisecond,
		Waited: 51 * time.Millisecond, Waits: 2, Longest: 100 * time.Millisecond, InLongest: 5, Command: time.Millisecond, Busying: true,
	}
	want.Blocks.Number[21], want.Blocks.Total[21] = 2, 4*time.Millisecond
	want.Blocks.Number[27], want.Blocks.Total[27] = 1, 100*time.Millisecond
	want.Gaps.Number[27], want.Gaps.Total[27] = 1, 100*time.Millisecond
	if d := cmp.Diff(want, got.Work); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	p.Word = 1 << 16
	if w := figuresOf(p, 1550*ms, windowsOf(500*ms), 1600*ms).Work; w.Busying || w.Busy != 4*time.Millisecond {
		t.Errorf("nothing is outstanding: %+v", w)
	}
	if got.Name != "train" || got.Before != 500*time.Millisecond || got.Seen != 600*time.Millisecond || got.Looked != got.Seen || got.Left {
		t.Errorf("%+v", got)
	}
	if n, d := got.Work.Gaps.Long(); n != 1 || d != 100*time.Millisecond {
		t.Errorf("long gaps: %d, %v", n, d)
	}
}

// TestWorkOfAnEndedWindow: what lasted when looking stopped counts until then.
func TestWorkOfAnEndedWindow(t *testing.T) {
	p := observeProcess{Started: 100 * ms, Window: 0, IdleSince: 200 * ms, Ended: 900 * ms}
	f := figuresOf(p, 0, windowsOf(1, 300*ms, 800*ms), 1000*ms)
	if f.Work.Idle != 100*time.Millisecond || f.Looked != 300*time.Millisecond || f.Work.Unknown != 200*time.Millisecond || !f.Left {
		t.Errorf("%+v", f)
	}
}

func rowsForTest() []row {
	launch, _ := hookOf("cuLaunchKernel")
	sync, _ := hookOf("cuCtxSynchronize")
	site, _ := siteOf("launch")
	return []row{{hook: launch, first: stepped}, {hook: launch, first: emulated}, {hook: sync, first: stepped}, {hook: site, first: nop5}}
}

// TestFigures: one function in two files is one line; who is seen at the sites is
// not counted below them as well, but pays for both.
func TestFigures(t *testing.T) {
	r := &reading{
		processes: map[observeProcessKey]observeProcess{
			{Pid: 9}: {Started: 5}, {Pid: 8}: {Started: 5}, {Pid: 8, Ours: 1}: {Started: 4},
		},
		counts: map[observeCountKey]observeCount{
			{Pid: 9, Row: 0}: {Hits: 100}, {Pid: 9, Row: 1}: {Hits: 10}, {Pid: 9, Row: 2}: {Hits: 3},
			{Pid: 8, Row: 0}: {Hits: 20}, {Pid: 8, Row: 3}: {Hits: 20}, {Pid: 9, Row: 77}: {Hits: 1},
		},
	}
	cost := Cost{Entry: [openings]time.Duration{1000, 100, 10}, Return: [openings]time.Duration{500, 50, 5}}
	got := r.figures(rowsForTest(), cost, windowsOf(1), 10)
	if len(got) != 2 || got[0].PID != 8 || got[1].PID != 9 {
		t.Fatalf("%+v", got)
	}
	if d := cmp.Diff([]Call{{Function: "launch", Kind: KindLaunch, Count: 20}}, got[0].Calls); d != "" || !got[0].Ours {
		t.Errorf("-want +got\n%s", d)
	}
	if d := cmp.Diff([]Call{{"cuLaunchKernel", KindLaunch, 110, 0}, {"cuCtxSynchronize", kindWait, 3, 0}}, got[1].Calls); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if got[0].Cost != 20*1000+20*10 || got[1].Cost != 100*1000+10*100+3*1500 || got[1].Hits != 116 {
		t.Errorf("cost %v, %v with %d hits", got[0].Cost, got[1].Cost, got[1].Hits)
	}
	if spent := r.spent(rowsForTest(), cost); spent != got[0].Cost+got[1].Cost {
		t.Errorf("spent %v", spent)
	}
}

func TestNews(t *testing.T) {
	if n, err := decodeNews([]byte{1, 0, 0, 0, 7, 0, 0, 0}); err != nil || n != (news{newsCame, 7}) {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := decodeNews([]byte{1}); err == nil {
		t.Error("a byte is taken for news")
	}
}

// FuzzProcess: whatever the map holds, the figures are numbers that can be.
func FuzzProcess(f *testing.F) {
	f.Add(bytesOf(f, observeProcess{Started: 1000, Since: 2000, Commands: 3, WaitedNs: 1, Comm: comm("a\x01\x7f")}), uint64(5000), uint64(0))
	f.Add(bytes.Repeat([]byte{0xff}, binary.Size(observeProcess{})), uint64(1), uint64(1<<63))
	f.Fuzz(func(t *testing.T, value []byte, now, waiting uint64) {
		p, err := decodeProcess(value)
		if err != nil {
			return
		}
		got := figuresOf(p, waiting, windowsOf(10, 1000, 2000), now)
		w := got.Work
		for name, d := range map[string]time.Duration{
			"before": got.Before, "seen": got.Seen, "looked": got.Looked, "busy": w.Busy, "idle": w.Idle, "unknown": w.Unknown, "waited": w.Waited, "longest": w.Longest, "command": w.Command,
		} {
			if d < 0 {
				t.Errorf("%s: %v", name, d)
			}
		}
		if w.Waited > w.Busy {
			t.Errorf("waited %v of %v", w.Waited, w.Busy)
		}
	})
}
