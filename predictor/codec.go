package predictor

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
)

// A store is a header of 24 bytes (magic, version, length and checksum of what
// follows) and the models, the last used first, each with its length before it.
// Numbers are varints but in the header, which is little endian.
const (
	magic      = "XMSCHEDT"
	version    = 4 // 1 had no templates of what is touched at most, 2 did not say how far pointers reach, 3 had no arrays and quotients
	headerSize = 8 + 4 + 4 + 8
)

// MaxStore is the size of the largest store that is read or written.
const MaxStore = 64 << 20

// crcTable makes the checksum, against damage. Whoever may write the file may
// write a checksum too: what is read is checked as well, and is only ever a
// prediction.
var crcTable = crc64.MakeTable(crc64.ECMA)

// FormatError says why a store was not read.
type FormatError struct{ Reason string }

func (e *FormatError) Error() string { return "template store: " + e.Reason }

func refuse(format string, args ...any) error {
	return &FormatError{fmt.Sprintf(format, args...)}
}

// Encode writes the library in at most so many bytes, 0 for MaxStore. What was
// used longest ago is left out if it does not fit.
func (l *Library) Encode(limit int) []byte {
	if limit <= 0 || limit > MaxStore {
		limit = MaxStore
	}
	w := writer{make([]byte, headerSize)}
	var one writer
	for _, m := range l.Models() {
		one.b = one.b[:0]
		m.encode(&one)
		if len(w.b)+len(one.b)+binary.MaxVarintLen32 <= limit {
			w.bytes(one.b)
		}
	}
	body := w.b[headerSize:]
	copy(w.b, magic)
	binary.LittleEndian.PutUint32(w.b[8:], version)
	binary.LittleEndian.PutUint32(w.b[12:], uint32(len(body)))
	binary.LittleEndian.PutUint64(w.b[16:], crc64.Checksum(body, crcTable))
	return w.b
}

// Decode reads a library. The error is a *FormatError: the data is no store, is
// damaged, is of another version, or says what no library can. It takes memory in
// proportion to the data.
func Decode(data []byte, c Config) (*Library, error) {
	body, err := unwrap(data)
	if err != nil {
		return nil, err
	}
	l := NewLibrary(c)
	r := reader{b: body}
	for len(r.b) > 0 {
		one := reader{b: r.take(r.count(MaxStore))}
		if r.err != nil {
			return nil, refuse("%v", r.err)
		}
		m, err := decodeModel(&one)
		if err != nil {
			return nil, err
		}
		if l.models[m.kernel.Key] != nil {
			return nil, refuse("kernel %.40q is there twice", m.kernel.Name)
		}
		if len(l.models) < l.config.Kernels {
			l.models[m.kernel.Key] = m
			l.join(m)
		}
	}
	return l, nil
}

func unwrap(data []byte) ([]byte, error) {
	switch {
	case len(data) > MaxStore:
		return nil, refuse("%d bytes are more than %d", len(data), MaxStore)
	case len(data) < headerSize || string(data[:8]) != magic:
		return nil, refuse("this is none")
	}
	body := data[headerSize:]
	if v := binary.LittleEndian.Uint32(data[8:]); v != version {
		return nil, refuse("version %d, not %d", v, version)
	}
	if n := binary.LittleEndian.Uint32(data[12:]); uint64(n) != uint64(len(body)) {
		return nil, refuse("%d bytes where %d were written", len(body), n)
	}
	if crc64.Checksum(body, crcTable) != binary.LittleEndian.Uint64(data[16:]) {
		return nil, refuse("damaged: the checksum is another")
	}
	return body, nil
}

func (m *Model) encode(w *writer) {
	w.bytes([]byte(m.kernel.Name))
	w.b = append(w.b, m.kernel.Code[:]...)
	w.uint(m.Used)
	w.uint(uint64(len(m.kernel.Params)))
	for _, p := range m.kernel.Params {
		w.uint(uint64(p.Offset))
		w.uint(uint64(p.Bytes))
	}
	w.uint(uint64(m.stats.Observations))
	w.uint(uint64(m.stats.Verified))
	w.uint(uint64(m.stats.Ragged))
	w.uint(uint64(m.stats.Dropped))
	w.bool(m.stats.Indirect)
	for _, n := range m.score.numbers() {
		w.uint(*n)
	}
	w.uint(uint64(len(m.samples)))
	number := make(map[*sample]uint64)
	for i, s := range m.samples {
		number[s] = uint64(i)
		s.encode(w)
	}
	m.root.encode(w, number)
}

func decodeModel(r *reader) (*Model, error) {
	m := &Model{}
	m.kernel.Name = string(r.bytes(maxName))
	copy(m.kernel.Code[:], r.take(len(m.kernel.Code)))
	m.Used = r.uint()
	params := make([]Param, r.count(maxLayout))
	for i := range params {
		params[i] = Param{uint32(r.upTo(1<<32 - 1)), uint32(r.upTo(1<<32 - 1))}
	}
	m.setLayout(params)
	m.stats.Observations = uint32(r.upTo(1<<32 - 1))
	m.stats.Verified = uint32(r.upTo(1<<32 - 1))
	m.stats.Ragged = uint32(r.upTo(1<<32 - 1))
	m.stats.Dropped = uint32(r.upTo(1<<32 - 1))
	m.stats.Indirect = r.bool()
	for _, n := range m.score.numbers() {
		*n = r.upTo(1 << 60)
	}
	m.samples = make([]*sample, r.count(maxSamples))
	for i := range m.samples {
		m.samples[i] = decodeSample(r)
		if r.err == nil && !m.samples[i].valid() {
			return nil, refuse("kernel %.40q: observation %d cannot be", m.kernel.Name, i)
		}
	}
	m.root = decodeVariant(r, m.samples, 0)
	if r.err != nil || len(r.b) > 0 {
		return nil, refuse("kernel %.40q: %v", m.kernel.Name, errShort)
	}
	if !m.root.valid() || !m.score.valid() {
		return nil, refuse("kernel %.40q: what it says cannot be", m.kernel.Name)
	}
	for _, s := range m.samples {
		m.scalars(&s.launch)
	}
	for _, s := range m.samples {
		s.sign = m.layout.sign(&s.launch, s.pointers(&m.not))
	}
	m.root.leaves(func(v *variant) {
		v.settle(&m.layout)
		v.pair()
		v.gauge()
	})
	return m, nil
}

// Tags of a variant.
const (
	noVariant = iota
	leafVariant
	splitVariant
)

func (v *variant) encode(w *writer, number map[*sample]uint64) {
	switch {
	case v == nil:
		w.byte(noVariant)
	case v.branches != nil:
		w.byte(splitVariant)
		v.by.encode(w)
		w.uint(uint64(len(v.branches)))
		for _, b := range v.branches {
			w.uint(b.value)
			b.to.encode(w, number)
		}
	default:
		w.byte(leafVariant)
		v.encodeLeaf(w, number)
	}
}

func (v *variant) encodeLeaf(w *writer, number map[*sample]uint64) {
	w.uint(uint64(v.verified))
	w.uint(uint64(v.observed))
	w.bool(v.whole)
	w.bool(v.trusted)
	w.uint(uint64(len(v.samples)))
	for _, s := range v.samples {
		w.uint(number[s])
	}
	w.uint(uint64(len(v.slots)))
	for i := range v.slots {
		s := &v.slots[i]
		w.uint(uint64(s.at))
		w.uint(uint64(s.last - s.at))
		if s.is() {
			s.live.encode(w)
		}
		w.bool(s.vague)
		s.in.encode(w)
		w.uint(uint64(s.near))
		w.uint(uint64(len(s.rivals)))
		for k := range s.rivals {
			s.rivals[k].encode(w)
		}
	}
	v.reaching.encode(w)
}

// maxTree is how deep variants may be told apart in a store.
const maxTree = maxDepth + 2

func decodeVariant(r *reader, samples []*sample, depth int) *variant {
	tag := r.byte()
	if depth > maxTree || tag > splitVariant {
		r.fail()
	}
	if r.err != nil || tag == noVariant {
		return nil
	}
	v := &variant{}
	if tag == leafVariant {
		v.decodeLeaf(r, samples)
		return v
	}
	v.by = decodeSource(r)
	v.branches = make([]branch, r.count(maxSamples))
	for i := range v.branches {
		v.branches[i] = branch{r.uint(), decodeVariant(r, samples, depth+1)}
	}
	return v
}

func (v *variant) decodeLeaf(r *reader, samples []*sample) {
	v.verified = uint32(r.upTo(1<<32 - 1))
	v.observed = uint32(r.upTo(1<<32 - 1))
	v.whole = r.bool()
	v.trusted = r.bool()
	for range r.count(maxSamples) {
		if i := r.uint(); i < uint64(len(samples)) {
			v.samples = append(v.samples, samples[i])
		} else {
			r.fail()
		}
	}
	v.slots = make([]slot, r.count(maxPointers+maxMaps))
	for i := range v.slots {
		s := &v.slots[i]
		s.at = uint16(r.upTo(mapSlot + maxMaps - 1))
		s.last = s.at + uint16(r.upTo(MaxParams))
		if s.is() {
			s.live = decodeSource(r)
		}
		s.vague = r.bool()
		s.in = decodeTemplate(r)
		s.near = int(r.upTo(maxNear))
		s.rivals = make([]template, r.count(maxRivals))
		for k := range s.rivals {
			s.rivals[k] = decodeTemplate(r)
		}
	}
	v.reaching = decodeReaching(r, len(v.slots))
}

// valid checks what a store says: slots in order, and templates that can be.
func (v *variant) valid() bool {
	if v == nil {
		return true
	}
	if v.branches != nil {
		if !v.by.valid() || len(v.branches) == 0 {
			return false
		}
		for i := range v.branches {
			if v.branches[i].to == nil || !v.branches[i].to.valid() {
				return false
			}
		}
		return true
	}
	for i := range v.slots {
		s := &v.slots[i]
		if i > 0 && v.slots[i-1].last >= s.at || !s.series.valid() || !s.in.valid() || s.near > len(s.rivals) {
			return false
		}
		for k := range s.rivals {
			if !s.rivals[k].valid() {
				return false
			}
		}
	}
	return v.reaching.valid()
}
