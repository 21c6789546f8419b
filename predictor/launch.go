package predictor

import (
	"encoding/binary"
	"encoding/hex"
)

// MaxParams bounds the parameter bytes of a launch (the driver's limit was 4 KiB
// until CUDA 12.1; records are cut there).
const MaxParams = 4096

// maxName and maxLayout bound what is kept of a kernel's name and parameters.
const (
	maxName   = 4096
	maxLayout = 1024
)

// Hash is a 128-bit hash of code; the zero value is "unknown".
type Hash [16]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Key tells kernels apart from run to run.
type Key struct {
	Name string
	Code Hash
}

// Param is where a parameter lies among the parameter bytes.
type Param struct{ Offset, Bytes uint32 }

// Kernel is what is known of a kernel before it is launched. Without Params every
// word of the parameter bytes may be a value; with them padding is left out.
type Kernel struct {
	Key
	Params []Param
}

// Launch is one launch of a kernel. Params are its parameter bytes, laid out by
// offset; Maps are its tensor maps, in the order they were found: the address
// that each was made for, and the bytes that it spans, 0 if not known.
type Launch struct {
	Grid, Block [3]uint32
	Shared      uint32
	Params      []byte
	Maps        []Range
}

// pointer is a word of a launch that points into an allocation. The slot names
// the word: its offset, or mapSlot plus the number of a tensor map.
type pointer struct {
	slot    uint16
	address uint64
	in      Range
	index   uint16 // its number in an array: the slot is that of the array's first then
}

// mapSlot is where the slots of tensor maps begin.
const mapSlot = MaxParams

// maxPointers bounds the pointers of one launch: what has more (4 KiB of nothing
// but pointers have 512) is known by the first.
const maxPointers = 512

// threads is how many a launch has.
func (l *Launch) threads() uint64 {
	n := uint64(1)
	for i := range 3 {
		n = product(n, uint64(l.Grid[i])*uint64(l.Block[i]))
	}
	return n
}

func (l *Launch) params() []byte { return l.Params[:min(len(l.Params), MaxParams)] }

// wordSet is a set of the 8-byte words of the parameters.
type wordSet [MaxParams / 8 / 64]uint64

func (w *wordSet) has(at int) bool { return w[at/512]>>(at/8%64)&1 != 0 }
func (w *wordSet) add(at int)      { w[at/512] |= 1 << (at / 8 % 64) }

// appendPointers finds the pointers of a launch, in the order of their slots. Words
// of the set are none.
func (l *Launch) appendPointers(dst []pointer, ranges *Ranges, not *wordSet) []pointer {
	p := l.params()
	low, span := ranges.low, ranges.end-ranges.low
	var in Range // the last one's: the next one often points into the same
	for at := 0; len(p) >= 8; at, p = at+8, p[8:] {
		word := binary.LittleEndian.Uint64(p)
		if word-low >= span || not.has(at) {
			continue
		}
		if !in.holds(word) {
			r, ok := ranges.Find(word)
			if !ok {
				continue
			}
			in = r
		}
		dst = append(dst, pointer{slot: uint16(at), address: word, in: in})
	}
	for i := range min(len(l.Maps), maxMaps) {
		if in, ok := ranges.Find(l.Maps[i].Base); ok {
			dst = append(dst, pointer{slot: uint16(mapSlot + i), address: l.Maps[i].Base, in: in})
		}
	}
	return dst
}

// appendScalars adds the words that hold no address, though they hold something:
// two small numbers side by side may look like one in another launch.
func (l *Launch) appendScalars(w *wordSet) {
	p := l.params()
	for at := 0; at+8 <= len(p); at += 8 {
		if word := binary.LittleEndian.Uint64(p[at:]); word != 0 && !mayBeAddress(word) {
			w.add(at)
		}
	}
}

// mayBeAddress says whether a word is where addresses of devices lie, between 2^32 and 2^48:
// the driver makes them the same for the host.
func mayBeAddress(word uint64) bool { return word >= 1<<32 && word < 1<<48 }

// word32 is 4 bytes of the parameters, word64 8; 0 where a launch has no such.
func (l *Launch) word32(at int) uint64 {
	if p := l.Params; at+4 <= len(p) {
		return uint64(binary.LittleEndian.Uint32(p[at:]))
	}
	return 0
}

func (l *Launch) word64(at int) uint64 {
	if p := l.Params; at+8 <= len(p) {
		return binary.LittleEndian.Uint64(p[at:])
	}
	return 0
}

// drop takes a word out.
func (w *wordSet) drop(at int) { w[at/512] &^= 1 << (at / 8 % 64) }

// scalars notes which words of a launch hold no address.
func (m *Model) scalars(l *Launch) {
	l.appendScalars(&m.not)
	m.except()
}

// except leaves out those of arrays: what they hold where there is no element says nothing.
func (m *Model) except() {
	m.root.leaves(func(v *variant) {
		for i := range v.slots {
			if a := &v.slots[i].series; a.is() {
				a.except(&m.not)
			}
		}
	})
}

// maxMaps bounds the tensor maps of a launch.
const maxMaps = 32

// clone copies a launch, so that the caller's buffers may be used again.
func (l *Launch) clone() Launch {
	c := *l
	c.Params = append([]byte(nil), l.params()...)
	c.Maps = append([]Range(nil), l.Maps[:min(len(l.Maps), maxMaps)]...)
	return c
}
