package board

import (
	"testing"
	"time"
)

func newBoard(t *testing.T) *Board {
	t.Helper()
	b, err := Create(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// TestMemoryAnswers passes the daemon's answers to the client's side.
func TestMemoryAnswers(t *testing.T) {
	b := newBoard(t)
	d := b.Device(3)
	if want, m := d.Memory(); want != 0 || m != (Memory{}) {
		t.Fatalf("a new board has the answer %d %+v", want, m)
	}
	m := Memory{Flags: MemoryManaged, Target: 5 << 30, Limit: 8 << 30, Total: 8 << 30, Host: 1 << 30, Turn: 250 * time.Millisecond}
	word := d.SetMemory(0, m)
	if want, got := d.Memory(); want != word || got != m || word != 1 {
		t.Errorf("answer %d %+v, want %d %+v", want, got, word, m)
	}
	if word = d.SetMemory(1<<32-1, m); word != 1 {
		t.Errorf("word after the last is %d, want 1: 0 reads as no answer", word)
	}
	woken := make(chan error, 1)
	go func(seen uint32) { woken <- d.WaitMemory(seen, time.Minute) }(word)
	for done := false; !done; {
		word = d.SetMemory(word, m)
		d.WakeMemory()
		select {
		case err := <-woken:
			if err != nil {
				t.Error(err)
			}
			done = true
		case <-time.After(time.Millisecond):
		}
	}
}

// TestMemoryFiguresAreClamped reads what no honest client writes.
func TestMemoryFiguresAreClamped(t *testing.T) {
	b := newBoard(t)
	d := b.Device(0)
	const most = 1 << 50
	for _, c := range []struct{ told, want MemoryView }{
		{MemoryView{}, MemoryView{}},
		{
			MemoryView{Did: 7, State: MemoryActive | MemoryGone, Allocated: 10, Resident: 6, Loading: 5, Host: 4, Pinned: 3, Asked: 2, Waste: 1, In: 8, Out: 9, Stall: time.Second, Working: 7, Exchange: 2, Slots: 12, Kept: 6, PinnedBy: [5]uint64{1, 2, 0, 0, 0}, Clean: CleanBytes{9, 5, 4}},
			MemoryView{Did: 7, State: MemoryActive | MemoryGone, Allocated: 10, Resident: 6, Loading: 5, Host: 4, Pinned: 3, Asked: 2, Waste: 1, In: 8, Out: 9, Stall: time.Second, Working: 7, Exchange: 2, Slots: 12, Kept: 6, PinnedBy: [5]uint64{1, 2, 0, 0, 0}, Clean: CleanBytes{9, 5, 4}},
		},
		{
			MemoryView{Allocated: 1<<64 - 1, Resident: 1<<64 - 1, Loading: 1<<64 - 1, Host: 1<<64 - 1, Pinned: 1<<64 - 1, Asked: 1<<64 - 1, Waste: 1<<64 - 1},
			MemoryView{Allocated: most, Resident: most, Loading: most, Pinned: most, Asked: most, Waste: most},
		},
		{
			MemoryView{Allocated: 5, Resident: 9, Host: 9, Waste: 20, Working: 30, Exchange: 31, Slots: 3, Kept: 4},
			MemoryView{Allocated: 9, Resident: 9, Waste: 9, Working: 9, Exchange: 9, Slots: 3, Kept: 3},
		},
	} {
		d.TellMemory(c.told)
		if got := b.MemoryView(0); got != c.want {
			t.Errorf("told %+v, read %+v, want %+v", c.told, got, c.want)
		}
	}
}

func TestMovable(t *testing.T) {
	for s, want := range map[MemoryState]bool{
		0: false, MemoryActive: true, MemoryActive | MemoryGone: true,
		MemoryActive | MemoryLate: false, MemoryActive | MemoryUnable: false, MemoryUnable: false,
	} {
		if s.Movable() != want {
			t.Errorf("state %d is movable: %v, want %v", s, !want, want)
		}
	}
}
