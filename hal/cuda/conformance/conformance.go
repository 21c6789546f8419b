// Package conformance asks a CUDA driver the questions whose answers our code
// relies on, and writes the answers down.
//
// The transcript of a real driver is committed (testdata/h200.txt); the
// simulated device must give the same, but for a list of exceptions with
// reasons (testdata/sim-exceptions.txt). So the lines hold no addresses, no
// times and nothing that differs between two cards of a kind: calls, result
// names, and values that follow from the calls. Nothing here is a benchmark,
// and nothing depends on how fast anything is: where a command must be pending,
// a closed gate holds it.
//
// A case is a process of its own: some questions can only be asked of a fresh
// driver, some leave it broken, and some end the process, which is an answer
// too. Run starts the children as copies of its own program with a variable in
// the environment, and hears them through a pipe.
package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"xmsched/hal/cuda"
)

// The child's side of the protocol: which case, from which question on. Answers
// go to descriptor 3; a line "@n" there says that question n begins.
const (
	caseVariable = "XMSCHED_CONFORMANCE_CASE"
	fromVariable = "XMSCHED_CONFORMANCE_FROM"
	answersFD    = 3
)

// caseLimit is how long a case may take before it counts as hanging. Cases take
// milliseconds, and a driver's start some seconds at worst.
const caseLimit = 30 * time.Second

// Runner runs the suite.
type Runner struct {
	// Command gives the program that, told by its environment, calls Run again.
	// nil: this program with its own arguments.
	Command func(ctx context.Context) *exec.Cmd
	// Only, if not empty, names the cases to run.
	Only []string
}

// Run runs all cases and writes the transcript to w when they are done, also after
// a failure, which cuts short the case that it came in. d is the
// driver of this process, opened and not initialised. Run must be reached again,
// in the same way, by the same program started with the same arguments.
func Run(ctx context.Context, w io.Writer, d *cuda.Driver) error {
	return Runner{}.Run(ctx, w, d)
}

// Run is the package's Run with the runner's settings. With Command set, the
// driver is the children's affair and d may be nil outside of them.
func (r Runner) Run(ctx context.Context, w io.Writer, d *cuda.Driver) error {
	name, child := os.LookupEnv(caseVariable)
	if d == nil && (child || r.Command == nil) {
		return errors.New("conformance: no driver")
	}
	if child {
		return runChild(name, d)
	}
	if r.Command == nil {
		r.Command = func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
		}
	}
	var out strings.Builder
	var failures []error
	for _, c := range cases {
		if len(r.Only) > 0 && !slices.Contains(r.Only, c.name) {
			continue
		}
		fmt.Fprintf(&out, "== %s\n", c.name)
		if err := r.runCase(ctx, c, &out); err != nil {
			failures = append(failures, fmt.Errorf("case %s: %w", c.name, err))
		}
	}
	// Only now: a child opens w's file too when it starts.
	_, err := io.WriteString(w, out.String())
	return errors.Join(append(failures, err)...)
}

// Child says whether this process is a child of a running suite. Its Run answers
// the parent and writes nothing to its writer.
func Child() bool {
	_, child := os.LookupEnv(caseVariable)
	return child
}

// Cases are the names of all cases, in the order of the transcript.
func Cases() []string {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

// runCase runs the questions of a case in one child, and after a question that
// ended it the rest in a new one.
func (r Runner) runCase(ctx context.Context, c testCase, out *strings.Builder) error {
	for from := 0; from < len(c.questions); {
		reached, ended, err := r.runFrom(ctx, c, from, out)
		if err != nil {
			return err
		}
		if ended == "" {
			return nil
		}
		if reached < from {
			return fmt.Errorf("the child came to no question: %s", ended)
		}
		fmt.Fprintf(out, "%s = (%s)\n", c.questions[reached].label, ended)
		from = reached + 1
	}
	return nil
}

// runFrom starts a child and copies its answers. ended is empty when the child
// came to its end, and else says how it died, at question reached.
func (r Runner) runFrom(ctx context.Context, c testCase, from int, out *strings.Builder) (reached int, ended string, err error) {
	ctx, cancel := context.WithTimeout(ctx, caseLimit)
	defer cancel()
	read, write, err := os.Pipe()
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = read.Close() }()
	cmd := r.Command(ctx)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, caseVariable+"="+c.name, fromVariable+"="+strconv.Itoa(from))
	cmd.ExtraFiles = []*os.File{write}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		return 0, "", err
	}
	reached = from - 1
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "@"); ok {
			if reached, err = strconv.Atoi(n); err != nil {
				return 0, "", fmt.Errorf("marker %q: %w", lines.Text(), err)
			}
			continue
		}
		out.WriteString(lines.Text() + "\n")
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return reached, "did not return", nil
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case err == nil && reached == len(c.questions)-1:
		return reached, "", nil
	case err != nil && killedByDriver(stderr.String()):
		return reached, EndsTheProcess, nil
	case err != nil:
		return 0, "", fmt.Errorf("child: %w\n%s", err, stderr.String())
	default:
		return 0, "", errors.New("the child ended without running the case: its program did not call Run")
	}
}

// EndsTheProcess is what the transcript says of a call that the process did not
// survive.
const EndsTheProcess = "ends the process"

// killedByDriver tells a fault in the driver from a failure of the child: the
// runtime names the signal.
func killedByDriver(stderr string) bool {
	for _, signal := range []string{"SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE"} {
		if strings.Contains(stderr, signal) {
			return true
		}
	}
	return false
}

func runChild(name string, d *cuda.Driver) error {
	runtime.LockOSThread() // the current context is the thread's
	defer runtime.UnlockOSThread()
	from, err := strconv.Atoi(os.Getenv(fromVariable))
	if err != nil {
		return fmt.Errorf("%s: %w", fromVariable, err)
	}
	answers := os.NewFile(answersFD, "answers")
	if answers == nil {
		return errors.New("conformance child without its pipe")
	}
	defer func() { _ = answers.Close() }()
	for _, c := range cases {
		if c.name == name {
			t := &transcript{driver: d, out: answers, procs: map[string]cuda.Proc{}}
			for i := from; i < len(c.questions); i++ {
				fmt.Fprintf(answers, "@%d\n", i)
				c.questions[i].ask(t)
			}
			return t.err
		}
	}
	return fmt.Errorf("no case %q", name)
}
