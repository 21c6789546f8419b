package client

import (
	"errors"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRunDir(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		uid  int
		want string
		fail bool
	}{
		{"said", map[string]string{"XMSCHED_DIR": "/a/b/", "XDG_RUNTIME_DIR": "/run/user/7"}, 7, "/a/b", false},
		{"login", map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}, 7, "/run/user/7/xmsched", false},
		{"root", nil, 0, "/run/xmsched", false},
		{"nothing", nil, 7, "", true},
		{"relative", map[string]string{"XMSCHED_DIR": "here"}, 0, "", true},
		{"relative login", map[string]string{"XDG_RUNTIME_DIR": "."}, 7, "", true},
	} {
		have, err := runDir(func(name string) string { return c.env[name] }, c.uid)
		if have != c.want || (err != nil) != c.fail {
			t.Errorf("%s: %q, %v, want %q", c.name, have, err, c.want)
		}
	}
	var none *NoRunDirError
	if _, err := runDir(func(string) string { return "" }, 7); !errors.As(err, &none) {
		t.Errorf("%v, want a NoRunDirError", err)
	}
}

func TestErrorsOverTheWire(t *testing.T) {
	var rejected *RejectedError
	err := fromStatus("/d", Reject(codes.InvalidArgument, "policy", "X", []string{"A", "B"}, "unknown policy X"))
	if !errors.As(err, &rejected) || rejected.Field != "policy" || rejected.Given != "X" || len(rejected.Allowed) != 2 || err.Error() != "unknown policy X" {
		t.Errorf("%#v", err)
	}
	var denied *DeniedError
	if err := fromStatus("/d", status.Error(codes.PermissionDenied, "no")); !errors.As(err, &denied) || err.Error() != "no" {
		t.Errorf("%#v", err)
	}
	var absent *AbsentError
	if err := fromStatus("/d", status.Error(codes.Unavailable, "gone")); !errors.As(err, &absent) || absent.Dir != "/d" {
		t.Errorf("%#v", err)
	}
	if err := fromStatus("/d", status.Error(codes.FailedPrecondition, "started without")); err.Error() != "started without" || status.Code(err) != codes.FailedPrecondition {
		t.Errorf("refused: %v", err)
	}
	if fromStatus("/d", nil) != nil {
		t.Error("nothing became an error")
	}
}

func TestAllowed(t *testing.T) {
	for want, values := range map[string][]string{
		"there is none now": nil, "allowed is A": {"A"}, "allowed are A, B": {"A", "B"},
	} {
		if have := Allowed(values); have != want {
			t.Errorf("%q, want %q", have, want)
		}
	}
}

func TestSocketOfAnotherUserIsDenied(t *testing.T) {
	err := dialError("/d", &wrongOwnerError{"/d/xserver.sock", 1234})
	var denied *DeniedError
	if !errors.As(err, &denied) || err.Error() != "/d/xserver.sock is served by uid 1234, neither root nor us" {
		t.Errorf("%#v", err)
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	var absent *AbsentError
	if _, err := Dial(t.Context(), dir); !errors.As(err, &absent) {
		t.Errorf("an empty directory: %#v", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, ControlSocket), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := Dial(t.Context(), dir); !errors.As(err, &absent) {
		t.Errorf("a stale socket: %#v", err)
	}
}
