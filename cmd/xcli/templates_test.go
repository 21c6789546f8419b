package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestTemplates runs the commands on a store of the script's own.
func TestTemplates(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Files: []string{filepath.Join("testdata", "templates.txt")},
		Setup: func(env *testscript.Env) error {
			env.Setenv("XMSCHED_TEMPLATES", filepath.Join(env.WorkDir, "templates"))
			return nil
		},
	})
}
