package doors

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// TestCase06GlibcFloor: the library asks for no symbol version above glibc 2.17,
// and for none of glibc's private ones.
func TestCase06GlibcFloor(t *testing.T) {
	out, err := exec.Command("objdump", "-T", library()).Output()
	if err != nil {
		t.Fatalf("objdump: %v", err)
	}
	found := regexp.MustCompile(`\(?(GLIBC_[A-Z0-9.]+)\)?\s+(\S+)`).FindAllStringSubmatch(string(out), -1)
	if len(found) < 10 {
		t.Fatalf("only %d versioned symbols:\n%s", len(found), out)
	}
	version := regexp.MustCompile(`^GLIBC_(\d+)\.(\d+)`)
	for _, f := range found {
		v := version.FindStringSubmatch(f[1])
		if v == nil {
			t.Errorf("%s is %s", f[2], f[1])
			continue
		}
		major, _ := strconv.Atoi(v[1])
		minor, _ := strconv.Atoi(v[2])
		if major > 2 || minor > 17 {
			t.Errorf("%s needs %s; bind an older version in glibc_floor.h", f[2], f[1])
		}
	}
}

// TestNeedsNoOtherLibrary: what the library pulls in, every process that it is
// preloaded into would pay for.
func TestNeedsNoOtherLibrary(t *testing.T) {
	out, err := exec.Command("objdump", "-p", library()).Output()
	if err != nil {
		t.Fatalf("objdump: %v", err)
	}
	for _, m := range regexp.MustCompile(`NEEDED\s+(\S+)`).FindAllStringSubmatch(string(out), -1) {
		if m[1] != "libc.so.6" {
			t.Errorf("needs %s", m[1])
		}
	}
}
