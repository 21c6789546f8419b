package doors

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// built is the folder that everything is built into, by TestMain.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "xmsched-doors-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	code := 1
	if err := build("all", "hosts"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(targets ...string) error {
	args := append([]string{"--no-print-directory", "-j2", "-C", "..", "OUT=" + built}, targets...)
	if out, err := exec.Command("make", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("make %s: %w\n%s", strings.Join(targets, " "), err, out)
	}
	return nil
}

func library() string         { return filepath.Join(built, "libxmsched.so") }
func host(name string) string { return filepath.Join(built, "hosts", name) }

// run describes one run of a host program.
type run struct {
	bare   bool     // without the library
	driver string   // folder of hosts/ that libcuda.so.1 is taken from; "" the fake one, "-" none
	more   string   // further libraries to preload, after ours
	env    []string // further variables
	stdin  string
}

// command returns the host's command; path is a program's path.
func (r run) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + built, "LANG=C", "XMSCHED_LIB=" + host(""), "XMSCHED_DIR=" + built}
	switch r.driver {
	case "":
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+host("fake"))
	case "-":
	default:
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+filepath.Join(built, "hosts", r.driver))
	}
	var preload []string
	if !r.bare {
		preload = append(preload, library())
	}
	if r.more != "" {
		preload = append(preload, r.more)
	}
	if preload != nil {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+strings.Join(preload, ":"))
	}
	cmd.Env = append(cmd.Env, r.env...)
	cmd.Stdin = strings.NewReader(r.stdin)
	return cmd
}

// output runs the host and returns what it wrote; any end but exit 0 fails the
// test.
func (r run) output(t testing.TB, path string, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := r.command(ctx, path, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", filepath.Base(path), args, err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// ask gives host_ask a list of questions and returns its answers, one each.
func (r run) ask(t *testing.T, questions ...string) []string {
	t.Helper()
	r.stdin = strings.Join(questions, "\n") + "\n"
	out, _ := r.output(t, host("host_ask"))
	answers := lines(out)
	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions:\n%s", len(answers), len(questions), out)
	}
	return answers
}

func lines(text string) []string {
	var all []string
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}

// expect compares answers with what they should be, given alternately.
func (r run) expect(t *testing.T, pairs ...string) {
	t.Helper()
	var questions []string
	for i := 0; i < len(pairs); i += 2 {
		questions = append(questions, pairs[i])
	}
	for i, answer := range r.ask(t, questions...) {
		if answer != pairs[2*i+1] {
			t.Errorf("%q: %q, want %q", questions[i], answer, pairs[2*i+1])
		}
	}
}
