package observe

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"xmsched/nvx/bpf"
)

var rewrite = flag.Bool("rewrite", false, "write the expected reports again; only commit what you understand")

const second = time.Second

// sample is a program that has been observed for 10 s: busy and idle, in gaps of
// one length.
func sample(busy, waited time.Duration, gaps uint64, each time.Duration) *Subject {
	s := &Subject{Took: 10 * second}
	s.PID, s.Name, s.Command = 4711, "python", []string{"python", "serve.py", "--model", "a b"}
	s.Seen, s.Before = 9500*time.Millisecond, 500*time.Millisecond
	s.Looked = s.Seen
	s.Calls = []bpf.Call{
		{Function: "cuLaunchKernel", Kind: bpf.KindLaunch, Count: 40000},
		{Function: "cuMemcpyHtoDAsync_v2", Kind: bpf.KindCopy, Count: 1200, Bytes: 3 << 30},
		{Function: "cuGraphLaunch", Kind: bpf.KindLaunch, Count: 95},
		{Function: "cuMemsetD32Async", Kind: bpf.KindFill, Count: 10, Bytes: 4096},
	}
	s.Commands = 41305
	s.Work.Busy, s.Work.Waited, s.Work.Waits = busy, waited, 300
	s.Work.Longest, s.Work.InLongest, s.Work.Command = 48*time.Millisecond, 210, 3100*time.Microsecond
	slot := 0
	for d := each; d > 0; d >>= 1 {
		slot++
	}
	s.Work.Gaps.Number[slot], s.Work.Gaps.Total[slot] = gaps, time.Duration(gaps)*each
	s.Work.Idle = time.Duration(gaps) * each
	s.Work.Unknown = max(0, s.Seen-s.Work.Busy-s.Work.Idle)
	s.Memory = bpf.Memory{Now: 1 << 30, High: 9 << 30, Allocations: 60, Frees: 20}
	s.Cost, s.Hits = 300*time.Millisecond, 41905
	return s
}

// samples are a program of each kind, and what else reports have to say.
func samples() map[string]*Subject {
	all := map[string]*Subject{
		"bursty": sample(6*second, 5*second, 35, 100*time.Millisecond),
		"steady": sample(9400*time.Millisecond, 9*second, 20, 2*time.Millisecond),
		"fine":   sample(7*second, 6*second, 100000, 25*time.Microsecond),
		"idle":   sample(200*time.Millisecond, 150*time.Millisecond, 90, 100*time.Millisecond),
		"silent": {Figures: bpf.Figures{PID: 7, Name: "sleeper\x1b[2J", Before: 10 * second}, Took: 10 * second},
	}
	all["memory only"] = &Subject{Figures: bpf.Figures{PID: 8, Name: "cache", Seen: 10 * second, Looked: 10 * second, Memory: bpf.Memory{Now: -3 << 20, UnknownFrees: 2, Refused: 1, LargestRefused: 1 << 40}}, Took: 10 * second}

	sampled := sample(3*second, second, 10, 10*time.Millisecond)
	sampled.Looked, sampled.Left, sampled.Work.Command, sampled.DeviceBytes, sampled.Devices = 3100*time.Millisecond, true, 40*time.Millisecond, 141<<30, 2
	all["sampled"] = sampled

	ours := sample(8*second, 8*second, 15, 100*time.Millisecond)
	ours.Ours, ours.Gate = true, bpf.Held{Waits: 12, Time: 340 * time.Millisecond, Longest: 50 * time.Millisecond}
	ours.Work.Singles, ours.Work.Single, ours.Work.Busying, ours.DeviceBytes = 3, 4*time.Millisecond, true, 8<<30
	all["under xmsched"] = ours

	polls := sample(9*second, 0, 0, 0)
	polls.Work.Waits, polls.Command, polls.Memory = 0, nil, bpf.Memory{}
	polls.Calls = append(polls.Calls, bpf.Call{Function: "cuEventQuery", Kind: bpf.KindQuery, Count: 70000})
	all["polls"] = polls
	return all
}

func TestReports(t *testing.T) {
	for name, s := range samples() {
		t.Run(name, func(t *testing.T) {
			var text, line bytes.Buffer
			if err := Text(&text, s); err != nil {
				t.Fatal(err)
			}
			if err := JSON(&line, s); err != nil {
				t.Fatal(err)
			}
			if bytes.Count(line.Bytes(), []byte("\n")) != 1 {
				t.Errorf("JSON is not one line: %s", line.String())
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, line.Bytes(), "", " "); err != nil {
				t.Fatal(err)
			}
			got := text.String() + "\n---- JSON\n" + indented.String()
			file := filepath.Join("testdata", name+".txt")
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func TestPatterns(t *testing.T) {
	for name, want := range map[string]Pattern{"bursty": Bursty, "steady": Steady, "fine": Fine, "idle": Idle, "silent": Silent} {
		if got := PatternOf(&samples()[name].Figures); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestLine: who pastes the line gets the same command, whatever its words are.
func TestLine(t *testing.T) {
	s := &Subject{}
	s.Name = "x"
	if got := shell(s.Line()); got != "xrun -- x" {
		t.Errorf("without a command line: %s", got)
	}
	s.Command = []string{"sh", "-c", "echo 'a' $HOME", "", "\x1b[2J"}
	if got, want := shell(s.Line()), `xrun -- sh -c 'echo '\''a'\'' $HOME' '' '?[2J'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRest(t *testing.T) {
	s := &bpf.Snapshot{
		Missing: []bpf.Missing{{Hook: "uprobe.multi", Why: "not supported", Without: "hooks are attached one by one"}},
		Failed:  []string{"/lib/libcuda.so.1 of process 3: it exports none of the driver's functions"}, LostHits: 12,
	}
	want := []string{
		"this kernel lacks uprobe.multi (not supported): hooks are attached one by one",
		"not hooked: /lib/libcuda.so.1 of process 3: it exports none of the driver's functions",
		"calls of processes for which there was no room: 12",
	}
	if got := Rest(s); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Rest(&bpf.Snapshot{}); len(got) != 0 {
		t.Errorf("all is well: %q", got)
	}
}
