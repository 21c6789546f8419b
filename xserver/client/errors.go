package client

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	xserverv1 "xmsched/xserver/api/v1"
)

// AbsentError says that no daemon answers in a run directory.
type AbsentError struct {
	Dir string
	Err error
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("no daemon answers in %s; start one with: xserver --dir %s", e.Dir, e.Dir)
}

func (e *AbsentError) Unwrap() error { return e.Err }

// SilentError says that a daemon is there and did not answer in time.
type SilentError struct {
	Dir string
	Err error
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("the daemon in %s does not answer: it is stopped or overloaded", e.Dir)
}

func (e *SilentError) Unwrap() error { return e.Err }

// RejectedError says that the daemon refused a value; nothing was changed.
type RejectedError struct {
	Field, Given string
	Allowed      []string
	Message      string // the whole sentence
}

func (e *RejectedError) Error() string { return e.Message }

// DeniedError says that the caller may not do what it asked for.
type DeniedError struct{ Message string }

func (e *DeniedError) Error() string { return e.Message }

// Reject makes the error that arrives at a client as a *RejectedError: a
// sentence with the value and what is allowed.
func Reject(code codes.Code, field, given string, allowed []string, sentence string) error {
	st := status.New(code, sentence)
	if d, err := st.WithDetails(&xserverv1.Rejection{Field: field, Given: given, Allowed: allowed}); err == nil {
		st = d
	}
	return st.Err()
}

// Allowed words the values a sentence ends with.
func Allowed(values []string) string {
	switch len(values) {
	case 0:
		return "there is none now"
	case 1:
		return "allowed is " + values[0]
	}
	return "allowed are " + strings.Join(values, ", ")
}

// fromStatus turns what came over the wire into the typed errors above.
func fromStatus(dir string, err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, d := range st.Details() {
		if r, ok := d.(*xserverv1.Rejection); ok {
			return &RejectedError{Field: r.Field, Given: r.Given, Allowed: r.Allowed, Message: st.Message()}
		}
	}
	switch st.Code() {
	case codes.PermissionDenied, codes.Unauthenticated:
		return &DeniedError{Message: st.Message()}
	case codes.Unavailable:
		return &AbsentError{Dir: dir, Err: err}
	case codes.DeadlineExceeded:
		return &SilentError{Dir: dir, Err: err}
	}
	return err
}
