// Package xserver is the daemon: it registers processes, hands out boards, and
// has their gates opened and closed by a policy.
//
// Two planes. The control plane is gRPC over a Unix socket, a registry under one
// lock, a journal on disk, and readers of /proc: all of it may be slow. The data
// plane (internal/plane) is one OS thread that turns edges into gate words; the
// control plane hands it values and never makes it wait.
//
// The daemon opens no device and believes no client: identity is the kernel's
// word, claims are clamped, and a process that is dead, stopped or writes garbage
// costs the others nothing but its own share. It fails open: when it ends, every
// gate is opened; when it is killed, the clients open theirs within 1 s.
//
// Lock order: Server.steering before Server.mu before registry.mu. The last two are
// not held while the loop, the disk or a client is waited for. Server.steering is held
// while the loop is: who changes what the registry and the data plane both know does so
// in both before the next one may, or they would disagree for good. Server.accountsMu
// stands alone, and is held while the loop is. So does that of the host pool, under which
// nothing is waited for.
package xserver

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"

	"xmsched/compute"
	"xmsched/nvx/sheet"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/journal"
	"xmsched/xserver/internal/plane"
	"xmsched/xserver/internal/rundir"
	"xmsched/xserver/internal/web"
)

// DefaultPolicy is the policy of a daemon that was told none, by its user or by
// its journal.
const DefaultPolicy = "HPF"

// DefaultIdleAfter is Config.IdleAfter where nobody says otherwise.
const DefaultIdleAfter = plane.DefaultIdleAfter

// MaxSpin bounds Config.Spin.
const MaxSpin = plane.MaxSpin

// Config is what a daemon is started with.
type Config struct {
	// Dir is the run directory.
	Dir string
	// Shared opens the directory and the sockets to other users; root's daemon
	// alone may. SystemDir is always shared.
	Shared bool
	// Policy by name; empty: the journal's, else DefaultPolicy.
	Policy string
	// IdleAfter is how long a task that has no hint of its own has to be without
	// work until that counts as idle, compute.MinIdleAfter to MaxIdleAfter.
	// Default DefaultIdleAfter.
	IdleAfter time.Duration
	// Spin is for how long after an edge the daemon looks for the next one instead of
	// sleeping, 0 to MaxSpin: decisions come sooner, for a core. Default 0.
	Spin time.Duration
	// IdleConnection is how long a connection to the control socket is kept on
	// which no request is under way. Default 1 min: who asks now and then connects
	// once, and who died in a way that nobody saw does not hold a place for ever.
	IdleConnection time.Duration
	// Sheets say where Level 3 is offered.
	Sheets Sheets
	// HTTP is the loopback address, host:port, on which XSched's HTTP interface and
	// ours are served; Metrics the one for Prometheus. Default: neither is. Who asks
	// there is told by a token, see Token.
	HTTP, Metrics string
	// Memory says how the memory of the devices is managed. Default: not at all.
	Memory *ManagedMemory
	// Version is told to clients that ask.
	Version string
	// Log takes what an operator should know; nothing is logged per decision.
	Log *slog.Logger
}

// Server is a daemon.
type Server struct {
	cfg      Config
	log      *slog.Logger
	dir      *rundir.Dir
	start    time.Time
	epoch    uint64 // random, one a start
	loop     *plane.Loop
	registry *registry
	control  *net.UnixListener
	boards   *net.UnixListener
	grpc     *grpc.Server
	ending   context.Context // ends streams at shutdown
	end      context.CancelFunc

	steering sync.Mutex // held by who changes hints, settings, limits or the policy, or adds a process

	mu         sync.Mutex
	policy     compute.Policy         // protected by mu
	remembered map[journal.Key]memory // protected by mu
	state      plane.State            // protected by mu: what listings show
	turns      plane.Latency          // protected by mu
	stateAt    time.Time              // protected by mu: when state was taken

	accountsMu               sync.Mutex
	accountsOf, accountsPast []plane.TaskState // protected by accountsMu
	accountsAt               time.Time         // protected by accountsMu

	tokens        *web.Tokens // nil: no HTTP
	http, metrics *door       // nil: not served

	offers  offers
	managed managed
	pool    *hostPool
	tracers chan struct{} // a place for each that traces

	dirty chan struct{} // the journal is to be written
}

// New takes the run directory and opens its sockets. A *rundir.BusyError says
// that another daemon is there, a *compute.UnknownPolicyError that the policy
// does not exist, a *compute.RangeError that IdleAfter or Spin is out of range, an
// *AddressError that HTTP is to be served elsewhere than on this machine.
func New(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, start: time.Now(), epoch: random64(),
		registry: newRegistry(), remembered: map[journal.Key]memory{},
		dirty: make(chan struct{}, 1), tracers: make(chan struct{}, maxTracers), offers: offers{known: map[compute.Device]plane.Offer{}},
		pool: newHostPool(),
	}
	s.ending, s.end = context.WithCancel(context.Background())
	if s.cfg.IdleAfter == 0 {
		s.cfg.IdleAfter = DefaultIdleAfter
	}
	if s.cfg.Sheets.Driver == nil {
		s.cfg.Sheets.Driver = func() (string, error) {
			version, _, err := sheet.InstalledDriver()
			return version, err
		}
	}
	if s.cfg.IdleConnection == 0 {
		s.cfg.IdleConnection = time.Minute
	}
	if err := (compute.Hints{IdleAfter: s.cfg.IdleAfter}).Validate(); err != nil {
		return nil, err
	}
	if cfg.Spin < 0 || cfg.Spin > MaxSpin {
		return nil, &compute.RangeError{Hint: "spin", Value: cfg.Spin.String(), Min: "0s", Max: MaxSpin.String()}
	}
	if cfg.Policy != "" {
		p, err := compute.PolicyByName(cfg.Policy)
		if err != nil {
			return nil, err
		}
		s.policy = p
	}
	var err error
	if s.dir, err = rundir.Open(cfg.Dir, cfg.Shared); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		s.closeHTTP()
		s.closeSockets()
		_ = s.dir.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) open() (err error) {
	s.recall()
	if s.probesAtStart() {
		s.managed.setProbe(probing) // or found to be unnecessary, soon
	}
	if s.control, err = s.dir.Listen(client.ControlSocket); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if s.boards, err = s.dir.Listen(client.BoardSocket); err != nil {
		return fmt.Errorf("board socket: %w", err)
	}
	v := &service{server: s}
	if err = s.openHTTP(v); err != nil {
		return err
	}
	s.loop, err = plane.NewLoop(s.newPlane(), func(id plane.ProcessID) {
		if s.ending.Err() != nil {
			return // our end detaches them: the next daemon is to know that they were here
		}
		s.registry.remove(id)
		s.rememberAttached()
		s.forgetState()
	})
	if err != nil {
		return err
	}
	s.grpc = newGRPC(s)
	xserverv1.RegisterXServerServiceServer(s.grpc, v)
	return nil
}

func (s *Server) closeSockets() {
	for _, l := range []*net.UnixListener{s.control, s.boards} {
		if l != nil {
			_ = l.Close() // removes the socket as well
		}
	}
}

// Run serves until ctx ends or a socket breaks, then opens every gate, takes the
// sockets away and writes the journal. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	s.loop.Run()
	var parts sync.WaitGroup
	broken := make(chan error, 4)
	parts.Go(func() { s.keepHouse() })
	parts.Go(func() { s.keepCPUPriorities() })
	parts.Go(func() { s.keepOffers() })
	parts.Go(func() { s.keepMemory() })
	parts.Go(func() {
		if err := s.grpc.Serve(newCrowdListener(s.control, maxConnections)); err != nil {
			broken <- fmt.Errorf("serve control socket: %w", err)
		}
	})
	parts.Go(func() {
		if err := s.serveBoards(); err != nil {
			broken <- fmt.Errorf("serve board socket: %w", err)
		}
	})
	for _, d := range s.doors() {
		parts.Go(func() {
			if err := s.serveHTTP(d); err != nil {
				broken <- err
			}
		})
		s.log.Info("serving HTTP", "address", d.address())
	}
	s.log.Info("serving", "dir", s.dir.Path(), "policy", s.policyName(), "pid", os.Getpid())

	var err error
	select {
	case <-ctx.Done():
	case err = <-broken:
	}
	s.end()
	s.loop.Stop() // first: programs go on while the rest is put away
	s.closeHTTP()
	s.closeSockets()
	s.grpc.Stop()
	parts.Wait()
	s.writeChanged() // whoever came until the sockets were closed is in it
	s.log.Info("stopped", "dir", s.dir.Path())
	return errors.Join(err, s.dir.Close())
}

func (s *Server) policyName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.policy.Name()
}

// setPolicy changes the policy of all devices; hints stay.
func (s *Server) setPolicy(p compute.Policy) error {
	if s.byCPU(p) {
		s.tellCPUPriorities() // it is to hold at once
	}
	s.steering.Lock()
	defer s.steering.Unlock()
	if err := s.loop.SetPolicy(p); err != nil {
		return err
	}
	s.mu.Lock()
	s.policy, s.stateAt = p, time.Time{}
	s.mu.Unlock()
	s.log.Info("policy changed", "policy", p.Name())
	s.remember()
	return nil
}

// stateLife is how long a copy of the data plane's state serves listings, so
// that those who list all the time do not take the loop's time.
const stateLife = 10 * time.Millisecond

func (s *Server) describe() (plane.State, plane.Latency, error) {
	s.mu.Lock()
	if time.Since(s.stateAt) < stateLife {
		defer s.mu.Unlock()
		return s.state, s.turns, nil
	}
	s.mu.Unlock()
	state, turns, err := s.loop.Describe()
	if err != nil {
		return state, turns, err
	}
	s.mu.Lock()
	s.state, s.turns, s.stateAt = state, turns, time.Now()
	s.mu.Unlock()
	return state, turns, nil
}

// forgetState has the next listing look again: a process came or went.
func (s *Server) forgetState() {
	s.mu.Lock()
	s.stateAt = time.Time{}
	s.mu.Unlock()
}

func random64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails on Linux
	return binary.LittleEndian.Uint64(b[:]) | 1
}
