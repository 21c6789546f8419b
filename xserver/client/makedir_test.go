package client

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMakeRunDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "run")
	mode := func() os.FileMode {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if shared, err := MakeRunDir(dir, false); err != nil || shared || mode() != 0o700 {
		t.Errorf("a new one: shared %v, mode %v, %v", shared, mode(), err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := MakeRunDir(dir, false); err != nil || mode()&0o066 != 0 {
		t.Errorf("one open to all: mode %v, %v", mode(), err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, err := MakeRunDir(dir, false); err == nil || mode() != 0o777 {
		t.Errorf("one that all users share, as /tmp: mode %v, %v", mode(), err)
	}
	if os.Geteuid() != 0 {
		if _, err := MakeRunDir(dir, true); err == nil {
			t.Error("another user than root shares")
		}
		return
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []bool{true, false} { // what was shared stays so
		if shared, err := MakeRunDir(dir, asked); err != nil || !shared || mode() != 0o711 {
			t.Errorf("asked %v: shared %v, mode %v, %v", asked, shared, mode(), err)
		}
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	var foreign *ForeignDirError
	if _, err := MakeRunDir(dir, false); !errors.As(err, &foreign) || foreign.Owner != 65534 {
		t.Errorf("another user's: %v", err)
	}
}
