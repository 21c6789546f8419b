package predictor

import (
	"encoding/binary"
	"errors"
)

// errShort is what a reader that ran out of bytes, or met a number beyond its
// bound, ends with.
var errShort = errors.New("the data ends too soon or counts more than it holds")

// writer appends to bytes.
type writer struct{ b []byte }

func (w *writer) uint(v uint64)  { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)    { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) byte(v byte)    { w.b = append(w.b, v) }
func (w *writer) bytes(p []byte) { w.uint(uint64(len(p))); w.b = append(w.b, p...) }

func (w *writer) bool(v bool) {
	if v {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

// reader takes from bytes. After the first error it gives zeros, so that callers
// need look only at the end.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() { r.err, r.b = errShort, nil }

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// upTo reads a number that is most at most.
func (r *reader) upTo(most uint64) uint64 {
	v := r.uint()
	if v > most {
		r.fail()
		return 0
	}
	return v
}

// count reads how many things follow, each of one byte or more, most at most: so
// nothing is allocated that the data does not pay for.
func (r *reader) count(most int) int {
	return int(r.upTo(uint64(min(most, len(r.b)))))
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bool() bool { return r.byte() == 1 }

// take reads n bytes, which belong to the data.
func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail()
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

// bytes reads a copy of bytes of a length of most at most.
func (r *reader) bytes(most int) []byte {
	return append([]byte(nil), r.take(r.count(most))...)
}
