// Package device is the simulated GPU, or several of them, as a process: it runs
// the model on scaled wall time, owns the devices' memory, and executes commands on
// real bytes. It also keeps the objects through which a process controls its
// channels (rm.go), as the driver in the kernel does.
//
// It is not the driver (hal/sim/libcuda is, in C, inside each program) and it
// decides nothing about scheduling (hal/sim/model does). A simulated length is
// never evidence for a number.
//
// Model: each process has one control connection and, per context, a shared
// memory with eight rings. The engine, one goroutine on a thread of its own,
// moves commands from the rings into the model, acts on the model's events, and
// sleeps until the next one or a doorbell. It reads gate words itself, so a
// stopped client does not stop its device. Large bodies run on two workers, while
// their simulated time passes; if a body is slower than that, the command is late.
// What a body touches of managed memory that is not at home on its device comes there
// when the body has ended, and whoever watches the process's page faults is told (fault.go).
//
// Concurrency: Device.mu guards the model, the clients and their rings; it is
// never held while a body runs, a message is sent, or the engine sleeps.
// space.mu, below it, guards one client's address ranges. Device.driver, above
// Device.mu, is held for as long as a control of channels takes: one at a time over
// all devices and processes.
//
// Trust: clients may be dead, stopped, old or hostile. An entry is copied once
// and checked; every shared memory is sealed against shrinking.
package device

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/hal/sim/model"
)

// Config of the devices.
type Config struct {
	// Socket is the path of the control socket.
	Socket string
	// Devices is how many there are, 1 to 8; 0 is 1.
	Devices int
	// HBM is each device's memory in bytes; 0 is 1 GiB. It is also taken from
	// this machine's memory as programs write it.
	HBM uint64
	// Scale is wall time per simulated time; 0 is 1. Above 1 a slow machine
	// keeps up; below 1 tests are faster, and less precise.
	Scale float64
	// IdleExit ends Serve that long after the last client left; 0 is never.
	IdleExit time.Duration
	// Model overrides what each device imitates.
	Model model.Config
	// Log gets what is worth telling; nil is nothing.
	Log *slog.Logger
}

const (
	defaultHBM      = 1 << 30
	contextOverhead = 8 << 20 // of device memory, what a context itself takes
	workers         = 2
	mostDevices     = 8 // libcuda.so.1 has room for as many
)

// Device is what runs: all simulated devices of one socket.
type Device struct {
	cfg    Config
	log    *slog.Logger
	gpus   []*gpu
	pokeFD int // eventfd that wakes the engine
	jobs   chan *command
	clock  *clock
	end    <-chan struct{} // closed when Serve is to return

	driver sync.Mutex // held while a control takes its time

	mu       sync.Mutex
	clients  map[*client]struct{}
	order    []*channel // live channels, in order of creation
	contexts map[uint64]*gpuContext
	rm       rmTable
	physical map[uint64]*physical
	passed   map[fileID]passed
	lastPhys uint64
	lastCtx  uint64
	gates    []*channel // held by a word in memory
	afters   []*channel // held by another channel's progress
	steppers []*command // kernels that show what they do while they run
	stepped  time.Time  // when they last were asked to
	finished []*command // bodies that workers have ended
	unused   []*command // to be used again
	stopped  bool
	lastLeft time.Time
}

// Serve runs a device until ctx ends or IdleExit passes, and takes everything
// down. It fails when the socket cannot be made; a socket file that nobody
// listens on is replaced.
func Serve(ctx context.Context, cfg Config) error {
	d, err := newDevice(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(d.pokeFD) }()
	listener, err := listen(d.cfg.Socket)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.end = ctx.Done()

	var owned sync.WaitGroup
	owned.Go(func() { d.runEngine() })
	for range workers {
		owned.Go(func() { d.runBodies() })
	}
	owned.Go(func() { // ends the accept loop
		d.waitForEnd(ctx)
		_ = listener.Close()
	})
	var conns sync.WaitGroup
	for {
		conn, err := listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil { // of one connection, or no descriptor left: go on for the others
			d.log.Warn("accept", "err", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		conns.Go(func() { d.serveClient(ctx, conn) })
	}
	cancel()
	conns.Wait()
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.poke()
	close(d.jobs)
	owned.Wait()
	return nil
}

func newDevice(cfg Config) (*Device, error) {
	if cfg.HBM == 0 {
		cfg.HBM = defaultHBM
	}
	if cfg.Scale == 0 {
		cfg.Scale = 1
	}
	if cfg.Devices == 0 {
		cfg.Devices = 1
	}
	if cfg.Devices < 1 || cfg.Devices > mostDevices {
		return nil, fmt.Errorf("%d devices: must be from 1 to %d", cfg.Devices, mostDevices)
	}
	if cfg.Scale < 0.001 || cfg.Scale > 1000 {
		return nil, fmt.Errorf("scale %v: must be from 0.001 to 1000", cfg.Scale)
	}
	if cfg.HBM < 64<<20 {
		return nil, fmt.Errorf("device memory of %d bytes: at least 64 MiB", cfg.HBM)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	poke, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make eventfd: %w", err)
	}
	return &Device{
		cfg: cfg, log: cfg.Log, gpus: newGPUs(&cfg), pokeFD: poke,
		jobs:     make(chan *command, 4096),
		clock:    newClock(cfg.Scale),
		clients:  map[*client]struct{}{},
		contexts: map[uint64]*gpuContext{},
		rm:       rmTable{},
		physical: map[uint64]*physical{},
		passed:   map[fileID]passed{},
		lastLeft: time.Now(),
	}, nil
}

// listen makes the socket, for its owner alone. The caller of Ensure holds the
// lock that makes replacing a dead file safe.
func listen(path string) (*net.UnixListener, error) {
	if conn, err := net.Dial("unixpacket", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("listen on %s: another device is alive there", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replace dead socket: %w", err)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("restrict %s: %w", path, err)
	}
	return l, nil
}

// waitForEnd returns when ctx ends, or when nobody has been here for IdleExit.
func (d *Device) waitForEnd(ctx context.Context) {
	if d.cfg.IdleExit <= 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(max(d.cfg.IdleExit/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.mu.Lock()
		over := len(d.clients) == 0 && time.Since(d.lastLeft) > d.cfg.IdleExit
		d.mu.Unlock()
		if over {
			return
		}
	}
}

// poke wakes the engine. The counter cannot overflow: the engine empties it.
func (d *Device) poke() {
	one := [8]byte{1}
	_, _ = unix.Write(d.pokeFD, one[:])
}
