package device

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/hal/sim/model"
)

// client is one process. Its fields other than space are protected by Device.mu.
type client struct {
	conn        *net.UnixConn
	pid         int
	pidfd       int // -1 when the kernel gave none
	bell        int // eventfd that the client rings
	space       *space
	contexts    map[uint64]*gpuContext
	rm          map[uint32]struct{} // its clients of the resource manager
	trackers    []*tracker          // who watches its page faults
	lastTracker uint64
	hostBytes   uint64
	pidfdFired  bool
	bellBroken  bool
}

// gpuContext is a context: its channels and the memory shared with its process.
type gpuContext struct {
	id       uint64
	owner    *client
	gpu      *gpu
	model    model.ContextID
	shared   []byte
	channels [ringChannels]*channel
	err      result // sticky, as told to the client
}

// channel is one ring. The engine alone reads it, under Device.mu.
type channel struct {
	id        model.ChannelID
	ctx       *gpuContext
	index     int
	put       *atomic.Uint64
	get       *atomic.Uint64
	waiting   *atomic.Uint32
	fetched   uint64 // entries taken from the ring
	completed uint64 // what get says; never read back from it
	broken    bool   // its context has failed: nothing more is taken from it
	flight    []*command
	hold      hold
}

// hostLimit bounds what one process may pin: a program's mistake must not take
// this machine down.
const hostLimit = 16 << 30

// serveClient owns a connection from its first byte to its end.
func (d *Device) serveClient(ctx context.Context, conn *net.UnixConn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	c, err := d.addClient(conn)
	if err != nil {
		d.log.Warn("refuse client", "err", err)
		return
	}
	defer d.removeClient(c)
	for {
		req, fds, err := receive(conn)
		if err != nil {
			return
		}
		var rep reply
		fd := -1
		cost := d.callTime(&req)
		if cost > 0 { // the driver keeps everybody waiting meanwhile
			d.driver.Lock()
			d.take(cost)
		}
		if req.Op >= opRMAlloc && req.Op <= opRMLook {
			rep = d.answerRM(c, &req)
		} else {
			rep, fd = d.answer(c, &req, fds)
		}
		if cost > 0 {
			d.driver.Unlock()
		}
		c.space.reap()
		for _, f := range fds {
			_ = unix.Close(f)
		}
		err = send(conn, &rep, fd)
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		if err != nil {
			return
		}
	}
}

func (d *Device) addClient(conn *net.UnixConn) (*client, error) {
	cred, err := peer(conn)
	if err != nil {
		return nil, err
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make doorbell: %w", err)
	}
	pidfd, err := unix.PidfdOpen(int(cred.Pid), 0)
	if err != nil {
		pidfd = -1
	}
	c := &client{
		conn: conn, pid: int(cred.Pid), pidfd: pidfd, bell: bell,
		space: &space{pid: int(cred.Pid)}, contexts: map[uint64]*gpuContext{}, rm: map[uint32]struct{}{},
	}
	d.mu.Lock()
	d.clients[c] = struct{}{}
	d.mu.Unlock()
	d.poke()
	return c, nil
}

// removeClient takes everything of a process off the device.
func (d *Device) removeClient(c *client) {
	d.mu.Lock()
	d.catchUp()
	for _, g := range c.contexts {
		d.removeContext(g)
	}
	d.rm.forget(c)
	c.forgetTrackers()
	d.forgetMapped(c)
	d.removeSpans(c, func(*span) bool { return true })
	delete(d.clients, c)
	d.lastLeft = time.Now()
	d.mu.Unlock()
	d.poke()
	c.space.reap()
	_ = unix.Close(c.bell)
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
	}
}

func peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	if credErr != nil {
		return nil, fmt.Errorf("peer: %w", credErr)
	}
	return cred, nil
}

// receive reads one request and the descriptors beside it.
func receive(conn *net.UnixConn) (req request, fds []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(req.bytes(), oob)
	if err != nil {
		return req, nil, fmt.Errorf("read request: %w", err)
	}
	if msgs, perr := unix.ParseSocketControlMessage(oob[:oobn]); perr == nil {
		for i := range msgs {
			if got, rerr := unix.ParseUnixRights(&msgs[i]); rerr == nil {
				fds = append(fds, got...)
			}
		}
	}
	if n != len(req.bytes()) || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		for _, f := range fds {
			_ = unix.Close(f)
		}
		return req, nil, fmt.Errorf("read request: %d bytes", n)
	}
	for _, f := range fds {
		unix.CloseOnExec(f)
	}
	return req, fds, nil
}

func send(conn *net.UnixConn, rep *reply, fd int) error {
	var oob []byte
	if fd >= 0 {
		oob = unix.UnixRights(fd)
	}
	if _, _, err := conn.WriteMsgUnix(rep.bytes(), oob, nil); err != nil {
		return fmt.Errorf("write reply: %w", err)
	}
	return nil
}

// answer acts on a request. The caller sends the descriptor that it returns, if
// not -1, and closes it and fds.
func (d *Device) answer(c *client, req *request, fds []int) (reply, int) {
	g := d.gpuOf(req.Device)
	if g == nil {
		return reply{Result: invalidDevice}, -1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch req.Op {
	case opHello:
		return d.hello(c, req)
	case opDevice:
		rep := reply{A: g.capacity.Total(), UUID: g.uuid}
		copy(rep.Text[:nameBytes-1], deviceName)
		return rep, -1
	case opContext:
		return d.addContext(c, g)
	case opPeer:
		return reply{Result: c.setPeer(req)}, -1
	case opAccess:
		return reply{Result: c.space.share(req.A, req.B)}, -1
	case opContextEnd:
		ctx := c.contexts[req.A]
		if ctx == nil {
			return reply{Result: invalidContext}, -1
		}
		d.catchUp()
		d.removeContext(ctx)
		d.poke()
		return reply{}, -1
	case opAlloc:
		return reply{Result: d.alloc(c, g, req)}, -1
	case opFree:
		sp := c.space.remove(req.A, func(s *span) bool { return s.mapped == nil && (s.kind == deviceMemory || s.kind == managedMemory) })
		if sp == nil {
			return reply{Result: invalidValue}, -1
		}
		d.refund(sp)
		if sp.kind == managedMemory {
			c.hostBytes -= sp.size
		}
		return reply{}, -1
	case opHostAlloc:
		return d.hostAlloc(c, req, hostMemory)
	case opManagedAlloc:
		return d.hostAlloc(c, req, managedMemory)
	case opManagedAdvise:
		return reply{Result: d.advise(c, req)}, -1
	case opToolsBegin, opToolsEvents, opToolsFlush:
		return d.tools(c, req, fds), -1
	case opHostRegister:
		return reply{Result: d.hostRegister(c, req, fds)}, -1
	case opHostEnd:
		sp := c.space.remove(req.A, func(s *span) bool { return s.mapped == nil && (s.kind == hostMemory || s.kind == foreignMemory) })
		if sp == nil {
			return reply{Result: invalidValue}, -1
		}
		c.hostBytes -= sp.size
		return reply{}, -1
	case opPhysCreate, opPhysRelease, opPhysExport, opPhysImport, opReserve, opUnreserve, opMap, opUnmap, opMapAccess:
		return d.mapped(c, g, req, fds)
	case opKernel:
		name, _, _ := bytes.Cut(req.Text[:], []byte{0})
		for i, k := range kernelTable {
			if k.Name == string(name) {
				return reply{A: uint64(i)}, -1
			}
		}
		return reply{Result: notSupported}, -1
	case opMemInfo:
		return reply{A: g.capacity.Free(), B: g.capacity.Total()}, -1
	}
	return reply{Result: notSupported}, -1
}

func (d *Device) hello(c *client, req *request) (reply, int) {
	if req.A != wireVersion {
		return reply{Result: systemMismatch}, -1
	}
	bell, err := unix.FcntlInt(uintptr(c.bell), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return reply{Result: operatingSystem}, -1
	}
	return reply{A: uint64(len(d.gpus))}, bell
}

// deviceName says what every figure from this device has to say.
const deviceName = "xmsched simulated GPU"

func (d *Device) addContext(c *client, on *gpu) (reply, int) {
	if !on.capacity.Reserve(contextOverhead) {
		return reply{Result: outOfMemory}, -1
	}
	fd, shared, err := newMemfd("xmsched-sim-context", sharedBytes)
	if err != nil {
		on.capacity.Return(contextOverhead)
		d.log.Warn("make context", "err", err)
		return reply{Result: operatingSystem}, -1
	}
	d.lastCtx++
	g := &gpuContext{id: d.lastCtx, owner: c, gpu: on, shared: shared}
	var ids []model.ChannelID
	g.model, ids = on.machine.AddContext(ringChannels)
	for i, id := range ids {
		at := offRings + i*ringBytes
		ch := &channel{
			id: id, ctx: g, index: i,
			put: word64(shared, at), waiting: word32(shared, at+ringWaiting), get: word64(shared, at+ringGet),
		}
		g.channels[i] = ch
		on.channels[id] = ch
		d.order = append(d.order, ch)
	}
	word32(shared, 0).Store(wireMagic)
	word32(shared, 4).Store(wireVersion)
	word32(shared, offAsleep).Store(1)
	c.contexts[g.id], d.contexts[g.id] = g, g
	return reply{A: g.id}, fd
}

// removeContext ends a context with all that it has queued and allocated.
func (d *Device) removeContext(g *gpuContext) {
	d.stopContext(g)
	for _, ch := range g.channels {
		delete(g.gpu.channels, ch.id)
	}
	d.order = without(d.order, g)
	delete(d.contexts, g.id)
	delete(g.owner.contexts, g.id)
	g.gpu.capacity.Return(contextOverhead)
	d.removeSpans(g.owner, func(s *span) bool { return s.kind == deviceMemory && s.ctx == g.id })
	g.owner.space.forgetPeers(g.id)
	_ = unix.Munmap(g.shared)
	g.shared = nil
	d.checkAfters(g.gpu) // whoever waited for this context waits no longer
}

func (ch *channel) machine() *model.Machine { return ch.ctx.gpu.machine }

// stopContext takes all that a context has queued off the device: nothing of it
// runs, is waited for, or is taken from its rings any more.
func (d *Device) stopContext(g *gpuContext) {
	g.gpu.machine.RemoveContext(g.model)
	d.gates = without(d.gates, g)
	d.afters = without(d.afters, g)
	for _, ch := range g.channels {
		ch.broken = true
		for _, cmd := range ch.flight {
			cmd.dead = true
		}
		ch.flight = nil
		ch.dropHold()
	}
}

func without(in []*channel, g *gpuContext) []*channel {
	out := in[:0]
	for _, ch := range in {
		if ch.ctx != g {
			out = append(out, ch)
		}
	}
	clear(in[len(out):])
	return out
}
