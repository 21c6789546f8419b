package predictor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc64"
	"math/rand/v2"
	"testing"
)

// learnt is a library that has learnt some kernels.
func learnt(tb testing.TB) (*Library, *world) {
	l := NewLibrary(Config{})
	w := newWorld(1, true)
	r := rand.New(rand.NewPCG(1, 2))
	for i, mk := range []maker{elementwise, gemm, gridOnly} {
		m := l.Kernel(Kernel{Key: Key{Name: []string{"elementwise", "gemm", "gridOnly"}[i], Code: Hash{byte(i)}}}, uint64(i))
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
	for i, mk := range []maker{elementwise, gemm, gridOnly} {
		key := Kernel{Key: Key{Name: []string{"elementwise", "gemm", "gridOnly"}[i], Code: Hash{byte(i)}}}
		for range 20 {
			l := mk(w, r)
			ta, ba := a.Kernel(key, 9).AppendTouches(nil, &l.launch, &w.ranges)
			tb, bb := b.Kernel(key, 9).AppendTouches(nil, &l.launch, &w.ranges)
			if ba != bb || ba != Verified || len(ta) != len(tb) {
				t.Fatalf("%s: %v, %v and %v, %v", key.Name, ta, ba, tb, bb)
			}
			for i := range ta {
				if ta[i] != tb[i] {
					t.Fatalf("%s: %v and %v", key.Name, ta[i], tb[i])
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
	if less.Len() != 2 || less.models[Key{Name: "gridOnly", Code: Hash{2}}] == nil {
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
		for _, m := range l.Models() {
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
