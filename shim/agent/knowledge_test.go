package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xmsched/predictor"
	"xmsched/shim/templates"
)

// learns has something learnt of a kernel.
func (k *Knowledge) learns(name string) {
	k.Model(Kernel{Name: name, Layout: true})
	k.Learnt()
}

// TestWhatCouldNotBeSavedIsSavedLater: the disk may have been full, or another process
// stopped in the middle.
func TestWhatCouldNotBeSavedIsSavedLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "templates")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	store := templates.Open(dir)
	var warned []error
	k := NewKnowledge(&store, func(err error) { warned = append(warned, err) })
	k.Use(func(*predictor.Library) {}) // reads the store, which cannot be used
	warned = nil
	k.learns("kernel")
	if k.Save(); len(warned) != 1 || !strings.Contains(warned[0].Error(), "save templates in "+dir) {
		t.Fatalf("warned: %v", warned)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	k.Save()
	if saved, err := store.Load(); err != nil || saved.Len() != 1 || len(warned) != 1 {
		t.Errorf("%d kernels were saved: %v; warned: %v", saved.Len(), err, warned)
	}
	k.Save()
	if _, err := store.Clear(); err != nil {
		t.Fatal(err)
	}
	k.Save()
	if saved, _ := store.Load(); saved.Len() != 0 {
		t.Error("saved again though nothing was learnt")
	}
}

// TestWhoLearnsInVainIsTold: without a home nothing is kept, unless that is what the
// user asked for. Who only foresees is told nothing.
func TestWhoLearnsInVainIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		variable string
		learns   bool
		want     string
	}{
		"no home":               {"", true, "set " + templates.Variable},
		"no home, and foresees": {"", false, ""},
		"off":                   {templates.Off, true, ""},
	} {
		t.Setenv("HOME", "")
		t.Setenv("XDG_STATE_HOME", "")
		t.Setenv(templates.Variable, c.variable)
		h := newHost(t)
		k := UserKnowledge(h)
		k.Model(Kernel{Name: "kernel"})
		if c.learns {
			k.Learnt()
		}
		k.Save()
		k.Save()
		if said := strings.Join(h.warned(), "\n"); c.want == "" && said != "" || !strings.Contains(said, c.want) {
			t.Errorf("%s: said %q", name, said)
		}
	}
}
