package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestTheLastSaveWaitsForTheOneBefore: the process ends when it returns.
func TestTheLastSaveWaitsForTheOneBefore(t *testing.T) {
	store := templates.Open(filepath.Join(t.TempDir(), "templates"))
	if err := store.Save(predictor.NewLibrary(predictor.Config{}).Encode(0)); err != nil {
		t.Fatal(err)
	}
	k := NewKnowledge(&store, func(err error) { t.Error(err) })
	k.learns("kernel")
	save := func() (saved chan struct{}) {
		saved = make(chan struct{})
		go func() { defer close(saved); k.Save() }()
		return saved
	}
	var first, last chan struct{}
	err := store.Update(func(*predictor.Library) error { // which keeps others from it
		first = save()
		eventually(t, "it to be taken for saving", func() bool {
			k.mu.Lock()
			defer k.mu.Unlock()
			return !k.changed
		})
		last = save()
		select {
		case <-last:
			t.Error("the last one did not wait")
		case <-time.After(20 * time.Millisecond):
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-last
	if saved, err := store.Load(); err != nil || saved.Len() != 1 {
		t.Errorf("%d kernels were saved: %v", saved.Len(), err)
	}
	<-first
}

func (k *Knowledge) isRead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.library != nil
}

// noSamples has none, and notes whether the store had been read when it was asked.
type noSamples struct {
	Samples
	k    *Knowledge
	read chan bool
}

func (s noSamples) Next(time.Duration) (Sample, bool, error) {
	s.read <- s.k.isRead()
	return Sample{}, false, ErrNoSamples
}

// TestNobodyWaitsForTheStore: neither a launch that is looked at, nor the mover, which
// asks the forecast while commands are taken in.
func TestNobodyWaitsForTheStore(t *testing.T) {
	s := noSamples{k: NewKnowledge(nil, func(err error) { t.Error(err) }), read: make(chan bool, 1)}
	a := Start(newHost(t), Config{Dir: rundir(t), Learning: &Learning{Samples: s}, Knowledge: s.k})
	t.Cleanup(a.Close)
	if !<-s.read {
		t.Error("launches are asked for before the store was read")
	}
	p := newProgram(t)
	p.predict(true)
	p.looks()
	if !p.f.forecast.knowledge.isRead() {
		t.Error("commands are recorded before the store was read")
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
