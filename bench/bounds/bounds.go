// Package bounds holds the numbers that the issues name, one file an issue, and
// says which of them a set of measured rows reaches.
//
// A bound names a row, a mode, params and a metric, and a limit with its
// source. Every row that fits it, of the commit that was measured last, must keep it:
// with several, the worst counts. A simulated row never fits: the simulator's times are no evidence.
// Neither does a row that lacks the metric.
//
// Pure but for reading files; nothing is measured here.
package bounds

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strings"
)

//go:embed *.json
var files embed.FS

// Op compares a measured value with a limit.
type Op string

// The comparisons that a bound can ask for.
const (
	AtMost  Op = "<="
	Below   Op = "<"
	AtLeast Op = ">="
	Equal   Op = "=="
	Above   Op = ">"
)

func (o Op) known() bool { return slices.Contains([]Op{AtMost, Below, AtLeast, Equal, Above}, o) }

func (o Op) holds(value, limit float64) bool {
	switch o {
	case AtMost:
		return value <= limit
	case Below:
		return value < limit
	case AtLeast:
		return value >= limit
	case Equal:
		return value == limit
	case Above:
		return value > limit
	}
	return false
}

// Condition is one comparison.
type Condition struct {
	Metric string   `json:"metric"`
	Op     Op       `json:"op"`
	Limit  *float64 `json:"limit"`
}

func (c Condition) String() string { return fmt.Sprintf("%s %s %v", c.Metric, c.Op, *c.Limit) }

// Bound is one number of an issue. Or lists further conditions of which any one
// is enough ("1 % or 60 ns, whichever is larger").
type Bound struct {
	Row    string         `json:"row"`
	Mode   string         `json:"mode"`
	Params map[string]any `json:"params,omitempty"`
	Condition
	Or     []Condition `json:"or,omitempty"`
	Source string      `json:"source"`
}

// Set is the content of one bounds file.
type Set struct {
	Issue  string  `json:"issue"`
	Bounds []Bound `json:"bounds"`
}

// Embedded gives the sets that were built into the program, by issue.
func Embedded() ([]Set, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("list bounds: %w", err)
	}
	var sets []Set
	for _, e := range entries {
		b, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, fmt.Errorf("read bounds: %w", err)
		}
		set, err := Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		if want := strings.TrimSuffix(path.Base(e.Name()), ".json"); set.Issue != want {
			return nil, fmt.Errorf("%s: issue is %q, want %q", e.Name(), set.Issue, want)
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// Load reads a bounds file.
func Load(name string) (Set, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return Set{}, fmt.Errorf("read bounds: %w", err)
	}
	set, err := Parse(b)
	if err != nil {
		return Set{}, fmt.Errorf("%s: %w", name, err)
	}
	return set, nil
}

// Parse reads and validates one set.
func Parse(b []byte) (Set, error) {
	var s Set
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return Set{}, fmt.Errorf("decode bounds: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Set{}, errors.New("decode bounds: something follows the object")
	}
	if s.Issue == "" || len(s.Bounds) == 0 {
		return Set{}, errors.New("a bounds file needs an issue and at least one bound")
	}
	seen := map[string]bool{}
	for i, bound := range s.Bounds {
		if err := bound.validate(); err != nil {
			return Set{}, fmt.Errorf("bound %d: %w", i+1, err)
		}
		if seen[bound.String()] {
			return Set{}, fmt.Errorf("bound %d: %s is there twice", i+1, bound)
		}
		seen[bound.String()] = true
	}
	return s, nil
}

func (b Bound) validate() error {
	if b.Row == "" || b.Mode == "" || b.Source == "" {
		return errors.New("row, mode and source must not be empty")
	}
	for _, c := range append([]Condition{b.Condition}, b.Or...) {
		switch {
		case c.Metric == "":
			return fmt.Errorf("row %s: no metric", b.Row)
		case !c.Op.known():
			return fmt.Errorf("row %s: op %q is none of <=, <, >=, ==, >", b.Row, c.Op)
		case c.Limit == nil || math.IsNaN(*c.Limit) || math.IsInf(*c.Limit, 0):
			return fmt.Errorf("row %s: metric %s has no limit", b.Row, c.Metric)
		}
	}
	for name, v := range b.Params {
		switch v.(type) {
		case float64, string, bool:
		default:
			return fmt.Errorf("row %s: param %s is neither number, string nor truth value", b.Row, name)
		}
	}
	return nil
}

// String names the bound as a person would: row, mode, params, condition.
func (b Bound) String() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s %s", b.Row, b.Mode)
	keys := make([]string, 0, len(b.Params))
	for k := range b.Params {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&sb, " %s=%v", k, b.Params[k])
	}
	fmt.Fprintf(&sb, ": %s", b.Condition)
	for _, c := range b.Or {
		fmt.Fprintf(&sb, " or %s", c)
	}
	return sb.String()
}
