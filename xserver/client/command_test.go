package client

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCommandsAreNamedAsTheyCanBeTyped looks for a program beside this one, in the
// search path and beside the libraries.
func TestCommandsAreNamedAsTheyCanBeTyped(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"bin", "other", "lib", "with blank"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"bin/xserver", "bin/xcli", "other/xserver", "with blank/xserver"} {
		if err := os.WriteFile(filepath.Join(root, f), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(root, name) }
	for _, c := range []struct{ what, search, dir, exe, lib, want string }{
		{"beside", "/nowhere", "/", at("bin/xcli"), "", at("bin/xserver")},
		{"beside, from where it was built", "/nowhere", root, at("bin/xcli"), "", "bin/xserver"},
		{"beside, from its folder", "/nowhere", at("bin"), at("bin/xcli"), "", "./xserver"},
		{"in the path", at("bin"), "/", at("bin/xcli"), "", "xserver"},
		{"another build in the path", at("other"), "/", at("bin/xcli"), "", at("bin/xserver")},
		{"beside the libraries of a program", "/nowhere", "/", "/usr/bin/python3", at("lib"), at("bin/xserver")},
		{"nowhere", "/nowhere", "/", "/usr/bin/python3", "", "xserver"},
		{"a blank", "/nowhere", "/", at("with blank/xcli"), "", "'" + at("with blank/xserver") + "'"},
	} {
		t.Setenv("PATH", c.search)
		t.Chdir(c.dir)
		if have := command("xserver", c.exe, c.lib); have != c.want {
			t.Errorf("%s: %q, want %q", c.what, have, c.want)
		}
	}
}
