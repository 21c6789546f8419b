package preempt

import (
	"errors"
	"fmt"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrClosed says that the XQueue or Scheduler has been closed.
	ErrClosed = errors.New("closed")
	// ErrDropped is the end of a command that was dropped before its launch.
	ErrDropped = errors.New("dropped before its launch")
	// ErrAttached says that the XQueue has another scheduler already.
	ErrAttached = errors.New("has a scheduler already")
	// ErrNotSupported is matched by every *UnsupportedError.
	ErrNotSupported = errors.New("not supported")
)

// UnsupportedError says what cannot be had, and why.
type UnsupportedError struct{ What, Why string }

func (e *UnsupportedError) Error() string { return e.What + " is not supported: " + e.Why }

// Is makes errors.Is(err, ErrNotSupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrNotSupported }

// ConfigError reports a launch configuration outside its limits.
type ConfigError struct {
	Name            string // "threshold" or "batch"
	Value, Min, Max int
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s %d is out of range: %d to %d", e.Name, e.Value, e.Min, e.Max)
}

// HardwareError says that a hardware queue failed. Its XQueue is broken: every
// command in it has ended with this error, and so does every later one.
type HardwareError struct {
	Op  string // what was asked of it
	Err error
}

func (e *HardwareError) Error() string { return fmt.Sprintf("hardware queue: %s: %v", e.Op, e.Err) }

// Unwrap is the hardware queue's own error.
func (e *HardwareError) Unwrap() error { return e.Err }

// PanicError is the end of a command whose function panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in a command: %v", e.Value) }
