package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() Record {
	return Record{Version: Version, Policy: "RR", Hints: []Entry{
		{Key: Key{PID: 12, Start: 345, Nonce: 1<<64 - 1}, Hints: map[string]string{"priority": "-7"}},
		{Key: Key{PID: 13, Start: 346, Nonce: 2}, Hints: map[string]string{"priority": "off", "gang": "g", "quantum": "1ms"},
			Settings: &Settings{Level: "auto", Threshold: 3, Batch: 2}, Later: &Settings{Batch: 1}},
	}}
}

func TestWriteThenRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if err := Write(path, sample()); err != nil {
		t.Fatal(err)
	}
	have, err := Read(path)
	if diff := cmp.Diff(sample(), have); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestMissing(t *testing.T) {
	if _, err := Read(filepath.Join(t.TempDir(), "journal")); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrUnusable) {
		t.Errorf("%v, want os.ErrNotExist alone", err)
	}
}

func TestUnusable(t *testing.T) {
	whole := `{"version":2,"policy":"HPF","hints":[{"pid":1,"start":2,"nonce":"3","hints":{"priority":"4"}}]}`
	for name, text := range map[string]string{
		"empty":            "",
		"cut off":          whole[:len(whole)-10],
		"another version":  strings.Replace(whole, `"version":2`, `"version":1`, 1),
		"no version":       `{"policy":"HPF"}`,
		"an unknown field": strings.Replace(whole, `"policy"`, `"polcy"`, 1),
		"a list":           "[]",
		"a huge number":    strings.Replace(whole, `"pid":1`, `"pid":1e300`, 1),
		"too long":         whole + strings.Repeat(" ", maxSize),
		"too many entries": `{"version":2,"hints":[` + strings.Repeat(`{"pid":1},`, maxEntries) + `{"pid":1}]}`,
	} {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Read(path); !errors.Is(err, ErrUnusable) || r.Policy != "" || len(r.Hints) != 0 {
			t.Errorf("%s: %+v, %v, want ErrUnusable and nothing", name, r, err)
		}
	}
	dir := t.TempDir()
	if _, err := Read(dir); !errors.Is(err, ErrUnusable) {
		t.Errorf("a directory: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(link); !errors.Is(err, ErrUnusable) {
		t.Errorf("a symbolic link: %v", err)
	}
}

// FuzzParse holds that whatever lies there is either refused whole or can be
// written again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":2,"policy":"HPF","hints":[{"pid":1,"start":2,"nonce":"3","hints":{"priority":"4"}}]}`))
	f.Add([]byte(`{"version":2}{"version":2}`))
	f.Add([]byte("\x00\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parse(data)
		if err != nil {
			if r.Policy != "" || r.Hints != nil {
				t.Fatalf("refused, and yet %+v", r)
			}
			return
		}
		if r.Version != Version || len(r.Hints) > maxEntries {
			t.Fatalf("accepted %+v", r)
		}
	})
}
