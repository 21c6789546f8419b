package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"xmsched/xserver/client"
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
	if err := os.Mkdir(filepath.Join(lib, "sim"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lib, "sim", "libcuda.so.1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Join("testdata", files[i])
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XMSCHED_LIB", lib)
			run := filepath.Join(env.WorkDir, "run")
			env.Setenv("XMSCHED_DIR", run)
			env.Defer(func() { endDevice(t, filepath.Join(run, client.SimSocket)) })
			return nil
		},
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Geteuid() == 0, nil
		},
	})
}

// endDevice ends the simulated device that serves a socket, if there is one: by
// itself it would stay for ten seconds.
func endDevice(t *testing.T, socket string) {
	conn, err := net.Dial("unixpacket", socket)
	if err != nil {
		return
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	if err := raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			_ = unix.Kill(int(peer.Pid), unix.SIGTERM)
		}
	}); err != nil {
		t.Error(err)
	}
}

func TestEnvironment(t *testing.T)     { scripts(t, "environment.txt", "precedence.txt") }
func TestExecution(t *testing.T)       { scripts(t, "execution.txt") }
func TestDaemonAbsent(t *testing.T)    { scripts(t, "daemon.txt") }
func TestBadInput(t *testing.T)        { scripts(t, "badinput.txt") }
func TestPrograms(t *testing.T)        { scripts(t, "programs.txt") }
func TestMemory(t *testing.T)          { scripts(t, "memory.txt") }
func TestSimulatedDevice(t *testing.T) { scripts(t, "sim.txt") }

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
