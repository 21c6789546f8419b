package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"xrun": main})
}

// scripts runs testscripts with a library that does nothing in place of ours.
func scripts(t *testing.T, files ...string) {
	lib := t.TempDir()
	out, err := exec.Command("gcc", "-shared", "-x", "c", "/dev/null", "-o", filepath.Join(lib, library)).CombinedOutput()
	if err != nil {
		t.Fatalf("build a library: %v\n%s", err, out)
	}
	for i := range files {
		files[i] = filepath.Join("testdata", files[i])
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XMSCHED_LIB", lib)
			env.Setenv("XMSCHED_DIR", filepath.Join(env.WorkDir, "run"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Geteuid() == 0, nil
		},
	})
}

func TestEnvironment(t *testing.T)  { scripts(t, "environment.txt", "precedence.txt") }
func TestExecution(t *testing.T)    { scripts(t, "execution.txt") }
func TestDaemonAbsent(t *testing.T) { scripts(t, "daemon.txt") }
func TestBadInput(t *testing.T)     { scripts(t, "badinput.txt") }
func TestPrograms(t *testing.T)     { scripts(t, "programs.txt") }

func TestCase06MuslRefused(t *testing.T)        { scripts(t, "case06_musl.txt") }
func TestCase08LevelRefusedByName(t *testing.T) { scripts(t, "case08_level.txt") }

func TestPreloadKeepsTheOthers(t *testing.T) {
	for there, want := range map[string]string{
		"":                           "/l/libxmsched.so",
		"/a.so":                      "/l/libxmsched.so:/a.so",
		"/a.so /b.so":                "/l/libxmsched.so:/a.so:/b.so",
		"/old/libxmsched.so:/a.so":   "/l/libxmsched.so:/a.so",
		"/l/libxmsched.so":           "/l/libxmsched.so",
		"/a.so:/l/libxmsched.so: /b": "/l/libxmsched.so:/a.so:/b",
	} {
		if got := preload("/l/libxmsched.so", there); got != want {
			t.Errorf("%q: %q, want %q", there, got, want)
		}
	}
}
