package main

import (
	"fmt"
	"testing"
)

// attempts is how often a measurement may be taken until one is quiet.
const attempts = 3

// quietly measures until the times show what they must, and logs why an attempt
// did not. Other work on the machine hides easily what is there, so one attempt
// may be wrong; it seldom feigns what is not, for the ratios are wide. What has
// nothing to do with time fails the test within the attempt.
func quietly(t *testing.T, measure func() error) {
	t.Helper()
	for i := range attempts {
		err := measure()
		if err == nil || t.Failed() {
			return
		}
		t.Logf("attempt %d of %d: %v", i+1, attempts, err)
	}
	t.Errorf("none of %d attempts shows what it must", attempts)
}

// unless is the error of what does not hold.
func unless(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}
