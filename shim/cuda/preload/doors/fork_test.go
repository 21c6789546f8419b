package doors

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// agents runs a host with an agent that keeps a log, and returns the log's
// lines: "pid starttime", one a start of the agent.
func agents(t *testing.T, r run, path string, args ...string) (log []string, stdout string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agents")
	r.env = append(r.env, "FAKE_AGENT_LOG="+file)
	out, stderr := r.output(t, path, args...)
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if stderr != "" {
		t.Logf("stderr: %s", stderr)
	}
	return lines(string(text)), out
}

// pause lets a detached agent start before the process ends, in ms; CI machines
// are shared.
const pause = "1500"

func TestForkMatrix(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		agents int
	}{
		{"never", []string{"address", "cuInit"}, 0},
		{"plain", []string{"init", "work", "sleep", pause}, 1},
		{"twice", []string{"init", "init", "sleep", pause}, 1},
		{"before", []string{"fork", "init", "work", "sleep", pause}, 1},
		{"before, two deep", []string{"fork", "fork", "init", "work", "sleep", pause}, 1},
		{"after", []string{"init", "sleep", pause, "fork", "work", "launch", "1000", "sleep", pause}, 1},
		{"after, child starts again", []string{"init", "sleep", pause, "fork", "init", "work", "sleep", pause}, 1},
		{"after, two deep", []string{"init", "sleep", pause, "fork", "init", "fork", "init", "work", "threads", "2", "100"}, 1},
		{"before and after", []string{"fork", "init", "sleep", pause, "fork", "init", "work"}, 1},
		{"at once after", []string{"init", "fork", "work", "sleep", pause}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			log, out := agents(t, run{}, host("linked_run"), c.args...)
			if c.agents >= 0 && len(log) != c.agents {
				t.Errorf("%d agents, want %d: %v", len(log), c.agents, log)
			}
			if strings.Contains(out, "signal") {
				t.Errorf("a child died: %s", out)
			}
		})
	}
}

// TestCase07ExecStartsAnew: a program that has used CUDA and becomes another one
// has an agent of its own there. Pid and start time stay the same over exec, so
// they do not tell the two apart: the daemon's nonce does.
func TestCase07ExecStartsAnew(t *testing.T) {
	t.Parallel()
	log, out := agents(t, run{}, host("linked_run"), "init", "sleep", pause, "exec", host("linked_run"), "init", "work", "sleep", pause)
	if out != "init\ninit\nwork\n" {
		t.Fatalf("stdout %q", out)
	}
	if len(log) != 2 || log[0] != log[1] {
		t.Errorf("agents %q: want two, of one pid and start time", log)
	}
	// Also in a child that stood aside.
	log, _ = agents(t, run{}, host("linked_run"), "init", "sleep", pause, "fork", "exec", host("linked_run"), "init", "sleep", pause)
	if len(log) != 2 || log[0] == log[1] {
		t.Errorf("agents %q: want two, of two processes", log)
	}
}

func TestPythonMultiprocessing(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	for _, method := range []string{"fork", "spawn", "forkserver"} {
		for _, parent := range []string{"cold", "warm"} {
			t.Run(method+" "+parent, func(t *testing.T) {
				_, out := agents(t, run{}, python, "../testdata/workers.py", method, parent)
				if want := "exit codes [0, 0, 0, 0]\n"; !strings.HasSuffix(out, want) {
					t.Errorf("%q, want %q", out, want)
				}
			})
		}
	}
}

// TestAgentBesideMuchStaticTLS: the thread that starts the agent needs a stack in
// which a program's thread-local storage has room.
func TestAgentBesideMuchStaticTLS(t *testing.T) {
	log, _ := agents(t, run{more: host("libtls.so")}, host("linked_run"), "init", "work", "sleep", pause)
	if len(log) != 1 {
		t.Errorf("%d agents, want 1", len(log))
	}
}
