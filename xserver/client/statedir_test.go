package client

import (
	"errors"
	"testing"
)

func TestStateDir(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		uid  int
		want string // empty: an error
	}{
		{map[string]string{"XMSCHED_STATE": "/a/", "HOME": "/h"}, 0, "/a"},
		{map[string]string{"XDG_STATE_HOME": "/x"}, 0, "/var/lib/xmsched"},
		{map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, 7, "/x/xmsched"},
		{map[string]string{"HOME": "/h"}, 7, "/h/.local/state/xmsched"},
		{map[string]string{"XMSCHED_STATE": "a"}, 7, ""},
		{map[string]string{"XDG_STATE_HOME": "a", "HOME": "/h"}, 7, ""},
		{nil, 7, ""},
	} {
		have, err := stateDir(func(name string) string { return c.env[name] }, c.uid)
		if have != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v as uid %d: %q, %v; want %q", c.env, c.uid, have, err, c.want)
		}
	}
	var none *NoStateDirError
	if _, err := stateDir(func(string) string { return "" }, 7); !errors.As(err, &none) {
		t.Errorf("%v, want a NoStateDirError", err)
	}
}
