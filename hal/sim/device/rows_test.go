package device

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
	"unsafe"
)

func rowsEntry(v verb, width uint64, r rows) entry {
	e := entry{Verb: uint32(v), C: width, ArgBytes: rowsBytes}
	copy(e.Args[:], (*[rowsBytes]byte)(unsafe.Pointer(&r))[:])
	return e
}

func TestRowsAreChecked(t *testing.T) {
	const huge = 1 << 63
	for _, c := range []struct {
		name  string
		width uint64
		rows  rows
		ok    bool
	}{
		{"one row", 10, rows{Height: 1, Depth: 1}, true},
		{"rows side by side", 10, rows{5, 1, 10, 0, 10, 0}, true},
		{"layers", 10, rows{5, 3, 16, 80, 10, 50}, true},
		{"the last layer ends with its last row", 10, rows{5, 3, 16, 74, 10, 50}, true},
		{"none", 10, rows{0, 1, 10, 0, 10, 0}, false},
		{"no layer", 10, rows{1, 0, 10, 0, 10, 0}, false},
		{"empty rows", 0, rows{1 << 60, 1, 1, 0, 1, 0}, false},
		{"rows in each other", 10, rows{5, 1, 9, 0, 10, 0}, false},
		{"source rows in each other", 10, rows{5, 1, 10, 0, 9, 0}, false},
		{"layers in each other", 10, rows{5, 2, 10, 49, 10, 50}, false},
		{"an endless layer", 10, rows{huge, 1, huge, 0, 10, 0}, false},
		{"more than an address space", 10, rows{2, 1, huge, 0, 10, 0}, false},
		{"endless layers", 10, rows{1, huge, 10, huge, 10, huge}, false},
		{"a row too wide", largest + 1, rows{Height: 1, Depth: 1}, false},
	} {
		e := rowsEntry(verbCopyRows, c.width, c.rows)
		if err := e.check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	e := rowsEntry(verbFillRows, 4, rows{Height: 2, Depth: 1, DstPitch: 15})
	e.Kind = 4
	if e.check() == nil {
		t.Error("rows of 16 bytes with a pitch of 15 are taken")
	}
	e.Kind = 3
	if e.check() == nil {
		t.Error("elements of 3 bytes are taken")
	}
	e = rowsEntry(verbCopyRows, 10, rows{Height: 1, Depth: 1})
	if e.ArgBytes = rowsBytes - 8; e.check() == nil {
		t.Error("short arguments are taken")
	}
}

func TestRows(t *testing.T) {
	const base = 1 << 20
	data := make([]byte, 4096)
	for i := range data {
		data[i] = byte(i)
	}
	want := bytes.Clone(data)
	s := &space{}
	if r := s.add(&span{base: base, size: 4096, data: data}); r != success {
		t.Fatal(r)
	}
	ch := &channel{ctx: &gpuContext{owner: &client{space: s}}}
	run := func(e entry) error {
		if err := e.check(); err != nil {
			t.Fatal(err)
		}
		return (&command{ch: ch, entry: e}).run()
	}
	e := rowsEntry(verbCopyRows, 5, rows{3, 2, 32, 128, 8, 64})
	e.A, e.B = base+2048, base
	if err := run(e); err != nil {
		t.Fatal(err)
	}
	for z := range 2 {
		for y := range 3 {
			copy(want[2048+128*z+32*y:][:5], want[64*z+8*y:])
		}
	}
	e = rowsEntry(verbFillRows, 3, rows{Height: 2, Depth: 1, DstPitch: 16})
	e.A, e.B, e.Kind = base+1024, 0x1234, 2
	if err := run(e); err != nil {
		t.Fatal(err)
	}
	for y := range 2 {
		for i := range 3 {
			binary.LittleEndian.PutUint16(want[1024+16*y+2*i:], 0x1234)
		}
	}
	if !bytes.Equal(data, want) {
		t.Error("other bytes than the rows'")
	}
	e.A = base + 4096 - 17
	if err := run(e); err == nil {
		t.Error("the second row is beyond the end")
	}
}

// Managed memory is charged where it is at home, for as long as it is there.
func TestManagedMemoryIsChargedAtHome(t *testing.T) {
	c := dial(t, startDevice(t, Config{HBM: 64 << 20}))
	c.begin()
	const at, n = 1 << 30, 10 << 20
	free := func() uint64 {
		r, _ := c.call(request{Op: opMemInfo})
		return r.A
	}
	before := free()
	if r, _ := c.call(request{Op: opManagedAlloc, B: at, C: n}); r.Result != success {
		t.Fatalf("allocate: %d", r.Result)
	}
	if got := free(); got != before {
		t.Errorf("%d bytes are charged at once", before-got)
	}
	if r, _ := c.call(request{Op: opHostEnd, A: at}); r.Result != invalidValue {
		t.Errorf("managed memory ends as host memory: %d", r.Result)
	}
	done := uint64(0)
	for _, step := range []struct {
		kind          uint32
		offset, bytes uint64
		charged       uint64
	}{
		{1, 0, 4 << 20, 4 << 20},
		{1, 1 << 20, 4 << 20, 6 << 20},
		{1, 9 << 20, 1, 8 << 20},
		{0, 0, 2 << 20, 6 << 20},
		{0, 0, n, 0},
		{1, 0, n, 10 << 20},
	} {
		c.submit(entry{Verb: uint32(verbPrefetch), Kind: step.kind, A: at + step.offset, C: step.bytes})
		done++
		c.waitGet(done)
		if got := before - free(); got != step.charged {
			t.Errorf("%d bytes from %d to %d: %d are charged, want %d", step.bytes, step.offset, step.kind, got, step.charged)
		}
	}
	if r, _ := c.call(request{Op: opFree, A: at}); r.Result != success {
		t.Fatalf("free: %d", r.Result)
	}
	if got := free(); got != before {
		t.Errorf("%d bytes are lost", before-got)
	}
}

func TestPrefetchOfOtherMemoryFails(t *testing.T) {
	c := dial(t, startDevice(t, Config{}))
	c.well()
	c.submit(entry{Verb: uint32(verbPrefetch), Kind: 1, A: 0x10000000, C: 16})
	for deadline := time.Now().Add(10 * time.Second); word32(c.mem, offError).Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no error")
		}
	}
}
