package sheet

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"unicode"
	"unicode/utf8"
)

// Bounds of a sheet's file.
const (
	maxBytes   = 1 << 20
	maxText    = 500
	maxEntries = 64
	maxNumber  = 1e18 // below 2^63, and above a century in microseconds
)

// uuidForm is how CUDA and nvidia-smi print a UUID, of a MIG slice too. It is
// also the file's name, so nothing else may pass.
var uuidForm = regexp.MustCompile(`^(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// CheckUUID refuses what is no device's UUID.
func CheckUUID(uuid string) error {
	if !uuidForm.MatchString(uuid) {
		return fmt.Errorf("%q is no UUID of a device, which looks like GPU-01234567-89ab-cdef-0123-456789abcdef", clip(uuid))
	}
	return nil
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// Check says what is wrong with a sheet, in one line; nil for a sound one.
func (s *Sheet) Check() error {
	if s.Schema != Schema {
		return fmt.Errorf("schema %d: this program knows %d", s.Schema, Schema)
	}
	if err := CheckUUID(s.Device.UUID); err != nil {
		return err
	}
	if s.Driver.Version == "" {
		return errors.New("no driver version")
	}
	if s.Simulated != (s.Driver.Version == SimulatedDriver) {
		return fmt.Errorf("simulated %v, and driver version %q", s.Simulated, clip(s.Driver.Version))
	}
	if p := s.Probe; p != nil && p.Level3 != (p.Why == "") {
		return fmt.Errorf("probe: level 3 %v, and why not: %q", p.Level3, clip(p.Why))
	}
	if s.Measured != nil {
		for i, l := range s.Measured.Levels {
			if l.Level != i+1 || l.Level > 3 {
				return fmt.Errorf("levels: level %d stands at %d", l.Level, i+1)
			}
		}
	}
	return bounded(reflect.ValueOf(*s), "")
}

// bounded walks all fields: numbers are in range, texts short and on one line,
// lists short.
func bounded(v reflect.Value, at string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return bounded(v.Elem(), at)
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return nil
		}
		for i := range v.NumField() {
			if err := bounded(v.Field(i), join(at, jsonName(v.Type().Field(i)))); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if v.Len() > maxEntries {
			return fmt.Errorf("%s: %d entries, at most %d", at, v.Len(), maxEntries)
		}
		for i := range v.Len() {
			if err := bounded(v.Index(i), at); err != nil {
				return err
			}
		}
	case reflect.String:
		return boundedText(v.String(), at)
	default:
		return boundedNumber(v, at)
	}
	return nil
}

func boundedText(s, at string) error {
	if len(s) > maxText {
		return fmt.Errorf("%s: %d bytes of text, at most %d", at, len(s), maxText)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: no UTF-8", at)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%s: control character %U", at, r)
		}
	}
	return nil
}

func boundedNumber(v reflect.Value, at string) error {
	var n float64
	switch {
	case v.CanFloat():
		n = v.Float()
	case v.CanInt():
		n = float64(v.Int())
	case v.CanUint():
		n = float64(v.Uint())
	default:
		return nil
	}
	if !(n >= 0 && n <= maxNumber) || math.IsNaN(n) {
		return fmt.Errorf("%s: %v is not from 0 to %g", at, n, maxNumber)
	}
	return nil
}
