package measure

import (
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
	"sync/atomic"
	"syscall"
	"time"

	"xmsched/nvx/sheet"
)

const (
	// silence is how long a worker may say nothing: then it hangs.
	silence = 30 * time.Second
	// maxEvents bounds what a worker may say in all.
	maxEvents = 64 << 20
)

// Config says who measures what.
type Config struct {
	// Program is called with Args, a role and a UUID, and calls Worker.
	Program string
	Args    []string
	// Preload is libxmsched.so; empty, channel control is not to be had.
	Preload string
	// Env is the environment of the children.
	Env []string
	// Tool is the version that the sheet names.
	Tool string
	// Progress, if set, is called at the begin of each step.
	Progress func(what string, done, total int)

	silence time.Duration // 0: the usual one
}

func (c Config) patience() time.Duration {
	if c.silence > 0 {
		return c.silence
	}
	return silence
}

// ChildError says that a worker ended before it was through.
type ChildError struct {
	Step string // the one it was in
	How  string // it ended
}

func (e *ChildError) Error() string {
	if e.Step == "" {
		return "the measuring process " + e.How
	}
	return fmt.Sprintf("the measuring process %s during %q", e.How, e.Step)
}

// Devices lists what there is: sheets with device and driver alone. A machine
// without a driver or a device gives an error.
func Devices(ctx context.Context, cfg Config) ([]*sheet.Sheet, error) {
	c := conversation{cfg: cfg}
	err := c.hold(ctx, roleDevices, "-")
	if err == nil && len(c.sheets) == 0 {
		err = errors.New("the driver shows no device to this process")
	}
	return c.sheets, err
}

// Probe finds out whether level 3 works on a device. A worker that crashes or
// hangs is a no. The error is for what prevents a verdict.
func Probe(ctx context.Context, cfg Config, uuid string) (*sheet.Sheet, error) {
	return measured(ctx, cfg, roleProbe, uuid)
}

// Measure probes and takes all figures. What was taken before a crash is kept,
// and the rest missing with a reason.
func Measure(ctx context.Context, cfg Config, uuid string) (*sheet.Sheet, error) {
	return measured(ctx, cfg, roleMeasure, uuid)
}

func measured(ctx context.Context, cfg Config, role, uuid string) (*sheet.Sheet, error) {
	c := conversation{cfg: cfg}
	err := c.hold(ctx, role, uuid)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("measure: %w", context.Cause(ctx))
	}
	if len(c.sheets) == 0 {
		if err == nil {
			err = errors.New("the measuring process said nothing")
		}
		return nil, err
	}
	s := c.sheets[len(c.sheets)-1]
	if err != nil {
		c.blame(s, err)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	return s, nil
}

// blame puts an early end into the sheet: it speaks against level 3 if the probe
// had not passed yet, or if level 3 was just used.
func (c *conversation) blame(s *sheet.Sheet, err error) {
	why := oneLine(err)
	if s.Probe == nil || s.Probe.Level3 && c.level3 {
		p := refusedProbe(err)
		if s.Probe != nil {
			p.ComputeGroups, p.Groups, p.Channels = s.Probe.ComputeGroups, s.Probe.Groups, s.Probe.Channels
		}
		s.Probe = p
	}
	if s.Measured != nil {
		s.Measured.Missing = append(s.Measured.Missing, sheet.Missing{Figure: c.step + " and what comes after it", Why: why})
	}
}

// conversation is one child and what it has said. It belongs to one goroutine.
type conversation struct {
	cfg    Config
	sheets []*sheet.Sheet
	step   string
	level3 bool // the step uses level 3
	ended  bool
	failed string
}

// hold runs a child to its end.
func (c *conversation) hold(ctx context.Context, role, uuid string) error {
	quiet, err := os.MkdirTemp("", "xmsched-measure-")
	if err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	defer os.RemoveAll(quiet)
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	defer r.Close()
	var stderr opening
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.cfg.Program, append(append([]string{}, c.cfg.Args...), role, uuid)...)
	cmd.Env = c.environment(quiet)
	cmd.ExtraFiles = []*os.File{w}
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second // a peer that inherited stderr is being killed
	// A signal of the terminal is for us, who then end the child; a child whose
	// parent is gone ends too. That is tied to the thread which starts it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return fmt.Errorf("measure: start %s: %w", c.cfg.Program, err)
	}
	_ = w.Close() // the child has its own
	var hung atomic.Bool
	timer := time.AfterFunc(c.cfg.patience(), func() {
		hung.Store(true)
		cancel()
	})
	if !c.listen(r, func() { timer.Reset(c.cfg.patience()) }) {
		cancel()
	}
	err = cmd.Wait()
	timer.Stop()
	switch {
	case c.failed != "":
		return errors.New(c.failed)
	case hung.Load():
		return &ChildError{c.step, fmt.Sprintf("said nothing for %v and was killed", c.cfg.patience())}
	case c.ended:
		return nil
	}
	return &ChildError{c.step, how(err, stderr.String())}
}

// environment is the child's: preloaded, without an agent, and out of every
// daemon's reach, so that nobody but the worker stops it.
func (c *conversation) environment(quiet string) []string {
	var env []string
	for _, kv := range c.cfg.Env {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "LD_PRELOAD", "XMSCHED_DIR", "XMSCHED_LIB":
			continue
		}
		env = append(env, kv)
	}
	env = append(env, "XMSCHED_DIR="+quiet, "XMSCHED_LIB="+quiet)
	if c.cfg.Preload != "" {
		env = append(env, "LD_PRELOAD="+c.cfg.Preload)
	}
	return env
}

// listen takes what the child says until it has no more to say; false for one
// that talks nonsense, or too much.
func (c *conversation) listen(r io.Reader, heard func()) bool {
	for d := json.NewDecoder(io.LimitReader(r, maxEvents)); ; {
		var e event
		if err := d.Decode(&e); err != nil {
			return errors.Is(err, io.EOF)
		}
		heard()
		c.take(e)
	}
}

func (c *conversation) take(e event) {
	if e.Step != "" {
		c.step, c.level3 = e.Step, e.Level3
		if c.cfg.Progress != nil {
			c.cfg.Progress(e.Step, e.Done, e.Total)
		}
	}
	if e.Sheet != nil {
		e.Sheet.Tool = c.cfg.Tool
		c.add(e.Sheet)
	}
	c.ended = c.ended || e.End
	if e.Error != "" {
		c.failed = e.Error
	}
}

// add takes a later state of the same device's sheet, or another device's.
func (c *conversation) add(s *sheet.Sheet) {
	if n := len(c.sheets); n > 0 && c.sheets[n-1].Device.UUID == s.Device.UUID {
		c.sheets[n-1] = s
		return
	}
	c.sheets = append(c.sheets, s)
}

// how words the end of a child.
func how(err error, stderr string) string {
	text := "ended early"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			text = fmt.Sprintf("was ended by signal %d (%v)", status.Signal(), status.Signal())
		} else {
			text = fmt.Sprintf("ended with exit code %d", exit.ExitCode())
		}
	}
	if said := telling(stderr); said != "" {
		text += " after saying " + fmt.Sprintf("%q", said)
	}
	return text
}

// telling is the line of what a program said that tells why it ended: how Go's
// runtime begins when a library crashes, else the last one.
func telling(stderr string) string {
	last := ""
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		for _, crash := range []string{"SIG", "panic: ", "fatal error: "} {
			if strings.HasPrefix(line, crash) {
				return line
			}
		}
		if line != "" && !strings.HasPrefix(line, "xmsched: ") { // it has no daemon, as it should be
			last = line
		}
	}
	return last
}

// opening keeps the first part of what is written to it.
type opening struct {
	mu   sync.Mutex // protects text
	text []byte
}

const openingBytes = 16 << 10

func (o *opening) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b[:min(len(b), openingBytes-len(o.text))]...)
	return len(b), nil
}

func (o *opening) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}
