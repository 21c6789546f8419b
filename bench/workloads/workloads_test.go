package workloads

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSteeringStartsAndEnds(t *testing.T) {
	r, w := io.Pipe()
	st := Steer(t.Context(), r)
	select {
	case <-st.Started:
		t.Fatal("started before it was told to")
	case <-st.Context.Done():
		t.Fatal("ended before its stdin did")
	default:
	}
	for _, line := range []string{"something else\n", "start\n", "start\n"} { // a second start is harmless
		if _, err := io.WriteString(w, line); err != nil {
			t.Fatal(err)
		}
	}
	if !st.wait() {
		t.Error("told to start, and it ends")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	<-st.Context.Done()
}

func TestSteeringEndsWithoutAStart(t *testing.T) {
	if st := Steer(t.Context(), strings.NewReader("")); st.wait() {
		t.Error("started by the end of stdin")
	}
}

// Lines of two speakers' goroutines are never mixed.
func TestSpeakerLines(t *testing.T) {
	var buf bytes.Buffer
	say := NewSpeaker(&buf)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				if err := say.Say(Event{Kind: KindProgress, Count: uint64(i), LatencyUS: make([]float64, 50)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	if len(lines) != 800 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, l := range lines {
		var e Event
		if err := json.Unmarshal([]byte(l), &e); err != nil || e.Kind != KindProgress || len(e.LatencyUS) != 50 {
			t.Fatalf("line %q: %v", l, err)
		}
	}
}

func TestReadyLineCarriesFacts(t *testing.T) {
	var buf bytes.Buffer
	want := Facts{Device: "Test GPU", UUID: "GPU-0", Driver: "CUDA 13.0", Simulated: true}
	if err := NewSpeaker(&buf).Say(Event{Kind: KindReady, Facts: &want}); err != nil {
		t.Fatal(err)
	}
	var e Event
	if err := json.Unmarshal(buf.Bytes(), &e); err != nil || e.Facts == nil || *e.Facts != want {
		t.Errorf("%s came back as %+v, %v", buf.String(), e.Facts, err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	request := Request{Iterations: 1, Kernels: 1, Count: 1}
	if err := request.Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Request{
		{Kernels: 1, Count: 1},
		{Iterations: 1, Count: 1},
		{Iterations: 1, Kernels: 1},
		{Iterations: 1, Kernels: 1, Count: 1, Gap: -1},
		{Iterations: 1, Kernels: 1, Count: 1, Burst: -1},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	for inFlight, good := range map[int]bool{0: false, 1: true, maxInFlight: true, maxInFlight + 1: false} {
		if err := (Background{Iterations: 1, InFlight: inFlight, Group: 1}).Validate(); (err == nil) != good {
			t.Errorf("%d in flight: %v", inFlight, err)
		}
	}
	uuid := "GPU-01234567-89ab-cdef-0123-456789abcdef"
	for c, good := range map[Client]bool{
		{Role: RoleIdle, UUID: uuid}:                                                  true,
		{Role: RoleWatch, UUID: uuid}:                                                 true,
		{Role: RoleToggle, UUID: uuid}:                                                false,
		{Role: RoleToggle, UUID: uuid, Edges: 1}:                                      true,
		{Role: RolePulse, UUID: uuid, Edges: 1}:                                       false,
		{Role: RolePulse, UUID: uuid, Edges: 1, Hold: time.Second, Rest: time.Second}: true,
		{Role: "sleep", UUID: uuid}:                                                   false,
		{Role: RoleIdle, UUID: "GPU-0"}:                                               false,
		{Role: RoleIdle, UUID: uuid + "00"}:                                           false,
	} {
		if err := c.Validate(); (err == nil) != good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestUUIDRoundTrip(t *testing.T) {
	text := "GPU-01234567-89ab-cdef-0123-456789abcdef"
	u, err := parseUUID(text)
	if err != nil || u.String() != text {
		t.Errorf("%s came back as %s, %v", text, u, err)
	}
}

func TestWaitIsNeverShort(t *testing.T) {
	for _, d := range []time.Duration{0, 50 * time.Microsecond, time.Millisecond} {
		begun := time.Now()
		wait(d)
		if took := time.Since(begun); took < d {
			t.Errorf("waited %s, want at least %s", took, d)
		}
	}
}

func TestMonotonicClockIsSharedAndMoves(t *testing.T) {
	a := MonotonicNS()
	time.Sleep(2 * time.Millisecond)
	if d := MonotonicNS() - a; d < int64(2*time.Millisecond) || d > int64(10*time.Second) {
		t.Errorf("2 ms took %d ns", d)
	}
}

func TestScriptsAreWritten(t *testing.T) {
	dir := t.TempDir()
	if err := WriteScripts(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ScriptLLM, ScriptTrain} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the file that is kept", name)
		}
	}
}

func TestSteeringKeepsTheNewestGate(t *testing.T) {
	r, w := io.Pipe()
	st := Steer(t.Context(), r)
	for _, line := range []string{"closed\n", "open\n", "closed\n", "start\n"} {
		if _, err := io.WriteString(w, line); err != nil {
			t.Fatal(err)
		}
	}
	<-st.Started // all lines have been read
	if !st.waitGate(false) {
		t.Error("the newest line says closed")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if st.waitGate(true) {
		t.Error("an older line was kept")
	}
}
