package workloads

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/preempt/board"
	"xmsched/xserver/client"
)

// Client is a program that is a client of the daemon by the board alone: it
// claims a device that it never opens.
type Client struct {
	Dir      string // run directory of the daemon
	UUID     string
	Priority int
	Role     Role
	Edges    int // ready edges that a toggler or pulser makes
	// Hold is how long a pulser stays ready, Rest how long it is idle then, to
	// which up to Spread is added, evenly spread over the pulses.
	Hold, Rest, Spread time.Duration
	// Paced keeps a pulser's edges to the clock: what one sleep took too long, the
	// next is shorter.
	Paced bool
}

// Role is what the client does once it is registered.
type Role string

// The roles.
const (
	RoleIdle   Role = "idle"   // never ready: a competitor that costs nothing
	RoleWatch  Role = "watch"  // always ready; notes when its gate closes
	RoleToggle Role = "toggle" // ready and idle in turn; notes when it stored each ready edge
	RolePulse  Role = "pulse"  // ready and idle in turn, by the clock alone
)

// settle is how long a toggler waits after an answer before its next edge: the
// messages about the last one have been delivered by then. The odd length keeps
// edges from falling into step with the daemon's timers.
const settle = 730 * time.Microsecond

// EdgeTimes is a client's result.
type EdgeTimes struct {
	Kind string  `json:"event"`
	AtNS []int64 `json:"at_ns_list"` // CLOCK_MONOTONIC
}

// SayTimes writes a client's result.
func (s *Speaker) SayTimes(at []int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enc.Encode(EdgeTimes{Kind: KindResult, AtNS: at})
}

// Validate says what is wrong with the settings.
func (c Client) Validate() error {
	if _, err := parseUUID(c.UUID); err != nil {
		return err
	}
	switch c.Role {
	case RoleIdle, RoleWatch:
		return nil
	case RoleToggle:
		return limit.Check("edges", c.Edges, 1, maxPulses)
	case RolePulse:
		return limit.First(
			limit.Check("edges", c.Edges, 1, maxPulses),
			limit.Check("hold", c.Hold, time.Microsecond, maxPause),
			limit.Check("rest", c.Rest, time.Microsecond, maxPause),
			limit.Check("spread", c.Spread, 0, maxPause),
		)
	}
	return fmt.Errorf("role %q is none of idle, watch, toggle, pulse", c.Role)
}

// maxPulses bounds the edges of a client.
const maxPulses = 100_000

func parseUUID(text string) (board.UUID, error) {
	var u board.UUID
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(text, "GPU-"), "-", ""))
	if err != nil || len(b) != len(u) {
		return u, fmt.Errorf("uuid %q is not of the form GPU-01234567-89ab-cdef-0123-456789abcdef", text)
	}
	copy(u[:], b)
	return u, nil
}

// RunClient registers and plays its role until it is told to end.
func RunClient(st Steering, say *Speaker, c Client) error {
	if err := c.Validate(); err != nil {
		return err
	}
	p, err := join(st.Context, c)
	if err != nil {
		return err
	}
	defer p.leave()
	if err := p.answered(st.Context); err != nil {
		return err
	}
	stop := p.beat(st.Context)
	defer stop()
	if err := say.Say(Event{Kind: KindReady}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	switch c.Role {
	case RoleWatch:
		return p.watch(st.Context, say)
	case RoleToggle:
		return p.toggle(st, say, c.Edges)
	case RolePulse:
		return p.pulse(st.Context, say, c)
	}
	<-st.Context.Done()
	return nil
}

// player is a registered client with its one device and one queue.
type player struct {
	connection *client.Client
	attachment *client.Attachment
	board      *board.Board
	device     board.Device
	queue      board.Slot
	submitted  uint64
}

func join(ctx context.Context, c Client) (*player, error) {
	uuid, err := parseUUID(c.UUID)
	if err != nil {
		return nil, err
	}
	p := &player{}
	if p.connection, err = client.Dial(ctx, c.Dir); err != nil {
		return nil, err
	}
	if p.attachment, err = p.connection.Attach(ctx, client.Registration{Name: string(c.Role), Priority: c.Priority}); err != nil {
		p.leave()
		return nil, err
	}
	if p.board, err = p.attachment.Map(); err != nil {
		p.leave()
		return nil, fmt.Errorf("map board: %w", err)
	}
	p.device, p.queue = p.board.Device(0), p.board.Slot(1)
	p.queue.Take(1, 0, 0)
	p.device.Claim(board.Identity{UUID: uuid, Name: "bench"})
	return p, p.attachment.Ring()
}

// leave undoes join, as far as it came.
func (p *player) leave() {
	if p.board != nil {
		p.board.SetLeaving()
		_ = p.board.Close()
	}
	if p.attachment != nil {
		_ = p.attachment.Close()
	}
	_ = p.connection.Close()
}

// answered waits for the daemon's first answer, and acknowledges it.
func (p *player) answered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for p.device.Gate() == 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("the daemon did not answer for the device: %w", ctx.Err())
		}
		time.Sleep(time.Millisecond)
	}
	p.device.Ack(p.device.Gate())
	return nil
}

// beat is the client's heartbeat; the returned function ends it and waits.
func (p *player) beat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.board.BeatClient()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// setReady makes an edge as a program does that submits a command, or whose
// last one ended.
func (p *player) setReady(ready bool) error {
	if ready {
		p.submitted++
		p.queue.Submit(1)
		p.device.AddLaunches(1)
	} else {
		p.queue.Sync(p.submitted)
		p.device.SetIdleAt(uint64(MonotonicNS()))
	}
	p.device.SetReady(ready)
	return p.attachment.Ring()
}
