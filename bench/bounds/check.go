package bounds

import (
	"fmt"
	"time"

	"xmsched/bench/rows"
)

// Result of one bound.
type Result int

// What can be said of a bound.
const (
	NotMeasured Result = iota // no real row fits it
	Missed                    // at least one fitting row breaks it
	Reached                   // every fitting row keeps it
)

func (r Result) String() string {
	switch r {
	case Reached:
		return "reached"
	case Missed:
		return "missed"
	}
	return "not measured"
}

// MarshalText lets results be written as words in JSON.
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Verdict is a bound with what the rows say of it.
type Verdict struct {
	Bound  Bound
	Result Result
	// Worst is the row farthest beyond (or nearest to) the limit; nil when not
	// measured.
	Worst *rows.Row
	// Fitting counts the different real rows that were judged, Simulated the
	// fitting ones that were left out because a simulator made them, and Earlier
	// those left out because a later commit was measured as well.
	Fitting, Simulated, Earlier int
}

// Value gives the worst row's metric.
func (v Verdict) Value() (float64, bool) {
	if v.Worst == nil {
		return 0, false
	}
	return v.Worst.Metrics[v.Bound.Metric], true
}

// Check judges every bound by the rows of the commit that was measured last for it:
// those of others say what was, and not what is. A row that is there twice word for word
// (a file named twice) counts once.
func Check(bounds []Bound, measured []rows.Row) ([]Verdict, error) {
	seen := map[string]bool{}
	var unique []rows.Row
	for i, r := range measured {
		line, err := rows.Encode(r)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i+1, err)
		}
		if seen[string(line)] {
			continue
		}
		seen[string(line)] = true
		unique = append(unique, r)
	}
	verdicts := make([]Verdict, 0, len(bounds))
	for _, b := range bounds {
		verdicts = append(verdicts, judge(b, unique))
	}
	return verdicts, nil
}

func judge(b Bound, measured []rows.Row) Verdict {
	v := Verdict{Bound: b}
	commit := latest(b, measured)
	for i := range measured {
		r := &measured[i]
		if !b.fits(r) {
			continue
		}
		if r.Simulated {
			v.Simulated++
			continue
		}
		if r.Commit != commit {
			v.Earlier++
			continue
		}
		v.Fitting++
		result := Missed
		if b.kept(r) {
			result = Reached
		}
		if v.Worst == nil || result < v.Result || (result == v.Result && b.worse(r, v.Worst)) {
			v.Worst, v.Result = r, result
		}
	}
	return v
}

// latest is the commit of the real row of a bound that was measured last.
func latest(b Bound, measured []rows.Row) (commit string) {
	var at time.Time
	for i := range measured {
		if r := &measured[i]; b.fits(r) && !r.Simulated && (commit == "" || r.Time.After(at)) {
			commit, at = r.Commit, r.Time.Time
		}
	}
	return commit
}

// fits says whether the row is a measurement of the bound: its params must
// include all of the bound's, and the metric must be there.
func (b Bound) fits(r *rows.Row) bool {
	if r.Row != b.Row || r.Mode != b.Mode {
		return false
	}
	for name, want := range b.Params {
		got, ok := r.Params[name]
		if !ok || !sameParam(got, want) {
			return false
		}
	}
	_, ok := r.Metrics[b.Metric]
	return ok
}

func sameParam(a, b any) bool {
	x, aNumber := number(a)
	y, bNumber := number(b)
	if aNumber && bNumber {
		return x == y
	}
	return a == b
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	}
	return 0, false
}

func (b Bound) kept(r *rows.Row) bool {
	for _, c := range append([]Condition{b.Condition}, b.Or...) {
		if v, ok := r.Metrics[c.Metric]; ok && c.Op.holds(v, *c.Limit) {
			return true
		}
	}
	return false
}

// worse says whether a is farther than c towards the forbidden side.
func (b Bound) worse(a, c *rows.Row) bool {
	x, y := a.Metrics[b.Metric], c.Metrics[b.Metric]
	switch b.Op {
	case AtLeast, Above:
		return x < y
	case Equal:
		return abs(x-*b.Limit) > abs(y-*b.Limit)
	}
	return x > y
}

func abs(v float64) float64 { return max(v, -v) }
