package rundir

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xmsched/xserver/client"
)

func fresh(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("", "xm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	return filepath.Join(base, "run")
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestFreshDirectoryIsPrivate(t *testing.T) {
	path := fresh(t)
	d, err := Open(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l, err := d.Listen(client.ControlSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if m := mode(t, path); m != 0o700 {
		t.Errorf("directory has mode %v, want 0700", m)
	}
	if m := mode(t, d.File(client.ControlSocket)); m != 0o600 {
		t.Errorf("socket has mode %v, want 0600", m)
	}
}

func TestSecondIsRefusedWithThePidOfTheFirst(t *testing.T) {
	path := fresh(t)
	d, err := Open(path, false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(path, false)
	var busy *BusyError
	if !errors.As(err, &busy) || busy.PID != os.Getpid() || !strings.Contains(err.Error(), "serves "+path) {
		t.Errorf("%v, want a BusyError of pid %d", err, os.Getpid())
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path, false)
	if err != nil {
		t.Fatalf("after the first ended: %v", err)
	}
	_ = again.Close()
}

// TestCase40StaleFiles starts on what an earlier daemon left.
func TestCase40StaleFiles(t *testing.T) {
	path := fresh(t)
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, client.LockFile), []byte("garbage, and longer than any pid is in this world"), 0o600); err != nil {
		t.Fatal(err)
	}
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(path, client.BoardSocket), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	_ = old.Close()
	d, err := Open(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l, err := d.Listen(client.BoardSocket)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if m := mode(t, path); m&0o066 != 0 {
		t.Errorf("directory has mode %v: others write or read it", m)
	}
}

func TestRefusesWhatIsNotItsDirectory(t *testing.T) {
	path := fresh(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, false); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("a file: %v", err)
	}
	link := path + "-link"
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link, false); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("a symbolic link: %v", err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if _, err := Open(long, false); err == nil || !strings.Contains(err.Error(), "107 bytes") {
		t.Errorf("a long path: %v", err)
	}
}
