// Package limit words the refusal of a setting that is out of range: the value
// and what is allowed, as one sentence.
//
// The ranges belong to those who use it. Pure functions; no state.
package limit

import (
	"cmp"
	"fmt"
)

// Check refuses a value outside of low to high, both allowed. NaN is outside.
func Check[T cmp.Ordered](name string, v, low, high T) error {
	if v >= low && v <= high {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v to %v", name, v, low, high)
}

// First gives the first refusal of several, or nil.
func First(errs ...error) error { return cmp.Or(errs...) }
