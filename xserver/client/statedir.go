package client

import (
	"fmt"
	"os"
	"path/filepath"
)

// NoStateDirError says that no state directory can be told.
type NoStateDirError struct{}

func (*NoStateDirError) Error() string {
	return "no state directory: set XMSCHED_STATE, XDG_STATE_HOME or HOME"
}

// StateDir decides where lies what outlasts a boot, such as what was measured of
// the devices: $XMSCHED_STATE, else /var/lib/xmsched as root, else
// $XDG_STATE_HOME/xmsched, else ~/.local/state/xmsched. It makes nothing. The error
// is a *NoStateDirError, or says which variable holds no absolute path.
func StateDir() (string, error) { return stateDir(os.Getenv, os.Geteuid()) }

func stateDir(getenv func(string) string, uid int) (string, error) {
	if dir := getenv("XMSCHED_STATE"); dir != "" {
		return absolute("XMSCHED_STATE", dir)
	}
	if uid == 0 {
		return "/var/lib/xmsched", nil
	}
	if dir := getenv("XDG_STATE_HOME"); dir != "" {
		return absolute("XDG_STATE_HOME", filepath.Join(dir, "xmsched"))
	}
	if dir := getenv("HOME"); dir != "" {
		state, err := absolute("HOME", filepath.Join(dir, ".local", "state", "xmsched"))
		if err != nil {
			return "", fmt.Errorf("state directory: %w", err)
		}
		return state, nil
	}
	return "", &NoStateDirError{}
}
