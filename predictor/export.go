package predictor

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Exported is a library in a readable form: what the templates say, without the
// observations behind them. It is what `xcli templates export` writes.
type Exported struct {
	Format  string           `json:"format"`
	Version int              `json:"version"`
	Kernels []ExportedKernel `json:"kernels"`
}

// ExportedKernel is a model.
type ExportedKernel struct {
	Name string `json:"name"`
	Code string `json:"code"` // hexadecimal; zeros: not known
	Used uint64 `json:"used"`
	// Params are offset and size of each parameter; none: not known.
	Params       [][2]uint32 `json:"params,omitempty"`
	Observations uint32      `json:"observations"`
	Verified     uint32      `json:"verified"`
	Dropped      uint32      `json:"dropped,omitempty"`
	Indirect     bool        `json:"indirect,omitempty"`
	// Judged launches were predicted by templates that had not been fitted to them;
	// the percentages are of their blocks of 2 MiB, and Score has the counts.
	Judged        uint64            `json:"judged"`
	FalseNegative float64           `json:"false_negative_pct"`
	FalsePositive float64           `json:"false_positive_pct"`
	Score         Score             `json:"score"`
	Variants      []ExportedVariant `json:"variants,omitempty"`
}

// ExportedVariant is one behaviour: that of launches whose values are all as When
// says, in this order.
type ExportedVariant struct {
	When         []ExportedWhen    `json:"when,omitempty"`
	Verified     uint32            `json:"verified"`
	Observations uint32            `json:"observations"`
	Pointers     []ExportedPointer `json:"pointers"`
}

// ExportedWhen is a value that tells variants apart ("u32[16]", "pointer[8]").
type ExportedWhen struct {
	Value string `json:"value"`
	Is    uint64 `json:"is"`
}

// ExportedPointer is the template of one pointer. At is its offset among the
// parameters, or 4096 and more for tensor maps. Shape is "fixed", "linear",
// "strided" or "allocation", which has no expressions. Expressions are a
// coefficient, values, and what is added: "4*u32[0]*grid.x+512".
type ExportedPointer struct {
	At     uint16 `json:"at"`
	Shape  string `json:"shape"`
	Bytes  string `json:"bytes,omitempty"`
	Start  string `json:"start,omitempty"`
	Stride string `json:"stride,omitempty"`
	Count  string `json:"count,omitempty"`
	Access string `json:"access"`
}

const exportFormat = "xmsched templates"

// Describe returns the model in its readable form.
func (m *Model) Describe() ExportedKernel {
	k := ExportedKernel{
		Name: m.kernel.Name, Code: m.kernel.Code.String(), Used: m.Used,
		Observations: m.stats.Observations, Verified: m.stats.Verified,
		Dropped: m.stats.Dropped, Indirect: m.stats.Indirect,
		Judged: m.score.Launches, Score: m.score,
		FalseNegative: m.score.Blocks.FalseNegative(), FalsePositive: m.score.Blocks.FalsePositive(),
	}
	for _, p := range m.kernel.Params {
		k.Params = append(k.Params, [2]uint32{p.Offset, p.Bytes})
	}
	m.root.describe(nil, &k.Variants)
	return k
}

func (v *variant) describe(when []ExportedWhen, out *[]ExportedVariant) {
	if v == nil {
		return
	}
	for _, b := range v.branches {
		b.to.describe(append(when[:len(when):len(when)], ExportedWhen{v.by.String(), b.value}), out)
	}
	if v.branches != nil {
		return
	}
	x := ExportedVariant{When: when, Verified: v.verified, Observations: v.observed, Pointers: []ExportedPointer{}}
	for i := range v.slots {
		x.Pointers = append(x.Pointers, v.slots[i].describe())
	}
	*out = append(*out, x)
}

func (s *slot) describe() ExportedPointer {
	t := &s.in
	p := ExportedPointer{At: s.at, Shape: t.shape(), Access: t.access.String()}
	if t.wide {
		return p
	}
	p.Bytes = t.bytes.String()
	if t.start != (expr{}) {
		p.Start = t.start.String()
	}
	if t.strided() {
		p.Stride, p.Count = t.stride.String(), t.count.String()
	}
	return p
}

// Export writes the library in its readable form.
func (l *Library) Export() ([]byte, error) {
	x := Exported{Format: exportFormat, Version: version, Kernels: []ExportedKernel{}}
	for _, m := range l.Models() {
		x.Kernels = append(x.Kernels, m.Describe())
	}
	data, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("export templates: %w", err)
	}
	return append(data, '\n'), nil
}

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
	if x.Format != exportFormat || x.Version != version {
		return nil, refuse("format %.40q, version %d: not %q, %d", x.Format, x.Version, exportFormat, version)
	}
	l := NewLibrary(c)
	for i := range x.Kernels {
		m, err := x.Kernels[i].model()
		if err != nil {
			return nil, refuse("kernel %.40q: %v", x.Kernels[i].Name, err)
		}
		if len(l.models) < l.config.Kernels {
			m.total = &l.Score
			l.models[m.kernel.Key] = m
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
	v := &variant{verified: x.Verified, observed: max(x.Observations, 1), whole: true}
	if len(x.Pointers) > maxPointers+maxMaps {
		return nil, fmt.Errorf("%d pointers", len(x.Pointers))
	}
	for i := range x.Pointers {
		s, err := x.Pointers[i].slot()
		if err != nil {
			return nil, err
		}
		if s.at >= mapSlot+maxMaps || i > 0 && v.slots[i-1].at >= s.at {
			return nil, fmt.Errorf("pointer %d is out of order", s.at)
		}
		v.whole = v.whole && !s.in.wide
		v.slots = append(v.slots, s)
	}
	return v, nil
}

func (p *ExportedPointer) slot() (slot, error) {
	s := slot{at: p.At}
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
		switch {
		case *at == nil:
			*at = &variant{by: by}
		case (*at).branches == nil || (*at).by != by:
			return fmt.Errorf("variants are told apart by %v and by another value", by)
		}
		v := *at
		next := v.branch(w.Is)
		if next == nil {
			if len(v.branches) == maxSamples {
				return fmt.Errorf("more than %d variants", maxSamples)
			}
			v.branches = append(v.branches, branch{value: w.Is})
			at = &v.branches[len(v.branches)-1].to
			continue
		}
		for i := range v.branches {
			if v.branches[i].value == w.Is {
				at = &v.branches[i].to
			}
		}
	}
	if *at != nil {
		return fmt.Errorf("a variant is there twice")
	}
	*at = leaf
	return nil
}
