package predictor

import (
	"encoding/json"
	"fmt"
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
// "strided", "bound", which says what is touched at most, or "allocation", which has
// no expressions. Expressions are a coefficient, values, and what is added: "4*u32[0]*grid.x+512".
type ExportedPointer struct {
	At     uint16 `json:"at"`
	Shape  string `json:"shape"`
	Bytes  string `json:"bytes,omitempty"`
	Start  string `json:"start,omitempty"`
	Stride string `json:"stride,omitempty"`
	Count  string `json:"count,omitempty"`
	Access string `json:"access"`
	// Live says how many elements of the array from At to Last are there, if it is one.
	Last uint16 `json:"last,omitempty"`
	Live string `json:"live,omitempty"`
}

const (
	exportFormat  = "xmsched templates"
	exportVersion = 1
)

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
	if s.is() {
		p.Last, p.Live = s.last, s.live.String()
	}
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
	x := Exported{Format: exportFormat, Version: exportVersion, Kernels: []ExportedKernel{}}
	for _, m := range l.Models() {
		x.Kernels = append(x.Kernels, m.Describe())
	}
	data, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("export templates: %w", err)
	}
	return append(data, '\n'), nil
}
