package predictor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc64"
	"math/rand/v2"
	"testing"
)

// taught are the kernels of learnt, the first used longest ago.
var taught = []struct {
	Kernel
	make maker
}{
	{Kernel{Key: Key{Name: "elementwise"}, Params: []Param{{0, 4}, {4, 4}, {8, 24}}}, elementwise},
	{Kernel{Key: Key{Name: "gemm", Code: Hash{1}}}, gemm},
	{Kernel{Key: Key{Name: "moded", Code: Hash{2}}}, moded},
	{Kernel{Key: Key{Name: "grid only", Code: Hash{3}}}, gridOnly},
}

// learnt is a library that has learnt some kernels.
func learnt(tb testing.TB) (*Library, *world) {
	l := NewLibrary(Config{})
	w := newWorld(1, true)
	r := rand.New(rand.NewPCG(1, 2))
	for i, k := range taught {
		m, mk := l.Kernel(k.Kernel, uint64(i)), k.make
		for range 12 {
			made := mk(w, r)
			m.Observe(&made.launch, &w.ranges, &Observation{Touched: blocks(made.touched), Grain: Block})
		}
	}
	return l, w
}

// same holds two libraries to predicting the same.
func same(t *testing.T, a, b *Library, w *world) {
	t.Helper()
	r := rand.New(rand.NewPCG(9, 9))
	for _, k := range taught {
		for range 20 {
			l := k.make(w, r)
			ta, ba := a.Kernel(k.Kernel, 9).AppendTouches(nil, &l.launch, &w.ranges)
			tb, bb := b.Kernel(k.Kernel, 9).AppendTouches(nil, &l.launch, &w.ranges)
			if ba != bb || ba != Verified || len(ta) != len(tb) {
				t.Fatalf("%s: %v, %v and %v, %v", k.Name, ta, ba, tb, bb)
			}
			for i := range ta {
				if ta[i] != tb[i] {
					t.Fatalf("%s: %v and %v", k.Name, ta[i], tb[i])
				}
			}
		}
	}
}

func TestStore(t *testing.T) {
	l, w := learnt(t)
	data := l.Encode(0)
	again, err := Decode(data, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Encode(0), data) {
		t.Error("what was read is written otherwise")
	}
	same(t, l, again, w)
}

// A launch that was not watched at all, or that touched only what it has no pointer into,
// teaches no template; the store of one that met such launches can be read.
func TestStoreAfterLaunchesThatTellNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	w := newWorld(3, true)
	elsewhere := w.allocate(8 << 20)
	for name, o := range map[string]*Observation{
		"not watched": {Grain: Block, Watched: []Range{}},
		"strays": {Grain: Block, Watched: []Range{elsewhere},
			Touched: []Touch{{Base: elsewhere.Base, Bytes: Block, Count: 1, Access: Read}}},
	} {
		l := NewLibrary(Config{})
		m := l.Kernel(taught[0].Kernel, 1)
		for range 4 {
			made := elementwise(w, r)
			m.Observe(&made.launch, &w.ranges, o)
		}
		if _, err := Decode(l.Encode(0), Config{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStoreIsBounded(t *testing.T) {
	l, _ := learnt(t)
	all := len(l.Encode(0))
	data := l.Encode(all - 1)
	if len(data) >= all {
		t.Fatalf("%d bytes", len(data))
	}
	less, err := Decode(data, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if less.Len() >= l.Len() || less.models[taught[len(taught)-1].Key] == nil {
		t.Errorf("%d models are left, the last used among them?", less.Len())
	}
}

func TestStoreRefuses(t *testing.T) {
	l, _ := learnt(t)
	good := l.Encode(0)
	change := func(f func([]byte) []byte) []byte { return f(bytes.Clone(good)) }
	for name, data := range map[string][]byte{
		"nothing":       nil,
		"something":     []byte("#!/bin/sh\necho no templates here\n"),
		"truncated":     good[:len(good)-1],
		"cut to header": good[:headerSize],
		"longer":        append(bytes.Clone(good), 0),
		"other version": change(func(b []byte) []byte { b[8]++; return b }),
		"damaged":       change(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
		"hostile count": seal([]byte{5, 0xff, 0xff, 0xff, 0xff, 0x0f}),
	} {
		_, err := Decode(data, Config{})
		var format *FormatError
		if !errors.As(err, &format) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// seal gives a body its header.
func seal(body []byte) []byte {
	h := make([]byte, headerSize)
	copy(h, magic)
	binary.LittleEndian.PutUint32(h[8:], version)
	binary.LittleEndian.PutUint32(h[12:], uint32(len(body)))
	binary.LittleEndian.PutUint64(h[16:], crc64.Checksum(body, crcTable))
	return append(h, body...)
}

// FuzzDecode reads hostile stores whose checksum is right: it must neither panic
// nor take memory without bound, and what it accepts must work.
func FuzzDecode(f *testing.F) {
	l, w := learnt(f)
	f.Add(l.Encode(0)[headerSize:])
	f.Add([]byte{})
	f.Add([]byte{1, 0})
	r := rand.New(rand.NewPCG(3, 3))
	probe := gemm(w, r)
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := Decode(seal(body), Config{Kernels: 16})
		if err != nil {
			return
		}
		if len(l.Encode(0)) < headerSize {
			t.Fatal("no header")
		}
		for i, m := range l.Models() {
			if i == 2 {
				break
			}
			m.AppendTouches(nil, &probe.launch, &w.ranges)
			m.Worth(&probe.launch, &w.ranges)
			m.Observe(&probe.launch, &w.ranges, &Observation{Touched: probe.touched, Grain: 1})
		}
	})
}

func TestExport(t *testing.T) {
	l, w := learnt(t)
	text, err := l.Export()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Import(text, Config{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := again.Export()
	if err != nil || !bytes.Equal(second, text) {
		t.Errorf("what was imported is exported otherwise: %v\n%s\n%s", err, text, second)
	}
	same(t, l, again, w)
	for _, bad := range []string{"", "{}", `{"format":"xmsched templates","version":9}`,
		`{"format":"xmsched templates","version":1,"kernels":[{"name":"k","code":"00"}]}`,
		`{"format":"xmsched templates","version":1,"kernels":[{"name":"k","code":"00000000000000000000000000000000","variants":[{"pointers":[{"at":0,"shape":"linear","bytes":"7*u32[3]","access":"read"}]}]}]}`,
	} {
		var format *FormatError
		if _, err := Import([]byte(bad), Config{}); !errors.As(err, &format) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// FuzzImport reads hostile exports: what it accepts must work, and be exported again.
func FuzzImport(f *testing.F) {
	l, w := learnt(f)
	text, err := l.Export()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":"xmsched templates","version":1,"kernels":[{"name":"k","code":"00000000000000000000000000000000","variants":[{"when":[{"value":"u32[0]","is":1}],"pointers":[]}]}]}`))
	probe := gemm(w, rand.New(rand.NewPCG(3, 3)))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Import(text, Config{Kernels: 16})
		if err != nil {
			return
		}
		for _, m := range l.Models() {
			m.AppendTouches(nil, &probe.launch, &w.ranges)
			m.Worth(&probe.launch, &w.ranges)
		}
		again, err := l.Export()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Import(again, Config{}); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if _, err := Decode(l.Encode(0), Config{}); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzParse reads expressions: what is accepted is written the same way again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"4*u32[0]", "1/2*u64[8]*grid.x*block.y+512", "8388608", "2*(u32[4]+1)*up128(u32[8])-16", "rest", "map[0]*shared"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseExpr(text)
		if err != nil {
			return
		}
		again, err := parseExpr(e.String())
		if err != nil || again != e {
			t.Fatalf("%q is %q is %q: %v", text, &e, &again, err)
		}
	})
}

// TestMerge: of one kernel's two models the one that saw more stays, and nothing is
// counted twice.
func TestMerge(t *testing.T) {
	file, w := learnt(t)
	mine, err := Decode(file.Encode(0), Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 5))
	m := mine.Kernel(taught[0].Kernel, 99)
	before := m.Score()
	for range 3 {
		l := elementwise(w, r)
		m.Observe(&l.launch, &w.ranges, &Observation{Touched: blocks(l.touched), Grain: Block})
	}
	if m.Score().Launches != before.Launches+3 || mine.Score.Launches != 3 {
		t.Errorf("%+v, then %+v; in all %+v", before, m.Score(), mine.Score)
	}
	only := mine.Kernel(Kernel{Key: Key{Name: "only mine"}}, 98)
	for range 2 { // it is saved again and again
		again, err := Decode(mine.Encode(0), Config{})
		if err != nil {
			t.Fatal(err)
		}
		file.Merge(again)
	}
	got := file.Kernel(taught[0].Kernel, 1)
	if got.Score() != m.Score() || got.Stats() != m.Stats() {
		t.Errorf("%+v %+v, not %+v %+v", got.Score(), got.Stats(), m.Score(), m.Stats())
	}
	if file.Len() != len(taught)+1 || file.models[only.kernel.Key].Used != 98 {
		t.Errorf("%d models", file.Len())
	}
}

// TestLibraryIsBounded: where it is full, what was used longest ago goes.
func TestLibraryIsBounded(t *testing.T) {
	l := NewLibrary(Config{Kernels: 32})
	for i := range 1000 {
		l.Kernel(Kernel{Key: Key{Name: "k", Code: Hash{byte(i), byte(i >> 8)}}}, uint64(i))
		l.Kernel(Kernel{Key: Key{Name: "always"}}, uint64(i))
	}
	if l.Len() > 32 || l.models[Key{Name: "always"}] == nil {
		t.Errorf("%d models", l.Len())
	}
	a := l.Kernel(Kernel{Key: Key{Name: "always"}, Params: []Param{{0, 8}}}, 1)
	if b := l.Kernel(Kernel{Key: Key{Name: "always"}, Params: []Param{{0, 8}, {8, 4}}}, 1); a == b {
		t.Error("another layout is the same kernel")
	}
}

// TestImportedTemplates: they came without observations. One that agrees leaves them
// as they are, another mode is added, and what is contradicted is learnt anew while
// the rest stays.
func TestImportedTemplates(t *testing.T) {
	l, w := learnt(t)
	text, err := l.Export()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Import(text, Config{})
	if err != nil {
		t.Fatal(err)
	}
	m := again.Kernel(taught[2].Kernel, 1)
	before := len(m.Describe().Variants)
	mode := func(n, mode, bytes uint64) made {
		a, b := w.tensor(8*n), w.tensor(8*n)
		return made{Launch{Grid: dim(256, 1, 1), Block: dim(256, 1, 1), Params: new(args).u32(n, mode).u64(a, b).b}, []Touch{read(a, bytes*n), write(b, 2*bytes*n)}}
	}
	observe := func(l made) Outcome {
		return m.Observe(&l.launch, &w.ranges, &Observation{Touched: blocks(l.touched), Grain: Block})
	}
	if out := observe(mode(5<<20, 0, 4)); !out.Right || out.Basis != Verified || len(m.Describe().Variants) != before {
		t.Fatalf("what agrees: %+v", out)
	}
	for range 2 { // a mode that it did not have
		observe(mode(3<<20, 7, 2))
	}
	if got := len(m.Describe().Variants); got != before+1 {
		t.Fatalf("%d variants, %d before", got, before)
	}
	for n := range uint64(4) { // mode 1 does something else now
		observe(mode((n+3)<<20, 1, 1))
	}
	for _, mode := range []made{mode(9<<20, 0, 4), mode(9<<20, 1, 1)} {
		p, basis := m.AppendTouches(nil, &mode.launch, &w.ranges)
		if s, _ := Compare(p, mode.touched); s.Missed > 0 || s.Vain > 0 || basis < Guessed {
			t.Errorf("%v %+v: %v", basis, s, p)
		}
	}
}
