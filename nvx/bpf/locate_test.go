package bpf

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestLibrariesIn(t *testing.T) {
	text := `55d0c0a00000-55d0c0a01000 r--p 00000000 fd:01 1048 /usr/bin/python3.11
7f0000000000-7f0000001000 r--p 00000000 fd:01 77 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04
7f0000001000-7f0000002000 r-xp 00001000 fd:01 77 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04
7f0000003000-7f0000004000 r-xp 00001000 00:2a 78 /opt/a b/libxmsched.so (deleted)
7f0000005000-7f0000006000 r-xp 00001000 fd:01 79 /usr/lib/libcudart.so.13
7f0000007000-7f0000008000 rw-p 00000000 00:00 0
7f0000009000-7f000000a000 rw-p 00000000 00:01 9 /memfd:libcuda.so.1 (deleted)
7f000000b000 nonsense
7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0 [stack]
`
	want := []library{
		{path: "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", at: "7f0000000000-7f0000001000", file: file{"fd:01", 77}},
		{path: "/opt/a b/libxmsched.so", at: "7f0000003000-7f0000004000", file: file{"00:2a", 78}, ours: true},
	}
	if got := librariesIn([]byte(text)); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func FuzzLibrariesIn(f *testing.F) {
	f.Add([]byte("7f0000000000-7f0000001000 r--p 00000000 fd:01 77 /libcuda.so.1\n"))
	f.Add([]byte("a b c d 1 /libxmsched.so"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, l := range librariesIn(text) {
			if l.file.inode == 0 || !strings.Contains(l.path, "lib") {
				t.Errorf("%+v", l)
			}
		}
	})
}

// stapsdt is a note of a probe site.
func stapsdt(address uint64, provider, name, args string) []byte {
	text := binary.LittleEndian.AppendUint64(nil, address)
	text = append(text, make([]byte, 16)...)
	text = append(text, provider+"\x00"+name+"\x00"+args+"\x00"...)
	note := binary.LittleEndian.AppendUint32(nil, 8)
	note = binary.LittleEndian.AppendUint32(note, uint32(len(text)))
	note = binary.LittleEndian.AppendUint32(note, noteType)
	note = append(append(note, "stapsdt\x00"...), text...)
	for len(note)%4 != 0 {
		note = append(note, 0)
	}
	return note
}

func TestNotesIn(t *testing.T) {
	data := slices.Concat(stapsdt(0x1234, "xmsched", "launch", "8@%rdi 8@$0 8@$0"), stapsdt(0x5678, "other", "a", ""))
	want := []note{{"xmsched", "launch", "8@%rdi 8@$0 8@$0", 0x1234}, {"other", "a", "", 0x5678}}
	if got := notesIn(data, binary.LittleEndian); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for cut := range len(data) { // wherever it ends, what is whole is there
		got := notesIn(data[:cut], binary.LittleEndian)
		if len(got) > 2 || len(got) > 0 && got[0] != want[0] {
			t.Errorf("of %d bytes: %+v", cut, got)
		}
	}
}

func FuzzNotesIn(f *testing.F) {
	f.Add(stapsdt(1, "xmsched", "copy", "8@%rdi 8@$0 8@%rdx"))
	f.Add(slices.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, n := range notesIn(data, binary.LittleEndian) {
			if h, ok := siteOf(n.name); ok {
				_, _ = here.row(place{hook: h, args: argsOf(n.args)})
			}
		}
	})
}

// FuzzLibrary: files of other processes are read, whatever is in them.
func FuzzLibrary(f *testing.F) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(self[:4096])
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := strings.NewReader(string(data))
		_, _ = placesIn(r)
		_, _ = sitesIn(r)
	})
}

func TestWhereValuesAre(t *testing.T) {
	amd64 := machine{
		names:      map[string]uint16{"rdi": 112, "rsi": 104, "rdx": 96, "rcx": 88, "r8": 72, "r9": 64},
		parameters: []string{"rdi", "rsi", "rdx", "rcx", "r8", "r9"}, stack: 8,
	}
	for _, c := range []struct {
		v    value
		want where
	}{
		{value{}, where{}},
		{arg(0), where{howRegister, 8, 112, 0}},
		{arg32(2), where{howRegister, 4, 96, 0}},
		{arg(8), where{howStack, 8, 0, 24}}, // the stream of a launch: the third on the stack, above the return address
		{member(0, 32), where{howField, 8, 112, 32}},
		{value{from: constant, number: 7}, where{howNumber, 8, 0, 7}},
	} {
		if got, err := amd64.at(c.v); err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v, want %+v", c.v, got, err, c.want)
		}
	}
	if w, err := amd64.at(member(8, 0)); err == nil {
		t.Errorf("a field of a parameter on the stack: %+v", w)
	}
	args := argsOf("8@%rdi 8@$2 8@$-1 8@%xmm0")
	for i, want := range []where{{howRegister, 8, 112, 0}, {howNumber, 8, 0, 2}, {howNumber, 8, 0, -1}} {
		if got, err := amd64.atSite(arg(i), args); err != nil || got != want {
			t.Errorf("value %d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	for i := 3; i < 5; i++ {
		if got, err := amd64.atSite(arg(i), args); err == nil {
			t.Errorf("value %d: %+v", i, got)
		}
	}
}

// windowsOf are windows that lasted from and to these times.
func windowsOf(times ...uint64) *windows {
	w := &windows{}
	for i, t := range times {
		if i%2 == 0 {
			w.begin(t)
		} else {
			w.end(t)
		}
	}
	return w
}

func TestWindows(t *testing.T) {
	w := windowsOf(100, 200, 300, 400, 500)
	if w.number() != 4 || !w.open() || w.first() != 100 {
		t.Errorf("number %d, open %v, first %d", w.number(), w.open(), w.first())
	}
	for _, c := range []struct{ from, to, want uint64 }{{0, 150, 50}, {100, 600, 300}, {200, 300, 0}, {350, 550, 100}, {600, 500, 0}} {
		if got := w.within(c.from, c.to); uint64(got) != c.want {
			t.Errorf("within %d to %d: %d, want %d", c.from, c.to, got, c.want)
		}
	}
	for _, c := range []struct{ window, now, want uint64 }{{0, 600, 200}, {2, 600, 400}, {3, 600, 400}, {4, 600, 600}, {2, 350, 350}, {math.MaxUint64, 600, 600}} {
		if got := w.last(c.window, c.now); got != c.want {
			t.Errorf("last of window %d at %d: %d, want %d", c.window, c.now, got, c.want)
		}
	}
}

// TestWindowsKeepTheLimit runs the rule with a program whose hooks cost half of
// the time while they are in.
func TestWindowsKeepTheLimit(t *testing.T) {
	const tick = 100_000_000
	w := windowsOf(1)
	var spent, looked uint64
	for now := uint64(tick); now < 600*tick; now += tick {
		if w.open() {
			spent += tick / 2
			looked += tick
		}
		due := w.due(span(spent), span(now), 5, now)
		if due && !w.open() {
			w.begin(now)
		} else if !due && w.open() {
			w.end(now)
		}
	}
	if percent := 100 * float64(spent) / (600 * tick); percent > 5.5 || percent < 4 {
		t.Errorf("cost %.1f %%, limit 5", percent)
	}
	if looked == 0 || len(w.from) < 5 {
		t.Errorf("looked %d in %d windows", looked, len(w.from))
	}
	if !windowsOf(1).due(1<<40, 1, 0, 5) {
		t.Error("without a limit the hooks stay")
	}
}

func ExampleNoDriverError() {
	fmt.Println(&NoDriverError{PID: 7, Children: []int{8}})
	// Output: process 7 uses no CUDA driver (no libcuda.so is mapped in it); its child 8 does
}
