// Package rows is the form in which every measurement of the project is kept:
// one JSON object a line, the same keys in every row of every issue.
//
// A row says what was measured (row, mode, params), on what (device, uuid,
// driver, simulated), by which source (commit, time) and what came out
// (n, metrics). A metric's name ends in its unit, so no number is without one.
//
// Nothing here measures, and nothing here judges: bench/bounds does that.
// No goroutine, no clock.
package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Schema is the version of the form. A reader refuses any other.
const Schema = 1

// Modes in which a row can be measured.
const (
	ModeAlone   = "alone"       // nothing else on the device, without us
	ModeNative  = "native"      // sharing the device without us
	ModeMPS     = "mps"         // sharing by NVIDIA's MPS, the requests at high priority, without us
	ModeXmsched = "xmsched"     // under the daemon
	ModeOverMPS = "xmsched-mps" // under the daemon, as clients of MPS
	ModeDirect  = "direct"      // channels switched by the program itself, without the daemon
	ModeFree    = "free"        // preloaded, no competitor
	ModeBounded = "bounded"     // preloaded, a competitor is registered, Level 1
	ModeGated   = "gated"       // the same at Level 2: a wait in front of every command
	ModeNoCUDA  = "no-cuda"     // preloaded, a program that never uses CUDA
)

// Row is one measurement.
type Row struct {
	Schema    int     `json:"schema"`
	Row       string  `json:"row"`
	Mode      string  `json:"mode"`
	Device    string  `json:"device"`    // the driver's name of the device
	UUID      string  `json:"uuid"`      // "GPU-…"; empty only where no device is used
	Driver    string  `json:"driver"`    // driver and CUDA version
	Simulated bool    `json:"simulated"` // a simulated latency is never evidence for a number
	Commit    string  `json:"commit"`    // of the source that was measured
	Time      Time    `json:"time"`      // RFC 3339, UTC
	N         int     `json:"n"`         // samples behind the metrics
	Params    Params  `json:"params"`
	Metrics   Metrics `json:"metrics"`
}

// Params are what was set; values are numbers, strings or truth values.
type Params map[string]any

// Metrics are what came out. Names end in their unit (see Units), or are one
// ("ratio"); "n" and "identical" (1 or 0) are the two names without one.
type Metrics map[string]float64

// Time is written as RFC 3339 in UTC, whole seconds.
type Time struct{ time.Time }

// MarshalJSON writes the time in UTC.
func (t Time) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.UTC().Format(time.RFC3339))
}

// UnmarshalJSON refuses what is not RFC 3339 in UTC.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("time: %w", err)
	}
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("time: %w", err)
	}
	if _, offset := v.Zone(); offset != 0 {
		return fmt.Errorf("time %q is not UTC", s)
	}
	t.Time = v.UTC()
	return nil
}

// UnmarshalJSON refuses null values, which the standard decoder reads as 0.
func (m *Metrics) UnmarshalJSON(b []byte) error {
	var raw map[string]*float64
	if err := json.Unmarshal(b, &raw); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	out := make(Metrics, len(raw))
	for name, v := range raw {
		if v == nil {
			return fmt.Errorf("metrics: %s is null", name)
		}
		out[name] = *v
	}
	*m = out
	return nil
}

// Units are the endings that a metric's name may have.
func Units() []string {
	return []string{"ns", "us", "ms", "s", "pct", "ratio", "bytes", "gib", "count"}
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

func unitful(metric string) bool {
	switch metric {
	case "n", "identical", "ratio", "launches":
		return true
	}
	i := strings.LastIndexByte(metric, '_')
	return i > 0 && slices.Contains(Units(), metric[i+1:])
}

// Validate says the first thing that is wrong with the row.
func (r *Row) Validate() error {
	switch {
	case r.Schema != Schema:
		return fmt.Errorf("schema is %d, this program knows %d", r.Schema, Schema)
	case !nameForm.MatchString(r.Row):
		return fmt.Errorf("row name %q is not lower-case words", r.Row)
	case !nameForm.MatchString(r.Mode):
		return fmt.Errorf("row %s: mode %q is not lower-case words", r.Row, r.Mode)
	case r.Time.IsZero():
		return fmt.Errorf("row %s: no time", r.Row)
	case r.Commit == "":
		return fmt.Errorf("row %s: no commit", r.Row)
	case r.N < 1:
		return fmt.Errorf("row %s: n is %d, want at least 1 sample", r.Row, r.N)
	case len(r.Metrics) == 0:
		return fmt.Errorf("row %s: no metrics", r.Row)
	}
	for name, v := range r.Params {
		if err := validParam(v); err != nil {
			return fmt.Errorf("row %s: param %s: %w", r.Row, name, err)
		}
	}
	for name, v := range r.Metrics {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("row %s: metric %s is %v", r.Row, name, v)
		}
		if !nameForm.MatchString(name) || !unitful(name) {
			return fmt.Errorf("row %s: metric %q does not end in a unit (%s)", r.Row, name, strings.Join(Units(), ", "))
		}
	}
	return nil
}

func validParam(v any) error {
	switch v := v.(type) {
	case string, bool, int, int64:
		return nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("value is %v", v)
		}
		return nil
	}
	return fmt.Errorf("%T is neither number, string nor truth value", v)
}

// Decode reads one line. It refuses unknown keys, keys given twice, values of
// the wrong kind and whatever Validate refuses.
func Decode(line []byte) (Row, error) {
	var r Row
	if err := noDuplicateKeys(line); err != nil {
		return Row{}, err
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Row{}, fmt.Errorf("decode row: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Row{}, errors.New("decode row: more than one object on the line")
	}
	if err := r.Validate(); err != nil {
		return Row{}, err
	}
	return r, nil
}

// Encode gives the row's line, newline included.
func Encode(r Row) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode row %s: %w", r.Row, err)
	}
	return append(b, '\n'), nil
}

// noDuplicateKeys walks the tokens: encoding/json would silently take the last
// of two equal keys, and a metric given twice has no one value.
func noDuplicateKeys(line []byte) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	return walkValue(dec)
}

func walkValue(dec *json.Decoder) error {
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("decode row: %w", err)
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if delim == '{' {
			key, err := dec.Token()
			if err != nil {
				return fmt.Errorf("decode row: %w", err)
			}
			name, _ := key.(string)
			if seen[name] {
				return fmt.Errorf("decode row: key %q is given twice", name)
			}
			seen[name] = true
		}
		if err := walkValue(dec); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("decode row: %w", err)
	}
	return nil
}
