package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	xserverv1 "xmsched/xserver/api/v1"
)

// AbsentError says that no daemon runs in a run directory.
type AbsentError struct {
	Dir string
	Err error
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("no daemon answers in %s; start one with: %s", e.Dir, startLine(e.Dir))
}

func (e *AbsentError) Unwrap() error { return e.Err }

// SilentError says that a daemon is there and did not answer in time.
type SilentError struct {
	Dir     string
	PID     int  // 0: not known
	Stopped bool // by a signal or a debugger
	Err     error
}

func (e *SilentError) Error() string {
	switch {
	case e.PID == 0:
		return fmt.Sprintf("the daemon in %s does not answer: it is stopped or overloaded", e.Dir)
	case e.Stopped:
		return fmt.Sprintf("the daemon in %s (pid %d) is stopped and does not answer; let it run on with: kill -CONT %d", e.Dir, e.PID, e.PID)
	}
	return fmt.Sprintf("the daemon in %s (pid %d) does not answer: it is overloaded or hangs; try again, or replace it with: kill -9 %d; %s",
		e.Dir, e.PID, e.PID, startLine(e.Dir))
}

func (e *SilentError) Unwrap() error { return e.Err }

// StrandedError says that a daemon runs in a run directory and nobody can get at
// it, because its socket was moved, removed or replaced.
type StrandedError struct {
	Dir string
	PID int // 0: not known
	Err error
}

func (e *StrandedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("a daemon runs in %s and its socket %s is gone: end that daemon, then start one with: %s", e.Dir, ControlSocket, startLine(e.Dir))
	}
	return fmt.Sprintf("the daemon in %s (pid %d) runs and its socket %s is gone; replace it with: kill %d; sleep 1; %s",
		e.Dir, e.PID, ControlSocket, e.PID, startLine(e.Dir))
}

func (e *StrandedError) Unwrap() error { return e.Err }

// CrowdedError says that a daemon takes no more connections of this user.
type CrowdedError struct {
	Dir     string
	Message string // the daemon's sentence
}

func (e *CrowdedError) Error() string {
	return fmt.Sprintf("the daemon in %s takes no more connections: %s", e.Dir, e.Message)
}

// startLine is the command that starts a daemon in a directory.
func startLine(dir string) string { return Command("xserver") + " --dir " + Quote(dir) }

// Unreachable says of an error that there is no daemon to ask: none is there, or
// it cannot be got at, now.
func Unreachable(err error) bool {
	var absent *AbsentError
	var silent *SilentError
	var stranded *StrandedError
	var crowded *CrowdedError
	return errors.As(err, &absent) || errors.As(err, &silent) || errors.As(err, &stranded) || errors.As(err, &crowded)
}

// RejectedError says that the daemon refused a value; nothing was changed.
type RejectedError struct {
	Field, Given string
	Allowed      []string
	Message      string // the whole sentence
}

func (e *RejectedError) Error() string { return e.Message }

// RefusedError says that the daemon cannot do that now, or as it was started.
type RefusedError struct {
	Message string // the whole sentence
	Err     error  // as it came over the wire
}

func (e *RefusedError) Error() string { return e.Message }

func (e *RefusedError) Unwrap() error { return e.Err }

// DeniedError says that the caller may not do what it asked for.
type DeniedError struct {
	Message string // the whole sentence
	Err     error  // what the system said; nil: the daemon refused
}

func (e *DeniedError) Error() string { return e.Message }

func (e *DeniedError) Unwrap() error { return e.Err }

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
	case codes.Unavailable, codes.DeadlineExceeded:
		// The connection says that it broke; the directory says why.
		ctx, cancel := context.WithTimeout(context.Background(), wordLimit)
		defer cancel()
		switch why := reach(ctx, dir); {
		case why != nil:
			return why
		case st.Code() == codes.DeadlineExceeded:
			return &SilentError{Dir: dir, Err: err}
		}
		return &AbsentError{Dir: dir, Err: err}
	case codes.FailedPrecondition, codes.ResourceExhausted:
		return &RefusedError{Message: st.Message(), Err: err}
	}
	return err
}
