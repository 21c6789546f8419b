package device

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/hal/sim/model"
)

const (
	// ahead is how many commands of a channel the model holds, so that it runs
	// from one to the next in virtual time however late this process is.
	ahead = 8
	// spin is how long before its next event the engine stops sleeping: a
	// sleeping virtual CPU wakes some 50 us late.
	spin = 60 * time.Microsecond
	// linger is how long the engine looks for more work before it sleeps, so
	// that launch-and-synchronise loops do not pay a wake-up each.
	linger = 40 * time.Microsecond
	// gateMin and gateMax bound how often words in memory are read while a
	// stream waits for one: the longer it has waited, the less often.
	gateMin = 50 * time.Microsecond
	gateMax = 500 * time.Microsecond
	// burst bounds the events handled without letting control requests in.
	burst = 512
)

// runEngine moves the device on until it is stopped.
func (d *Device) runEngine() {
	runtime.LockOSThread() // the timer slack is the thread's
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	clock := d.clock
	var fds []unix.PollFd
	quietSince := time.Now()
	for {
		d.mu.Lock()
		if d.stopped {
			d.mu.Unlock()
			return
		}
		worked := d.pump(clock)
		now := time.Now()
		if worked {
			quietSince = now
		}
		wake, any := d.nextWake(clock, now)
		if worked || any && wake.Sub(now) < spin || now.Sub(quietSince) < linger {
			d.mu.Unlock()
			if !worked {
				pause(now) // control requests want the lock too
			}
			continue
		}
		if !d.fallAsleep() {
			d.mu.Unlock()
			continue
		}
		fds = d.pollSet(fds[:0])
		d.mu.Unlock()
		sleep(fds, wake.Add(-spin), any)
		d.mu.Lock()
		if d.wakeUp(fds) {
			quietSince = time.Now()
		}
		d.mu.Unlock()
	}
}

// pause passes about a microsecond.
func pause(since time.Time) {
	for time.Since(since) < time.Microsecond {
	}
}

// clock maps wall time to the model's, and the monotonic clock that clients
// stamp their commands with to both.
type clock struct {
	start     time.Time
	startMono int64 // CLOCK_MONOTONIC at start, ns
	scale     float64
}

func newClock(scale float64) *clock {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return &clock{start: time.Now(), startMono: ts.Nano(), scale: scale}
}

func (c *clock) virtual() time.Duration {
	return time.Duration(float64(time.Since(c.start)) / c.scale)
}

func (c *clock) wall(v time.Duration) time.Time {
	return c.start.Add(time.Duration(float64(v) * c.scale))
}

// arrival is a client's time stamp in virtual time. The future is not believed.
func (c *clock) arrival(mono uint64, now time.Duration) time.Duration {
	since := int64(mono) - c.startMono
	if since < 0 {
		return 0
	}
	return min(now, time.Duration(float64(since)/c.scale))
}

// pump does all that can be done now; it says whether anything was.
func (d *Device) pump(c *clock) bool {
	now := c.virtual()
	worked := false
	for _, ch := range d.order {
		worked = d.feed(ch, c, now) || worked
	}
	for _, g := range d.gpus {
		worked = d.step(g, c, now) || worked
	}
	worked = d.takeSteps() || worked
	if len(d.gpus) > 1 {
		d.checkAfters(nil)
	}
	for _, cmd := range d.finished {
		worked = true
		d.bodyEnded(cmd)
		if cmd.timeUp && !cmd.dead {
			d.complete(cmd.ch, c, now)
		}
	}
	d.finished = d.finished[:0]
	return d.checkGates() || worked
}

// catchUp brings the machines to the present before somebody changes them: the
// engine sleeps until something is due. Precondition: Device.mu is held, and the
// caller pokes the engine afterwards.
func (d *Device) catchUp() {
	for range 8 { // a busy device is as near as it ever is
		if !d.pump(d.clock) {
			return
		}
	}
}

// step acts on what happens on one device until now.
func (d *Device) step(g *gpu, c *clock, now time.Duration) (worked bool) {
	for range burst {
		ev, ok := g.machine.Step(now)
		if !ok {
			break
		}
		worked = true
		d.act(g.channels[ev.Channel], ev, c, now)
	}
	return worked
}

// feed takes what there is in a ring, as far as the model wants it.
func (d *Device) feed(ch *channel, c *clock, now time.Duration) bool {
	if ch.broken {
		return false
	}
	put := ch.put.Load()
	if put == ch.fetched {
		return false
	}
	if put-ch.completed > ringEntries {
		d.breakRing(ch, "ring runs over")
		return false
	}
	fed := false
	for ch.fetched != put && len(ch.flight) < ahead {
		at := offEntries + (ch.index*ringEntries+int(ch.fetched%ringEntries))*entryBytes
		cmd := d.newCommand()
		cmd.ch, cmd.entry = ch, readEntry(ch.ctx.shared, at)
		ch.fetched++
		if err := cmd.entry.check(); err != nil {
			d.breakRing(ch, err.Error())
			return fed
		}
		mc := d.modelCommand(cmd)
		mc.ID = ch.fetched
		cmd.engine = mc.Engine
		mc.Arrival = c.arrival(cmd.entry.Submitted, now)
		ch.flight = append(ch.flight, cmd)
		ch.machine().Submit(ch.id, mc)
		fed = true
	}
	return fed
}

// breakRing fails a context whose ring no driver of ours has written.
func (d *Device) breakRing(ch *channel, why string) {
	d.log.Warn("ring makes no sense", "pid", ch.ctx.owner.pid, "why", why)
	d.fail(ch.ctx, launchFailed)
}

// act handles an event of the model, at the event's own time.
func (d *Device) act(ch *channel, ev model.Event, c *clock, now time.Duration) {
	cmd := ch.flight[0] // the model names only what was submitted and not retired
	switch ev.Kind {
	case model.Held:
		d.hold(cmd)
	case model.Started:
		d.start(cmd)
	case model.Done:
		cmd.timeUp = true
		d.lastStep(cmd)
		if cmd.bodyDone && !cmd.dead {
			d.complete(ch, c, now)
		}
	}
}

// complete ends a channel's oldest command: effects, then the count, then those
// who wait for it.
func (d *Device) complete(ch *channel, c *clock, now time.Duration) {
	cmd := ch.flight[0]
	ch.flight = ch.flight[:copy(ch.flight, ch.flight[1:])]
	if verb(cmd.entry.Verb) == verbEvent {
		word64(ch.ctx.shared, offStamps+8*int(cmd.entry.A)).Store(uint64(ch.machine().Now()))
	}
	ch.completed++
	ch.get.Store(ch.completed)
	if ch.waiting.Load() != 0 {
		ch.waiting.Store(0)
		wakeAll(ch.get)
	}
	*cmd = command{}
	d.unused = append(d.unused, cmd)
	ch.machine().Retire(ch.id)
	d.feed(ch, c, now)
	d.checkAfters(ch.ctx.gpu)
}

// newCommand reuses what complete has put aside: a busy device makes no garbage.
func (d *Device) newCommand() *command {
	if n := len(d.unused); n > 0 {
		cmd := d.unused[n-1]
		d.unused = d.unused[:n-1]
		return cmd
	}
	return &command{}
}

// fail ends a context as a fault does: what it has queued will not run, and its
// program sees the error at every call.
func (d *Device) fail(g *gpuContext, r result) {
	if g.err != success {
		return
	}
	g.err = r
	d.stopContext(g)
	word32(g.shared, offError).Store(uint32(r))
	for _, ch := range g.channels {
		if ch.waiting.Swap(0) != 0 {
			wakeAll(ch.get)
		}
	}
	d.checkAfters(g.gpu)
}

// nextWake is when the engine has to look again, if nobody calls.
func (d *Device) nextWake(c *clock, now time.Time) (time.Time, bool) {
	var wake time.Time
	any := false
	for _, g := range d.gpus {
		if next, ok := g.machine.Next(); ok {
			if at := c.wall(next); !any || at.Before(wake) {
				wake, any = at, true
			}
		}
	}
	if len(d.steppers) > 0 {
		if at := d.stepped.Add(stepEvery); !any || at.Before(wake) {
			wake, any = at, true
		}
	}
	for _, ch := range d.gates {
		at := ch.hold.looked.Add(min(max(ch.hold.looked.Sub(ch.hold.since)/16, gateMin), gateMax)).Add(spin)
		if !any || at.Before(wake) {
			wake, any = at, true
		}
	}
	return wake, any
}

// fallAsleep asks for the doorbell; false when something came meanwhile.
func (d *Device) fallAsleep() bool {
	for _, g := range d.contexts {
		word32(g.shared, offAsleep).Store(1)
	}
	for _, ch := range d.order {
		if !ch.broken && len(ch.flight) < ahead && ch.put.Load() != ch.fetched {
			return false
		}
	}
	return true
}

// pollSet lists what wakes the engine.
func (d *Device) pollSet(fds []unix.PollFd) []unix.PollFd {
	fds = append(fds, unix.PollFd{Fd: int32(d.pokeFD), Events: unix.POLLIN})
	for c := range d.clients {
		if !c.bellBroken {
			fds = append(fds, unix.PollFd{Fd: int32(c.bell), Events: unix.POLLIN})
		}
		if c.pidfd >= 0 && !c.pidfdFired {
			fds = append(fds, unix.PollFd{Fd: int32(c.pidfd), Events: unix.POLLIN})
		}
	}
	return fds
}

func sleep(fds []unix.PollFd, until time.Time, limited bool) {
	var timeout *unix.Timespec
	if limited {
		ts := unix.NsecToTimespec(int64(max(0, time.Until(until))))
		timeout = &ts
	}
	_, _ = unix.Ppoll(fds, timeout, nil)
}

// wakeUp takes back the request for the doorbell and empties what rang; it says
// whether anything did.
func (d *Device) wakeUp(fds []unix.PollFd) bool {
	for _, g := range d.contexts {
		word32(g.shared, offAsleep).Store(0)
	}
	any := rang(fds, d.pokeFD)
	if any {
		_ = drain(d.pokeFD)
	}
	for c := range d.clients {
		if rang(fds, c.bell) {
			any = true
			c.bellBroken = drain(c.bell) != nil
		}
		// Asked again: the number may have been another descriptor's, closed
		// since this thread fell asleep.
		if c.pidfd >= 0 && !c.pidfdFired && rang(fds, c.pidfd) && readable(c.pidfd) {
			// Dead, though somebody may still hold its end of the socket.
			c.pidfdFired = true
			_ = c.conn.Close()
		}
	}
	return any
}

func rang(fds []unix.PollFd, fd int) bool {
	for i := range fds {
		if fds[i].Fd == int32(fd) {
			return fds[i].Revents != 0
		}
	}
	return false
}

func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds, &unix.Timespec{}, nil)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
}

func drain(fd int) error {
	var count [8]byte
	if _, err := unix.Read(fd, count[:]); err != nil && err != unix.EAGAIN {
		return fmt.Errorf("drain eventfd: %w", err)
	}
	return nil
}
