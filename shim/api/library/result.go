package library

import (
	"context"
	"errors"
	"fmt"

	"xmsched/compute"
	"xmsched/preempt"
)

// Result is a code of the C interface; as an error it is the result that a
// command's callback returned. Success is no error.
type Result int32

// The codes and their numbers are XSched's up to BadResponse and for Unknown.
const (
	Success      Result = 0
	Hardware     Result = 1
	InvalidValue Result = 2
	NotFound     Result = 3
	NotAllowed   Result = 4
	NotSupported Result = 5
	BadResponse  Result = 6
	Timeout      Result = 100
	Dropped      Result = 101
	Unknown      Result = 999
)

var resultNames = map[Result]string{
	Success: "success", Hardware: "hardware error", InvalidValue: "invalid value", NotFound: "not found",
	NotAllowed: "not allowed", NotSupported: "not supported", BadResponse: "bad response", Timeout: "timeout",
	Dropped: "dropped", Unknown: "unknown error",
}

func (r Result) String() string {
	if name, ok := resultNames[r]; ok {
		return name
	}
	return fmt.Sprintf("result %d", int32(r))
}

func (r Result) Error() string { return r.String() }

// fault is an error with the code that the caller gets.
type fault struct {
	code Result
	text string
}

func (f *fault) Error() string { return f.text }

func refuse(code Result, format string, args ...any) error {
	return &fault{code, fmt.Sprintf(format, args...)}
}

// Code is the result for an error.
func Code(err error) Result {
	var (
		own    *fault
		result Result
	)
	switch {
	case err == nil:
		return Success
	case errors.As(err, &own):
		return own.code
	case errors.As(err, new(*preempt.HardwareError)):
		return Hardware
	case errors.As(err, &result):
		return result
	case errors.As(err, new(*compute.RangeError)), errors.As(err, new(*compute.TextError)), errors.As(err, new(*preempt.ConfigError)),
		errors.As(err, new(*compute.UnknownPolicyError)):
		return InvalidValue
	case errors.Is(err, preempt.ErrNotSupported):
		return NotSupported
	case errors.Is(err, preempt.ErrDropped):
		return Dropped
	case errors.Is(err, preempt.ErrClosed), errors.Is(err, preempt.ErrAttached):
		return NotAllowed
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Unknown
}
