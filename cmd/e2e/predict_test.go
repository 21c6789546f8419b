package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"xmsched/predictor"
	"xmsched/shim/templates"
)

// part starts a program that allocates one buffer and uses the first part of it.
func (w *world) part(name string, mib, touched, passes int, flags ...string) *proc {
	w.t.Helper()
	return w.xrun(append([]string{"--name", name}, flags...), filepath.Join(built, "part"), filepath.Join(built, "kernels.ptx"),
		strconv.Itoa(mib), strconv.Itoa(touched), strconv.Itoa(passes), strconv.Itoa(1000*len(name)))
}

// predictWorld is a world of memory with a store of templates of its own.
func predictWorld(t *testing.T, policy string, store templates.Store) *world {
	t.Helper()
	w, _ := memoryWorld(t, "320MiB", "--policy", "RR", "--memory-policy", policy)
	w.env = append(w.env, templates.Variable+"="+filepath.Dir(store.Path()))
	return w
}

// learnt has a program learn what its kernels touch, of buffers of several sizes.
func learnt(t *testing.T) templates.Store {
	t.Helper()
	store := templates.Open(filepath.Join(t.TempDir(), "templates"))
	w := newWorld(t)
	w.daemon("--sim")
	w.env = append(w.env, "XMSCHED_SIM_HBM=512M", templates.Variable+"="+filepath.Dir(store.Path()))
	for _, touched := range []int{6, 14, 22, 38} {
		w.part("learns", 64, touched, 4, "--learn").right()
	}
	return store
}

// inTurns are two programs of 256 MiB, of which each uses 32, that take turns under a
// budget of 320.
type inTurns struct {
	w     *world
	a, b  *proc
	first uint64 // moved in when both had begun
}

const warmPasses = 20

func bothInTurns(t *testing.T, w *world) *inTurns {
	t.Helper()
	r := &inTurns{w: w, a: w.part("a", 256, 32, 1000000), b: w.part("bb", 256, 32, 1000000)}
	eventually(t, "both to begin", func() bool { return r.passes() >= warmPasses })
	r.first = r.movedIn()
	return r
}

// passes is how many each has made at least.
func (r *inTurns) passes() uint64 { return min(r.a.count.Load(), r.b.count.Load()) }

func (r *inTurns) movedIn() (in uint64) {
	for _, p := range r.w.memory().Processes {
		in += p.In
	}
	return in - r.first
}

func (r *inTurns) right() {
	r.a.enough()
	r.b.enough()
	r.a.right()
	r.b.right()
}

// TestPredictedMemoryAloneIsMoved: of programs that use an eighth of their memory, by
// whole allocations nearly all is moved at each turn; once their kernels are known,
// what both use fits, and next to nothing is.
func TestPredictedMemoryAloneIsMoved(t *testing.T) {
	store := learnt(t)
	known, err := store.Load()
	if err != nil || known.Len() < 2 {
		t.Fatalf("%d kernels were learnt: %v", known.Len(), err)
	}
	const much = 512 << 20
	r := bothInTurns(t, predictWorld(t, "allocation", store))
	var byAllocations uint64
	eventually(t, "much to be moved by allocations", func() bool { byAllocations = r.movedIn(); return byAllocations >= much })
	passes := r.passes()
	r.right()

	r = bothInTurns(t, predictWorld(t, "predict", store))
	eventually(t, "as many passes", func() bool { return r.passes() >= passes })
	byTemplates := r.movedIn()
	r.right()
	t.Logf("moved in: %d MiB by allocations, %d MiB by templates in %d passes of each", byAllocations>>20, byTemplates>>20, passes)
	if 3*byTemplates > byAllocations {
		t.Error("that is more than a third")
	}
}

// TestWrongTemplatesCostTimeAlone has templates that name the wrong memory, with every
// sign of being certain: results are right.
func TestWrongTemplatesCostTimeAlone(t *testing.T) {
	store := learnt(t)
	known, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	text, err := known.Export()
	if err != nil {
		t.Fatal(err)
	}
	wrong := bytes.ReplaceAll(text, []byte(`"bytes":"4*`), []byte(`"start":"134217728","bytes":"1*`))
	wrong = bytes.ReplaceAll(wrong, []byte(`"bytes": "4*`), []byte(`"start": "134217728", "bytes": "1*`))
	if bytes.Equal(wrong, text) {
		t.Fatalf("no template to falsify in %s", text)
	}
	lies, err := predictor.Import(wrong, predictor.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Clear(); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(lies.Encode(0)); err != nil {
		t.Fatal(err)
	}
	r := bothInTurns(t, predictWorld(t, "predict", store))
	eventually(t, "passes", func() bool { return r.passes() >= 2*warmPasses })
	r.right()
}

// TestUnusableTemplatesAreSaidOnce has a store that nobody should believe: programs run,
// and one line says so.
func TestUnusableTemplatesAreSaidOnce(t *testing.T) {
	store := templates.Open(filepath.Join(t.TempDir(), "templates"))
	if err := os.MkdirAll(filepath.Dir(store.Path()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store.Path(), predictor.NewLibrary(predictor.Config{}).Encode(0)[:10], 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.daemon("--sim")
	w.env = append(w.env, "XMSCHED_SIM_HBM=512M", templates.Variable+"="+filepath.Dir(store.Path()))
	p := w.part("learns", 64, 6, 4, "--learn")
	p.right()
	if said := p.said(); strings.Count(said, "ignored "+store.Path()) != 1 {
		t.Errorf("it said %q", said)
	}
	if known, err := store.Load(); err != nil || known.Len() == 0 {
		t.Errorf("%d kernels were kept in its place: %v", known.Len(), err)
	}
}
