package kernels

import (
	"encoding/binary"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var errUnmapped = errors.New("unmapped")

// flat is a Memory of one range that begins at base.
type flat struct {
	base uint64
	data []byte
}

func (f flat) View(addr, n uint64, _ Access) ([]byte, error) {
	if addr < f.base || addr-f.base > uint64(len(f.data)) || n > uint64(len(f.data))-(addr-f.base) {
		return nil, errUnmapped
	}
	return f.data[addr-f.base:][:n], nil
}

func args(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case uint64:
			for len(b)%8 != 0 {
				b = append(b, 0)
			}
			b = binary.LittleEndian.AppendUint64(b, v)
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	return b
}

func run(t *testing.T, name string, m Memory, blocks, threads uint32, values ...any) error {
	t.Helper()
	k, ok := ByName(name)
	if !ok {
		t.Fatalf("no kernel %s", name)
	}
	l := Launch{Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1}, Args: args(values...)}
	if err := k.Check(l); err != nil {
		t.Fatal(err)
	}
	return k.Body(m, l)
}

func TestSpinResultIsTheIteration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		index := rapid.Uint32().Draw(t, "index")
		n := rapid.Uint64Range(0, 3000).Draw(t, "iterations")
		want := index
		for range n {
			want = want*lcgMul + lcgAdd
		}
		if got := SpinResult(index, n); got != want {
			t.Fatalf("SpinResult(%d, %d) = %d, want %d", index, n, got, want)
		}
	})
}

func TestSpinResultComposes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint32().Draw(t, "x")
		n := rapid.Uint64Range(0, 1<<62).Draw(t, "n")
		m := rapid.Uint64Range(0, 1<<62).Draw(t, "m")
		if SpinResult(SpinResult(x, n), m) != SpinResult(x, n+m) {
			t.Fatalf("%d then %d steps from %d differ from their sum", n, m, x)
		}
	})
}

func TestBodiesAreTheClosedForms(t *testing.T) {
	const base, n = 0x7f0000000000, 300
	m := flat{base, make([]byte, 4*4*n)}
	word := func(array, i int) uint32 { return binary.LittleEndian.Uint32(m.data[4*(array*n+i):]) }
	at := func(array int) uint64 { return base + uint64(4*n*array) }

	if err := run(t, "xm_spin", m, 3, 100, at(0), uint64(1_000_000_007)); err != nil {
		t.Fatal(err)
	}
	if err := run(t, "xm_fill", m, 1, 32, at(1), uint32(0xfffffffe), uint32(n)); err != nil {
		t.Fatal(err)
	}
	if err := run(t, "xm_increment", m, 1, 32, at(1), uint32(n)); err != nil {
		t.Fatal(err)
	}
	if err := run(t, "xm_vector_add", m, 1, 32, at(2), at(0), at(1), uint32(n)); err != nil {
		t.Fatal(err)
	}
	if err := run(t, "xm_copy", m, 1, 32, at(3), at(2), uint64(n)); err != nil {
		t.Fatal(err)
	}
	var sum uint64
	for i := range n {
		want := SpinResult(uint32(i), 1_000_000_007)
		if word(0, i) != want || word(1, i) != 0xffffffff || word(2, i) != want-1 || word(3, i) != want-1 {
			t.Fatalf("word %d is %#x %#x %#x %#x, spin gives %#x", i, word(0, i), word(1, i), word(2, i), word(3, i), want)
		}
		sum += uint64(i+1) * uint64(want-1)
	}
	if got := Checksum(m.data[4*3*n:]); got != sum {
		t.Fatalf("Checksum = %d, want %d", got, sum)
	}
	copy(m.data, make([]byte, 8))
	if err := run(t, "xm_checksum", m, 1, 32, at(0), at(3), uint64(n)); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint64(m.data); got != sum {
		t.Fatalf("xm_checksum wrote %d, want %d", got, sum)
	}
}

func TestBodiesRefuseUnmappedAddresses(t *testing.T) {
	m := flat{0x1000, make([]byte, 64)}
	for name, values := range map[string][]any{
		"xm_spin":       {uint64(0x1004), uint64(1)},
		"xm_vector_add": {uint64(0x1000), uint64(0x1000), uint64(0x2000), uint32(16)},
		"xm_fill":       {uint64(0x1000), uint32(0), uint32(17)},
		"xm_increment":  {uint64(0), uint32(1)},
		"xm_checksum":   {uint64(0x1000), uint64(0x1000), uint64(1) << 62},
		"xm_copy":       {uint64(0x1000), uint64(0x1000), ^uint64(0)},
	} {
		if run(t, name, m, 1, 16, values...) == nil {
			t.Errorf("%s ran outside its memory", name)
		}
	}
	if !errors.Is(run(t, "xm_fill", m, 1, 16, uint64(0x1000), uint32(0), uint32(17)), errUnmapped) {
		t.Error("the memory's error is lost")
	}
}

func TestCostsAreMonotoneAndBounded(t *testing.T) {
	k, _ := ByName("xm_spin")
	rapid.Check(t, func(t *rapid.T) {
		l := Launch{Block: [3]uint32{rapid.Uint32Range(1, 1024).Draw(t, "block"), 1, 1}, Grid: [3]uint32{rapid.Uint32Range(1, 1<<20).Draw(t, "grid"), 1, 1}}
		n := rapid.Uint64().Draw(t, "iterations")
		l.Args = args(uint64(0), n)
		cost := k.Cost(l)
		l.Args = args(uint64(0), n/2)
		if half := k.Cost(l); half > cost || cost > longest || half < 0 {
			t.Fatalf("cost of %d is %v, of half of it %v", n, cost, half)
		}
	})
	l := Launch{Grid: [3]uint32{132, 1, 1}, Block: [3]uint32{128, 1, 1}, Args: args(uint64(0), uint64(1_000_000))}
	if c := k.Cost(l); c < time.Millisecond || c > 10*time.Millisecond {
		t.Errorf("a million iterations cost %v, a real H200 takes some milliseconds", c)
	}
}

func TestPTXDeclaresTheTable(t *testing.T) { declares(t, string(PTX()), ".target sm_70\n", All()) }

// declares reads entries and parameters out of a module's text.
func declares(t *testing.T, text, target string, table []Kernel) {
	t.Helper()
	text = regexp.MustCompile(`//.*`).ReplaceAllString(text, "")
	if !strings.Contains(text, target) {
		t.Errorf("the module is not for %s", target)
	}
	entries := regexp.MustCompile(`\.visible\s+\.entry\s+(\w+)\s*\(([^)]*)\)`).FindAllStringSubmatch(text, -1)
	if len(entries) != len(table) {
		t.Fatalf("%d entries in the text, %d kernels in the table", len(entries), len(table))
	}
	param := regexp.MustCompile(`\.param\s+(?:\.u(32|64)|\.align 8 \.b8)\s+(\w+)(?:\[(\d+)\])?`)
	for i, k := range table {
		if entries[i][1] != k.Name {
			t.Fatalf("entry %d is %s, the table says %s", i, entries[i][1], k.Name)
		}
		found := param.FindAllStringSubmatch(entries[i][2], -1)
		if len(found) != len(k.Params) {
			t.Fatalf("%s has %d parameters in the text, %d in the table", k.Name, len(found), len(k.Params))
		}
		for j, p := range k.Params {
			size, align := map[string]int{"32": 4, "64": 8}[found[j][1]], p.Size
			if found[j][3] != "" { // a structure
				size, _ = strconv.Atoi(found[j][3])
				align = 8
			}
			if found[j][2] != p.Name || size != p.Size || p.Offset%align != 0 {
				t.Errorf("%s parameter %d: text %s of %d bytes, table %+v", k.Name, j, found[j][2], size, p)
			}
		}
	}
}
