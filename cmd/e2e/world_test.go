package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// world is a run directory with a simulated device, and whoever is in it.
type world struct {
	t   *testing.T
	dir string
	env []string
}

// newWorld makes an empty one: the device comes with the first program and goes
// after the last.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "xmw") // a short path, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, dir: filepath.Join(dir, "run")}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "XMSCHED_") && !strings.HasPrefix(e, "XSCHED_") {
			w.env = append(w.env, e)
		}
	}
	w.env = append(w.env, "XMSCHED_DIR="+w.dir, "XMSCHED_STATE="+filepath.Join(dir, "state"))
	return w
}

// proc is a process of a test.
type proc struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it ended and its output is read

	count atomic.Uint64 // what it printed last
	lines chan string   // what it prints, as far as somebody reads it

	mu     sync.Mutex
	stderr bytes.Buffer // protected by mu
}

func (p *proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

// said is what it wrote to its standard error.
func (p *proc) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// start starts a process in the world; it ends with the test.
func (w *world) start(name string, argv ...string) *proc {
	w.t.Helper()
	p := &proc{t: w.t, name: name, cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{}), lines: make(chan string, 16)}
	p.cmd.Env, p.cmd.Stderr = w.env, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with its children, to end them
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
				p.count.Store(n)
			}
			select {
			case p.lines <- lines.Text():
			default:
			}
		}
		_ = p.cmd.Wait()
	}()
	w.t.Cleanup(func() {
		p.end()
		if w.t.Failed() {
			w.t.Logf("%s said: %s", name, p.said())
		}
	})
	return p
}

// end kills the process and its children and waits for them.
func (p *proc) end() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func bin(name string) string { return filepath.Join(built, "bin", name) }

// daemon starts a daemon and waits until it answers.
func (w *world) daemon(args ...string) *proc {
	w.t.Helper()
	d := w.start("xserver", append([]string{bin("xserver")}, args...)...)
	eventually(w.t, "the daemon to answer", func() bool {
		out, code := w.run("xcli", "status", "--json")
		return code == 0 && strings.Contains(out, `"pid":`+strconv.Itoa(d.cmd.Process.Pid)+",")
	})
	return d
}

// xrun starts a program on the simulated device.
func (w *world) xrun(flags []string, program ...string) *proc {
	w.t.Helper()
	argv := append([]string{bin("xrun"), "--sim"}, flags...)
	return w.start(strings.Join(flags, " "), append(append(argv, "--"), program...)...)
}

// spinner is the command line of a program that launches kernels of about 100 us
// and synchronises after each few.
func spinner(batch int) []string {
	return []string{filepath.Join(built, "spinner"), filepath.Join(built, "kernels.ptx"), "20000", strconv.Itoa(batch)}
}

// spin starts a spinner. On a busy machine it is kept from launching now and then: its
// gaps are not to let others in.
func (w *world) spin(name string, priority int, flags ...string) *proc {
	w.t.Helper()
	given := []string{"--name", name, "--priority", strconv.Itoa(priority), "--idle-after", "100ms"}
	return w.xrun(append(given, flags...), spinner(4)...)
}

// run runs a command to its end and returns its output and exit code.
func (w *world) run(name string, args ...string) (string, int) {
	w.t.Helper()
	cmd := exec.Command(bin(name), args...)
	cmd.Env = w.env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// row is a line of xcli list --json.
type row struct {
	Task     uint64
	PID      int
	UID      uint32
	Name     string
	Priority int
	Launches uint64
	Level    uint32
	Asked    string `json:"asked_level"`
	Mode     string
	State    string
	Why      string

	Threshold uint32
	Batch     uint32
	RunTimeMS float64 `json:"run_time_ms"`

	StoppedMS  float64 `json:"stopped_ms"`
	Holds      uint32
	HoldUS     float64 `json:"hold_us"`
	Preemption []struct {
		Level        uint32
		Taken, Given uint64
	}
}

// list asks xcli for the rows with one of the names; none: all.
func (w *world) list(names ...string) []row {
	w.t.Helper()
	out, _ := w.run("xcli", "list", "--json")
	var rows []row
	for line := range strings.Lines(out) {
		var r row
		if json.Unmarshal([]byte(line), &r) != nil {
			continue
		}
		for _, n := range names {
			if r.Name == n {
				rows = append(rows, r)
			}
		}
		if len(names) == 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

// scheduled waits until processes of these names are registered on a device.
func (w *world) scheduled(names ...string) {
	w.t.Helper()
	for _, n := range names {
		eventually(w.t, n+" to be scheduled", func() bool {
			rows := w.list(n)
			return len(rows) > 0 && rows[0].Task != 0 && rows[0].Mode != ""
		})
	}
}

func eventually(t *testing.T, what string, good func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !good() {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("waited 2 minutes for %s", what)
		}
		time.Sleep(20 * time.Millisecond) // most ask by starting a program
	}
	return time.Since(start)
}

// progress waits until a spinner gets on, and says how long that took.
func (p *proc) progress() time.Duration {
	p.t.Helper()
	before := p.count.Load()
	return eventually(p.t, p.name+" to get on", func() bool {
		select {
		case <-p.ended:
			p.t.Fatalf("%s ended: %s", p.name, p.said())
		default:
		}
		return p.count.Load() > before
	})
}

// stands waits until a spinner gets on no more.
func (p *proc) stands() {
	p.t.Helper()
	eventually(p.t, p.name+" to stand", func() bool {
		before := p.count.Load()
		time.Sleep(300 * time.Millisecond)
		return p.count.Load()-before <= slack
	})
}

// slack is how much a program that should stand may get on in 300 ms: what was
// queued when its gate closed, and what slips into a long gap of the other's
// when the machine is busy. Sharing the device natively it completes about 2,000.
const slack = 200
