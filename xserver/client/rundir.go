package client

import (
	"fmt"
	"os"
	"path/filepath"
)

// Files of a run directory.
const (
	ControlSocket = "xserver.sock" // gRPC
	BoardSocket   = "board.sock"   // boards, by SCM_RIGHTS
	LockFile      = "lock"         // held by the daemon, with its pid in it
	JournalFile   = "journal"      // what the daemon remembers over a restart
	SimSocket     = "sim.sock"     // the simulated device
)

// SystemDir is the run directory of a daemon that runs as root and serves
// everyone.
const SystemDir = "/run/xmsched"

// NoRunDirError says that no run directory can be told.
type NoRunDirError struct{}

func (*NoRunDirError) Error() string {
	return "no run directory: set XMSCHED_DIR, or XDG_RUNTIME_DIR as a login does"
}

// RunDir decides where daemon and clients meet: $XMSCHED_DIR, else
// $XDG_RUNTIME_DIR/xmsched, else /run/xmsched as root. It makes nothing. The
// error is a *NoRunDirError, or says which variable holds no absolute path.
func RunDir() (string, error) {
	return runDir(os.Getenv, os.Geteuid())
}

func runDir(getenv func(string) string, uid int) (string, error) {
	if dir := getenv("XMSCHED_DIR"); dir != "" {
		return absolute("XMSCHED_DIR", dir)
	}
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" {
		return absolute("XDG_RUNTIME_DIR", filepath.Join(dir, "xmsched"))
	}
	if uid == 0 {
		return SystemDir, nil
	}
	return "", &NoRunDirError{}
}

func absolute(variable, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%s=%s: not an absolute path", variable, dir)
	}
	return filepath.Clean(dir), nil
}
