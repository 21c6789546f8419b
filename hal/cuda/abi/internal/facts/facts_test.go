package facts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommittedFactsSurviveSaveAndLoad(t *testing.T) {
	set, err := Load(os.DirFS("../../facts"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := set.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(set, again); diff != "" {
		t.Error(diff)
	}
	for _, f := range set.files() {
		committed, err := os.ReadFile(filepath.Join("../../facts", f.name))
		if err != nil {
			t.Fatal(err)
		}
		saved, err := os.ReadFile(filepath.Join(dir, f.name))
		if err != nil {
			t.Fatal(err)
		}
		if string(committed) != string(saved) {
			t.Errorf("%s is not in the form that Save writes", f.name)
		}
	}
}

func TestLoadRefusesWhatItDoesNotKnow(t *testing.T) {
	set := &Set{Origin: Origin{Driver: "1.0"}}
	dir := t.TempDir()
	if err := set.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "macros.json"), []byte(`[{"name":"A","value":1,"unit":"s"}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), "macros.json") {
		t.Errorf("an unknown field: %v; want an error that names the file", err)
	}
	if err := os.Remove(filepath.Join(dir, "macros.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(os.DirFS(dir)); err == nil {
		t.Error("a missing file was taken for an empty one")
	}
}
