package experiment

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"xmsched/bench/workloads"
)

// defaultGrace is how long a child may take to end once it was asked to: a
// background has some 16 kernels queued that it waits for.
const defaultGrace = 5 * time.Second

// maxEventLine bounds a line of a child: a result carries every latency.
const maxEventLine = 64 << 20

// Event is one line that a child said.
type Event struct {
	Kind string
	Raw  json.RawMessage
}

// Into decodes the line.
func (e Event) Into(v any) error {
	if err := json.Unmarshal(e.Raw, v); err != nil {
		return fmt.Errorf("decode %s event: %w", e.Kind, err)
	}
	return nil
}

// Spec says what to start.
type Spec struct {
	Name string // for messages
	Path string
	Args []string
	Env  []string
	// Files are open in the child as descriptors 3 and up.
	Files []*os.File
	// OnEvent, if set, is called for every event, from the reading goroutine,
	// before Await can return it.
	OnEvent func(Event)
}

// ChildError says that a child failed, with what it said last.
type ChildError struct {
	Name   string
	Err    error  // how it ended
	Stderr string // the last lines
}

func (e *ChildError) Error() string {
	s := fmt.Sprintf("%s: %v", e.Name, e.Err)
	if e.Stderr != "" {
		s += ": " + strings.ReplaceAll(e.Stderr, "\n", " | ")
	}
	return s
}

func (e *ChildError) Unwrap() error { return e.Err }

// Child is a running program that speaks JSON lines.
type Child struct {
	spec   Spec
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr tail
	grace  time.Duration // between SIGTERM and SIGKILL

	mu      sync.Mutex // protects the fields below
	events  []Event
	next    int           // first event that Await has not looked at
	changed chan struct{} // closed and replaced at every event

	ended chan struct{} // closed when the process is gone and its output read
	err   error         // how it ended; written before ended is closed
}

// Start starts the program in a process group of its own: a Ctrl-C reaches us
// alone, and we end the children in order.
func Start(spec Spec) (*Child, error) {
	c := &Child{spec: spec, grace: defaultGrace, changed: make(chan struct{}), ended: make(chan struct{})}
	c.cmd = exec.Command(spec.Path, spec.Args...)
	c.cmd.Env = spec.Env
	c.cmd.ExtraFiles = spec.Files
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = defaultGrace // whoever inherited its stderr does not hold us up
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	c.stdin = stdin
	started := make(chan error)
	go c.run(stdout, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return c, nil
}

// run owns the process from start to end, on one OS thread: the parent death
// signal is tied to the thread that forked.
func (c *Child) run(stdout io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	readErr := c.read(stdout)
	err = c.cmd.Wait()
	if err == nil {
		err = readErr
	}
	c.err = err
	close(c.ended)
}

// read takes lines until the end of the stream. Lines that are no JSON object
// with an event (a library's chatter) are kept as if they were on stderr.
func (c *Child) read(r io.Reader) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64*1024), maxEventLine)
	for sc.Scan() {
		line := bytes.Clone(sc.Bytes())
		var head struct {
			Event string `json:"event"`
		}
		if json.Unmarshal(line, &head) != nil || head.Event == "" {
			_, _ = c.stderr.Write(append(line, '\n'))
			continue
		}
		e := Event{Kind: head.Event, Raw: line}
		if c.spec.OnEvent != nil {
			c.spec.OnEvent(e)
		}
		c.mu.Lock()
		c.events = append(c.events, e)
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
	if err := sc.Err(); err != nil {
		_, _ = io.Copy(io.Discard, r) // else the child blocks on a full pipe and never ends
		return fmt.Errorf("read its output: %w", err)
	}
	return nil
}

// Pid of the process.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Begin sends the line that lets a workload begin.
func (c *Child) Begin() error { return c.tell("start") }

// TellGate sends how another program's gate is now.
func (c *Child) TellGate(open bool) error {
	if open {
		return c.tell("open")
	}
	return c.tell("closed")
}

func (c *Child) tell(line string) error {
	if _, err := io.WriteString(c.stdin, line+"\n"); err != nil {
		return c.failed(fmt.Errorf("it does not listen: %w", err))
	}
	return nil
}

// Await gives the next event of the kind, skipping others. It fails when the
// child ends before, or says "error".
func (c *Child) Await(ctx context.Context, kind string) (Event, error) {
	gone := false
	for {
		c.mu.Lock()
		for ; c.next < len(c.events); c.next++ {
			e := c.events[c.next]
			switch e.Kind {
			case kind:
				c.next++
				c.mu.Unlock()
				return e, nil
			case workloads.KindError:
				c.mu.Unlock()
				return Event{}, c.failed(errors.New(describeError(e)))
			}
		}
		changed := c.changed
		c.mu.Unlock()
		if gone {
			return Event{}, c.failed(fmt.Errorf("ended before %q: %w", kind, orEnd(c.err)))
		}
		select {
		case <-changed:
		case <-c.ended:
			gone = true // once more: events may have come with the end
		case <-ctx.Done():
			return Event{}, fmt.Errorf("%s: wait for %q: %w", c.spec.Name, kind, context.Cause(ctx))
		}
	}
}

func describeError(e Event) string {
	var v struct {
		Message, Call string
		Code          int
	}
	if err := e.Into(&v); err != nil || (v.Message == "" && v.Call == "") {
		return string(e.Raw)
	}
	if v.Message != "" {
		return v.Message
	}
	return fmt.Sprintf("%s returned %d", v.Call, v.Code)
}

func orEnd(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}

// Events gives all events so far.
func (c *Child) Events() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Event(nil), c.events...)
}

// Finish closes the child's stdin, waits for its end and gives how it ended.
func (c *Child) Finish(ctx context.Context) error {
	_ = c.stdin.Close() // it may be gone already
	select {
	case <-c.ended:
	case <-ctx.Done():
		return fmt.Errorf("%s: wait for its end: %w", c.spec.Name, context.Cause(ctx))
	}
	if c.err != nil {
		return c.failed(c.err)
	}
	return nil
}

// Kill ends the child whatever it does: end of stdin and SIGTERM first, SIGKILL
// (with SIGCONT implied) after the grace. Safe to call twice.
func (c *Child) Kill() {
	_ = c.stdin.Close()
	if c.signal(syscall.SIGTERM) {
		select {
		case <-c.ended:
			return
		case <-time.After(c.grace):
		}
		c.signal(syscall.SIGKILL)
	}
	<-c.ended
}

// cut ends the child at once, in the middle of whatever it does.
func (c *Child) cut() {
	c.signal(syscall.SIGKILL)
	<-c.ended
}

// signal sends to the child's process alone; false when it has ended.
func (c *Child) signal(sig syscall.Signal) bool {
	select {
	case <-c.ended:
		return false
	default:
		return c.cmd.Process.Signal(sig) == nil
	}
}

func (c *Child) failed(err error) error {
	return &ChildError{Name: c.spec.Name, Err: err, Stderr: c.stderr.String()}
}

// tail keeps the last few lines written to it.
type tail struct {
	mu   sync.Mutex // protects text
	text []byte
}

const tailBytes = 1000

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
