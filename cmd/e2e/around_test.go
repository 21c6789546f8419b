package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entry is a line of xcli report --json.
type entry struct {
	Name      string  `json:"name"`
	RunMS     float64 `json:"run_ms"`
	WaitMS    float64 `json:"wait_ms"`
	Preempted uint64  `json:"preempted"`
	Given     uint64  `json:"preempting"`
	SLOms     float64 `json:"slo_ms"`
	Ended     string  `json:"ended"`
}

func (w *world) report() map[string]entry {
	w.t.Helper()
	out, code := w.run("xcli", "report", "--json")
	if code != 0 {
		w.t.Fatalf("xcli report: exit %d, %s", code, out)
	}
	entries := map[string]entry{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			w.t.Fatalf("%v: %s", err, lines.Text())
		}
		entries[e.Name] = e
	}
	return entries
}

// TestReportTraceAndHTTP has one program stopped for another, and finds that in the
// report, in a trace, and over HTTP.
func TestReportTraceAndHTTP(t *testing.T) {
	w := newWorld(t)
	w.daemon("--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	low := w.spin("low", 0, "--slo", "20ms")
	low.progress()
	high := w.spin("high", 5)
	w.scheduled("low", "high")
	high.progress()
	low.stands()
	file := filepath.Join(filepath.Dir(w.dir), "trace.json")
	if out, code := w.run("xcli", "trace", "-o", file, "--for", "500ms"); code != 0 {
		t.Fatalf("exit %d, %s", code, out)
	}
	events := traced(t, file)
	if !events["low"]["gated"] || !events["high"]["running"] || !events["high"]["request"] {
		t.Errorf("traced %v", events)
	}
	r := w.report()
	if l, h := r["low"], r["high"]; l.Preempted == 0 || h.Given == 0 || l.WaitMS < 400 || h.WaitMS > l.WaitMS || h.RunMS < 400 || l.SLOms != 20 {
		t.Errorf("%+v", r)
	}
	high.end()
	eventually(t, "it to be reported as ended", func() bool { return w.report()["high"].Ended != "" })

	out, code := w.run("xcli", "token", "--json")
	var at struct{ Token, HTTP, Metrics string }
	if err := json.Unmarshal([]byte(out), &at); err != nil || code != 0 {
		t.Fatalf("exit %d, %v, %s", code, err, out)
	}
	for url, word := range map[string]string{"http://" + at.HTTP + "/xqueues": `"cmdline":"low"`, "http://" + at.Metrics + "/metrics": `xmsched_task_preempted_total{name="low"`} {
		if text := get(t, url, at.Token); !strings.Contains(text, word) {
			t.Errorf("%s: no %s in %s", url, word, text)
		}
	}
}

// traced is what a trace file has of each program.
func traced(t *testing.T, file string) map[string]map[string]bool {
	t.Helper()
	var trace struct {
		Events []struct {
			Name string `json:"name"`
			PID  int    `json:"pid"`
			TID  int    `json:"tid"`
			Args struct {
				Name string `json:"name"`
			} `json:"args"`
		} `json:"traceEvents"`
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &trace)
	}
	if err != nil {
		t.Fatal(err)
	}
	type track struct{ pid, tid int }
	names := map[track]string{}
	of := map[string]map[string]bool{}
	for _, e := range trace.Events {
		at := track{e.PID, e.TID}
		if e.Name == "thread_name" {
			fields := strings.Fields(e.Args.Name)
			names[at] = fields[len(fields)-1]
			of[names[at]] = map[string]bool{}
		} else if name := names[at]; name != "" {
			of[name][e.Name] = true
		}
	}
	return of
}

func get(t *testing.T, url, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v, %s", url, resp.Status, err, text)
	}
	return string(text)
}

// TestHTTPElsewhereIsRefused: the daemon does not start.
func TestHTTPElsewhereIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, flag := range []string{"--http", "--metrics"} {
		for _, address := range []string{"0.0.0.0:50000", ":50000", "127.0.0.1"} {
			if out, code := w.run("xserver", flag, address); code != 2 || !strings.Contains(out, "127.0.0.1:PORT") {
				t.Errorf("%s %s: exit %d, %s", flag, address, code, out)
			}
		}
	}
}
