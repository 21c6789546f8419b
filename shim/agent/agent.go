// Package agent is our part inside a running program: it registers the process
// with the daemon, brings the board to the C library, carries news the other
// way, and comes back when the daemon does.
//
// It is a guest. No thread of the program ever runs it, and it never ends the
// process: a panic in any of its goroutines is reported once, opens the gates
// and ends the agent alone. It has no signal handler, no fast ticker and no
// thought about scheduling; the hot path is in C and works with the agent
// absent, late or dead. Where a thread waits for something of the agent's, as for
// a launch that is looked at while learning, the C library bounds that wait.
//
// It also knows what the program's commands touch. Knowledge is read from the user's
// templates; a Forecast makes of it, and of the C library's records of commands, what
// package mover wants to know (Uses), while the daemon plans memory by prediction.
// Under xrun --learn a Learner adds to it what the page faults of single launches tell.
//
// Concurrency: an Agent has two goroutines of its own, which end together; while it is
// attached there are those of package mover, which moves the program's memory, and the
// one that feeds the Forecast. Learning has its own, until the process leaves.
package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/nvx/mover"
	"xmsched/preempt/board"
	"xmsched/xserver/client"
)

// News is what the C library has to tell.
type News uint32

// Bits of News.
const (
	Uncovered News = 1 // names of calls that are not covered
	Leaving   News = 2 // the process is going away
)

// Host is the C library as the agent sees it.
type Host interface {
	// Attach adopts a board and its eventfd; it owns both descriptors from then
	// on, also when it fails.
	Attach(boardFD, bellFD int) error
	// Detach opens the gates and stops writing to the board. Idempotent.
	Detach()
	// WaitNews waits at most that long for news.
	WaitNews(limit time.Duration) News
	// Uncovered gives the names of all uncovered calls seen so far.
	Uncovered() []string
	// WarnOnce writes one line to the program's standard error, once a code.
	WarnOnce(code Warning, text string)
	// Left says that a process which is going away need not wait for the agent.
	Left()
}

// Warning is a code of WarnOnce: each is said once in the life of a process.
type Warning int

// The agent's warnings. 1 to 31 are the C library's own.
const (
	WarnConfig    Warning = 32 + iota // the environment cannot be understood
	WarnAbsent                        // no daemon at the start, or none that can be got at
	WarnLost                          // the daemon went away
	WarnRefused                       // the daemon refused this process
	WarnTrouble                       // anything else that keeps us from attaching; tried again
	WarnBroken                        // the agent itself failed
	WarnLevel                         // the level that was asked for is not to be had
	WarnLearning                      // nothing can be learnt of the program
	WarnTemplates                     // the user's templates cannot be used, or kept
)

// retryAfter is the pause before the daemon is tried again. It is also how long
// a program may stay unscheduled after the daemon returned.
const retryAfter = time.Second

// beatEvery is how often the client's heart beats on the board.
const beatEvery = time.Second

// Agent is the guest in one process.
type Agent struct {
	host   Host
	cfg    Config
	engine *mover.Engine // nil: memory stays where it is

	forecast *Forecast // nil: nobody says what commands touch

	parts  sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	board   *board.Board    // protected by mu; nil: not attached
	session *client.Session // protected by mu; nil: none
	told    map[string]bool // protected by mu: names the session knows
	level   string          // protected by mu: what is asked for, by the daemon's word
	lacking int             // protected by mu: looks in a row that found it missing, for no reason of ours
}

// Start starts the agent and returns at once. An environment that cannot be
// understood is warned of, and the program runs unscheduled.
func Start(host Host, cfg Config) *Agent {
	a := &Agent{host: host, cfg: cfg}
	if a.cfg.Registration.Nonce == 0 {
		// One for the life of this program: what was changed while it ran is found
		// by it when the daemon was restarted. A program that it becomes by exec, and
		// a child, has an agent and a nonce of its own.
		a.cfg.Registration.Nonce = client.NewNonce()
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if cfg.Memory != nil {
		c := mover.Config{Memory: cfg.Memory, Go: a.goQuietly, Journal: journal(cfg.MemoryLog)}
		if cfg.Commands != nil && cfg.Knowledge != nil {
			a.forecast = NewForecast(cfg.Commands, cfg.Knowledge)
			c.Uses = a.forecast
		}
		a.engine = mover.New(c)
	}
	a.goSafely(a.supervise)
	a.goSafely(a.listen)
	if cfg.Learning != nil {
		a.goQuietly(func() {
			if cfg.Knowledge != nil { // before a launch waits for it
				cfg.Knowledge.Prepare()
			}
			a.learn(a.ctx, cfg.Learning)
		})
		if cfg.Knowledge != nil {
			a.goQuietly(func() { a.keep(a.ctx) })
		}
	}
	return a
}

// Close ends the agent and waits for it. The gates are open then.
func (a *Agent) Close() {
	a.cancel()
	a.parts.Wait()
}

// Wait waits until the agent ends.
func (a *Agent) Wait() { a.parts.Wait() }

// goSafely starts a goroutine of the agent. Every one of them comes through
// here: a panic is reported once, opens the gates and ends the agent.
func (a *Agent) goSafely(f func()) {
	a.parts.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				a.host.WarnOnce(WarnBroken, fmt.Sprintf("internal error (%v); the program goes on unscheduled", r))
				a.host.Detach()
			}
			a.cancel() // one without the other is no agent
		}()
		f()
	})
}

// supervise keeps the process registered as long as it lives.
func (a *Agent) supervise() {
	defer a.host.Detach()
	if a.engine != nil {
		defer a.engine.Close()
	}
	var previous uint64
	for a.ctx.Err() == nil {
		task, err := a.serve(previous)
		if task != 0 {
			previous = task
		}
		if a.ctx.Err() != nil || !a.warn(err) {
			return
		}
		select {
		case <-time.After(retryAfter):
		case <-a.ctx.Done():
		}
	}
}

// errLost says that the daemon went away.
var errLost = errors.New("the daemon went away")

// serve registers and stays so until the daemon goes or the agent ends. It
// returns the task's id, if it got that far.
func (a *Agent) serve(previous uint64) (uint64, error) {
	c, err := client.Dial(a.ctx, a.cfg.Dir)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	r := a.cfg.Registration
	r.PreviousTask = previous
	ctx, cancel := context.WithTimeout(a.ctx, 5*time.Second)
	at, err := c.Attach(ctx, r)
	cancel()
	if err != nil {
		return 0, err
	}
	defer at.Close()
	return at.Task, a.attached(at)
}

// attached has the C library use the board until the daemon is gone.
func (a *Agent) attached(at *client.Attachment) error {
	view, err := at.Map()
	if err != nil {
		return err
	}
	defer view.Close()
	defer a.host.Detach() // before anything is closed
	serving, stop := context.WithCancel(a.ctx)
	var moves sync.WaitGroup
	defer func() { stop(); moves.Wait() }() // before that: what moves ends with a board
	if err := a.handOver(at); err != nil {
		return err
	}
	view.BeatClient() // a daemon that restarted gives nothing before it knows who lives
	session, err := at.OpenSession(a.ctx)
	if err != nil {
		return err
	}
	a.setCurrent(view, session)
	defer a.setCurrent(nil, nil)
	a.report()
	if a.engine != nil {
		moves.Add(1)
		a.goQuietly(func() { defer moves.Done(); a.moveMemory(serving, view, at) })
	}
	if a.forecast != nil {
		moves.Add(1)
		a.goQuietly(func() { defer moves.Done(); a.foresee(serving, view) })
	}

	gone := make(chan struct{})
	a.goQuietly(func() { at.Gone(); close(gone) })
	defer func() { _ = at.Close(); <-gone }()
	a.goQuietly(func() { // what the daemon wants of us; ends with the connection
		for {
			r, err := session.Receive()
			if err != nil {
				return
			}
			a.setLevel(r.GetSettings().GetLevel())
		}
	})
	select {
	case <-gone:
		return errLost
	case <-a.ctx.Done():
		return nil
	}
}

// goQuietly is goSafely for a helper whose end is not the agent's.
func (a *Agent) goQuietly(f func()) {
	a.parts.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				a.host.WarnOnce(WarnBroken, fmt.Sprintf("internal error (%v); the program goes on unscheduled", r))
				a.host.Detach()
				a.cancel()
			}
		}()
		f()
	})
}

// handOver gives the C library descriptors of its own.
func (a *Agent) handOver(at *client.Attachment) error {
	memory, err := unix.FcntlInt(at.Board.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("duplicate board: %w", err)
	}
	bell, err := unix.FcntlInt(at.Bell.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(memory)
		return fmt.Errorf("duplicate eventfd: %w", err)
	}
	if err := a.host.Attach(memory, bell); err != nil {
		return fmt.Errorf("attach board: %w", err)
	}
	return nil
}

func (a *Agent) setCurrent(b *board.Board, s *client.Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.board, a.session, a.told = b, s, map[string]bool{}
}

// listen beats the heart and carries news, until the process goes away.
func (a *Agent) listen() {
	for a.ctx.Err() == nil {
		news := a.host.WaitNews(beatEvery)
		if news&Leaving != 0 {
			a.beat(true)
			if a.cfg.Knowledge != nil {
				a.cfg.Knowledge.Save()
			}
			a.host.Left()
			return
		}
		a.beat(false)
		a.checkLevel()
		if news&Uncovered != 0 {
			a.report()
		}
	}
}

func (a *Agent) beat(leaving bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.board == nil {
		return
	}
	a.board.BeatClient()
	if leaving {
		a.board.SetLeaving()
	}
}

func (a *Agent) setLevel(level string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.level = level
}

// lackingLooks is how many looks a level may be missing for which this process gives
// no reason: it may not be known yet, or the daemon may be probing the device.
const lackingLooks = 5

// checkLevel warns of a level that was asked for by its number and is not to be
// had on a device that the process uses. It is governed lower there.
func (a *Agent) checkLevel() {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked, err := strconv.ParseUint(a.level, 10, 32)
	if a.board == nil || err != nil || asked < 2 {
		return
	}
	for i := range board.Devices {
		v := a.board.Snapshot(i)
		gate, grant := a.board.Device(i).Grant()
		if !v.Present || v.LevelMax == 0 || gate == 0 || uint64(grant.Level) >= asked {
			continue
		}
		why := v.LevelWhy.String()
		if v.LevelWhy == board.NothingInTheWay {
			if a.lacking++; a.lacking < lackingLooks {
				return
			}
			why = "the daemon does not offer it there, xcli list tells why"
		}
		a.host.WarnOnce(WarnLevel, fmt.Sprintf("level %d is not to be had on %s: %s; the program is scheduled at level %d",
			asked, a.board.Identity(i).Name, why, grant.Level))
		return
	}
	a.lacking = 0
}

// report tells the daemon which calls are not covered, those it does not know
// yet. A session that broke is noticed by supervise.
func (a *Agent) report() {
	names := a.host.Uncovered()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == nil {
		return
	}
	var fresh []string
	for _, name := range names {
		if !a.told[name] {
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 || a.session.Report(fresh) != nil {
		return
	}
	for _, name := range fresh {
		a.told[name] = true
	}
}

// warn says once what keeps the program from being scheduled, and whether it is
// worth trying again.
func (a *Agent) warn(err error) (again bool) {
	var rejected *client.RejectedError
	var denied *client.DeniedError
	switch {
	case err == nil:
		return false
	case errors.Is(err, errLost):
		a.cfg.Warned = true // this line says the rest as well
		a.host.WarnOnce(WarnLost, fmt.Sprintf("the daemon in %s went away; the program goes on unscheduled until it returns", a.cfg.Dir))
	case client.Unreachable(err):
		if a.cfg.Warned {
			break
		}
		a.host.WarnOnce(WarnAbsent, fmt.Sprintf("%v; the program runs unscheduled until then", err))
	case errors.As(err, &rejected), errors.As(err, &denied):
		a.host.WarnOnce(WarnRefused, fmt.Sprintf("%v; the program runs unscheduled", err))
		return false
	default:
		a.host.WarnOnce(WarnTrouble, fmt.Sprintf("%v; the program runs unscheduled, trying again", err))
	}
	return true
}
