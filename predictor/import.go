package predictor

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Import reads what Export writes. Its templates are taken as they are, verified
// as often as they say; as the observations are not there, one that is
// contradicted is learnt anew. The error is a *FormatError.
func Import(data []byte, c Config) (*Library, error) {
	if len(data) > MaxStore {
		return nil, refuse("%d bytes are more than %d", len(data), MaxStore)
	}
	var x Exported
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, refuse("%v", err)
	}
	if x.Format != exportFormat || x.Version != exportVersion {
		return nil, refuse("format %.40q, version %d: not %q, %d", x.Format, x.Version, exportFormat, exportVersion)
	}
	l := NewLibrary(c)
	for i := range x.Kernels {
		m, err := x.Kernels[i].model()
		if err != nil {
			return nil, refuse("kernel %.40q: %v", x.Kernels[i].Name, err)
		}
		if len(l.models) < l.config.Kernels {
			l.models[m.kernel.Key] = m
			l.join(m)
		}
	}
	return l, nil
}

func (k *ExportedKernel) model() (*Model, error) {
	m := &Model{Used: k.Used, score: k.Score}
	if !k.Score.valid() {
		return nil, errors.New("its score cannot be")
	}
	code, err := hex.DecodeString(k.Code)
	if err != nil || len(code) != len(m.kernel.Code) {
		return nil, fmt.Errorf("code %.40q is no 128-bit number", k.Code)
	}
	if len(k.Name) > maxName || len(k.Params) > maxLayout {
		return nil, fmt.Errorf("name of %d bytes, %d parameters: more than %d, %d", len(k.Name), len(k.Params), maxName, maxLayout)
	}
	m.kernel.Name = strings.Clone(k.Name)
	copy(m.kernel.Code[:], code)
	var params []Param
	for _, p := range k.Params {
		params = append(params, Param{p[0], p[1]})
	}
	m.setLayout(params)
	m.stats = Stats{Observations: k.Observations, Verified: k.Verified, Dropped: k.Dropped, Indirect: k.Indirect}
	for i := range k.Variants {
		leaf, err := k.Variants[i].leaf()
		if err != nil {
			return nil, err
		}
		if err := m.graft(k.Variants[i].When, leaf); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (x *ExportedVariant) leaf() (*variant, error) {
	v := &variant{verified: x.Verified, observed: max(x.Observations, 1), whole: true, slots: []slot{}}
	if len(x.Pointers) > maxPointers+maxMaps {
		return nil, fmt.Errorf("%d pointers", len(x.Pointers))
	}
	for i := range x.Pointers {
		s, err := x.Pointers[i].slot()
		if err != nil {
			return nil, err
		}
		if s.at >= mapSlot+maxMaps || i > 0 && v.slots[i-1].last >= s.at {
			return nil, fmt.Errorf("pointer %d is out of order", s.at)
		}
		v.whole = v.whole && !s.in.wide
		v.slots = append(v.slots, s)
	}
	return v, nil
}

func (p *ExportedPointer) slot() (slot, error) {
	s := slot{series: single(p.At)}
	if p.Live != "" {
		var err error
		if s.live, err = parseSource(p.Live); err != nil {
			return s, fmt.Errorf("pointer %d: %w", p.At, err)
		}
		if s.last = p.Last; !s.series.is() || !s.series.valid() {
			return s, fmt.Errorf("pointer %d: no array to %d of %v", p.At, p.Last, s.live)
		}
	}
	for a := Read; a <= Either; a++ {
		if p.Access == a.String() {
			s.in.access = a
		}
	}
	if s.in.access == 0 {
		return s, fmt.Errorf("pointer %d: access %.20q", p.At, p.Access)
	}
	if p.Shape == "allocation" {
		s.in.wide = true
		return s, nil
	}
	s.in.most = p.Shape == "bound"
	for _, part := range []struct {
		to   *expr
		text string
	}{{&s.in.bytes, p.Bytes}, {&s.in.start, p.Start}, {&s.in.stride, p.Stride}, {&s.in.count, p.Count}} {
		if part.text == "" {
			continue
		}
		var err error
		if *part.to, err = parseExpr(part.text); err != nil {
			return s, fmt.Errorf("pointer %d: %w", p.At, err)
		}
	}
	return s, nil
}

// graft puts a variant into the tree where its values say.
func (m *Model) graft(when []ExportedWhen, leaf *variant) error {
	if len(when) > maxTree {
		return fmt.Errorf("variants are told apart by %d values", len(when))
	}
	at := &m.root
	for _, w := range when {
		by, err := parseSource(w.Value)
		if err != nil {
			return err
		}
		if at, err = fork(at, by, w.Is); err != nil {
			return err
		}
	}
	if *at != nil {
		return errors.New("a variant is there twice")
	}
	*at = leaf
	return nil
}

// fork returns where the variants of a value hang, a new place if there is none.
func fork(at **variant, by source, value uint64) (**variant, error) {
	if *at == nil {
		*at = &variant{by: by}
	}
	v := *at
	if len(v.branches) == 0 && v.slots != nil || v.by != by {
		return nil, fmt.Errorf("variants are told apart by %v and by another value", by)
	}
	for i := range v.branches {
		if v.branches[i].value == value {
			return &v.branches[i].to, nil
		}
	}
	if len(v.branches) == maxSamples {
		return nil, fmt.Errorf("more than %d variants", maxSamples)
	}
	v.branches = append(v.branches, branch{value: value})
	return &v.branches[len(v.branches)-1].to, nil
}
