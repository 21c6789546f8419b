package memory

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// FuzzTable: no list of segments, whatever is in it, makes a table that
// contradicts itself, and a plan of one that was taken ends within its goal.
func FuzzTable(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add(append(make([]byte, 8), 1, 1, 0, 0, 0, 0, 0, 0), int64(64*MiB))
	f.Fuzz(func(t *testing.T, data []byte, goal int64) {
		var list []Segment
		for ; len(data) >= 16; data = data[16:] {
			list = append(list, Segment{
				ID:      ID(data[0]),
				Address: uint64(data[1])<<21 | uint64(data[2])<<56,
				Bytes:   Bytes(int64(binary.LittleEndian.Uint64(data[3:]))) << (data[11] % 32),
				State:   State(data[12]), Pin: Pin(data[13]), Arena: data[14]&1 != 0, Used: uint64(data[15]),
			})
		}
		table := NewTable()
		err := table.Reset(list)
		var bad *SegmentError
		if err != nil && (!errors.As(err, &bad) || table.Figures() != Figures{}) {
			t.Fatalf("%v, %+v", err, table.Figures())
		}
		fig := table.Figures()
		if fig.Allocated != fig.Resident+fig.Host || fig.Pinned > fig.Resident || fig.Allocated < 0 {
			t.Fatalf("%+v", fig)
		}
		var plan Plan
		plan.Build(table, Goal{Target: Bytes(goal)})
		out, in := plan.Bytes()
		if end := fig.Resident - out + in; end > max(Bytes(goal), fig.Pinned) {
			t.Fatalf("ends with %s, goal %s, %+v", end, Bytes(goal), fig)
		}
	})
}

// TestMapped: of what is mapped to its slots only what was Away becomes Host, and no figure changes.
func TestMapped(t *testing.T) {
	table := NewTable()
	var list []Segment
	for i, state := range []State{Device, Away, Host, Loading, Away} {
		list = append(list, Segment{ID: ID(i + 1), Address: uint64(i+1) << 30, Bytes: 32 * MiB, State: state})
	}
	if err := table.Reset(list); err != nil {
		t.Fatal(err)
	}
	before := table.Figures()
	table.Mapped([]ID{1, 2, 3, 4, 99})
	var states []State
	for s := range table.All() {
		states = append(states, s.State)
	}
	if !slices.Equal(states, []State{Device, Host, Host, Loading, Away}) || table.Figures() != before {
		t.Errorf("%v, %+v, want %+v", states, table.Figures(), before)
	}
}

func TestPieces(t *testing.T) {
	table := NewTable()
	if err := table.Reset([]Segment{{ID: 1, Address: 1 << 30, Bytes: 70 * MiB}, {ID: 2, Address: 2 << 30, Bytes: 2 * MiB}}); err != nil {
		t.Fatal(err)
	}
	got := slices.Collect(table.Pieces([]ID{2, 9, 1}))
	want := []Piece{
		{2, 2 << 30, 0, 2 * MiB},
		{1, 1 << 30, 0, 32 * MiB}, {1, 1<<30 + 32<<20, 32 * MiB, 32 * MiB}, {1, 1<<30 + 64<<20, 64 * MiB, 6 * MiB},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestNamesAreThere(t *testing.T) {
	for _, name := range Modes() {
		if m, err := ModeByName(name); err != nil || m.String() != name {
			t.Errorf("%s: %s, %v", name, m, err)
		}
	}
	if _, err := ModeByName("lifo"); err == nil {
		t.Error("lifo is a mode")
	}
	if got := len(Pins()); got != int(pinEnd)-1 || len(pinNames) != int(pinEnd) {
		t.Errorf("%d reasons, %d names", got, len(pinNames))
	}
}

func TestOverlapIsRefused(t *testing.T) {
	table := NewTable()
	var bad *SegmentError
	err := table.Reset([]Segment{{ID: 1, Address: 32 << 20, Bytes: 32 * MiB}, {ID: 2, Address: 62 << 20, Bytes: 32 * MiB}})
	if !errors.As(err, &bad) || bad.Segment.ID != 2 {
		t.Errorf("%v", err)
	}
}
