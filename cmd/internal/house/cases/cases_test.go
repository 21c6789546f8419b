package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListIsComplete(t *testing.T) {
	cases, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 40 {
		t.Errorf("%d cases, want 40", len(cases))
	}
	var owed []string
	for i, c := range cases {
		if n := i + 1; c.Number != string([]byte{byte('0' + n/10), byte('0' + n%10)}) {
			t.Errorf("entry %d has number %s", n, c.Number)
		}
		if c.Milestone == 1 {
			owed = append(owed, c.Number)
		}
	}
	const want = "01 02 03 04 05 06 07 08 10 16 20 31 32 33 34 37 38 39 40"
	if got := strings.Join(owed, " "); got != want {
		t.Errorf("the first milestone answers for %s, want %s", got, want)
	}
}

func TestParseRefusesHalfALine(t *testing.T) {
	for _, bad := range []string{"07", "07 1", "07 one title", "07 1 "} {
		if cases, err := parse(bad); err == nil {
			t.Errorf("parse(%q) = %v, want an error", bad, cases)
		}
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go":       "package a\nfunc TestCase05Names(t *testing.T) {}\n// TestCase06 is only spoken of\nfunc helperCase07() {}\n",
		"b/c/test_doors.c":  "static void case05_next(void) {}\nint main(void) { case05_next(); }\n",
		"b/c/doors.c":       "static void case08(void) {}\n",
		"a/both_test.go":    "package a\nfunc TestCase31And32(t *testing.T) {}\nfunc TestCase40Case31Restart(t *testing.T) {}\n",
		"bin/x_test.go":     "package x\nfunc TestCase01(t *testing.T) {}\n",
		".hidden/x_test.go": "package x\nfunc TestCase02(t *testing.T) {}\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cases, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	if err := find(root, cases); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"05": "a.TestCase05Names b/c.case05_next",
		"31": "a.TestCase31And32 a.TestCase40Case31Restart",
		"40": "a.TestCase40Case31Restart",
	}
	for _, c := range cases {
		if got := strings.Join(c.Tests, " "); got != want[c.Number] {
			t.Errorf("case %s: tests %q, want %q", c.Number, got, want[c.Number])
		}
	}

	var out strings.Builder
	missing, err := run(&out, root)
	if err != nil {
		t.Fatal(err)
	}
	if missing != 19-3 {
		t.Errorf("%d cases miss their test, want 16:\n%s", missing, &out)
	}
	if !strings.Contains(out.String(), "09  later (2 of 6)") {
		t.Errorf("case 09 is not said to come later:\n%s", &out)
	}
}
