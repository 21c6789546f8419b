package xserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	mem "xmsched/memory"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

const (
	// poolShare is the part of what moved memory may take of the host that slots may
	// have on their way from one process to another: this one in eight.
	poolShare = 8
	// poolLife is how long a slot waits for somebody to take it. Nobody else has use
	// for the memory meanwhile.
	poolLife = 3 * time.Second
	// maxKeptSlots bounds the descriptors that wait; no more than a quarter of those
	// that the daemon may have.
	maxKeptSlots = 4096
	maxSlotBytes = mem.GiB
	maxPoolName  = 128 // bytes of a device's name
	// pooledAnswer is how long a client may take to read an answer.
	pooledAnswer = time.Second
)

// hostPool keeps slots of host memory that a process has no use for any more, until
// another one takes them: pinning memory is dear (178 us a MiB at best, H200). What waits is
// beyond what processes may have of the host, for poolLife at most. The
// daemon has but descriptors of them. It maps none and reads none, and what they are
// and how large is their clients' word.
type hostPool struct {
	most int // slots

	mu     sync.Mutex
	limit  mem.Bytes                  // protected by mu: of what waits; 0: not known yet
	bytes  mem.Bytes                  // protected by mu: of what waits
	taken  mem.Bytes                  // protected by mu: in all
	slots  []keptSlot                 // protected by mu: the oldest first
	inside map[plane.ProcessID]uint32 // protected by mu: who has a connection, and its user
	closed bool                       // protected by mu
}

// keptSlot is a slot that waits.
type keptSlot struct {
	key   slotKey
	fd    int
	since time.Time
}

// slotKey says who may have a slot, and for what. Whoever gave one may have it mapped
// still, so that it goes to nobody but those who could look into his memory anyway.
type slotKey struct {
	owner  slotOwner
	device string
	bytes  mem.Bytes
}

// slotOwner is a user in namespaces, which are named by their inodes.
type slotOwner struct {
	uid              uint32
	user, pid, mount uint64
}

func newHostPool() *hostPool {
	h := &hostPool{most: maxKeptSlots, inside: map[plane.ProcessID]uint32{}}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur/4 < maxKeptSlots {
		h.most = int(files.Cur / 4)
	}
	return h
}

// kept is how much waits to be taken.
func (h *hostPool) kept() mem.Bytes {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// passed is how much was taken so far.
func (h *hostPool) passed() mem.Bytes {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken
}

// setLimit bounds what waits; the oldest beyond it are closed.
func (h *hostPool) setLimit(limit mem.Bytes) {
	h.mu.Lock()
	h.limit = limit
	n, over := 0, h.bytes-limit
	for ; over > 0 && n < len(h.slots); n++ {
		over -= h.slots[n].key.bytes
	}
	old := h.drop(0, n)
	h.mu.Unlock()
	closeSlots(old)
}

// expire closes what nobody took in time.
func (h *hostPool) expire(now time.Time) {
	h.mu.Lock()
	n := 0
	for n < len(h.slots) && now.Sub(h.slots[n].since) >= poolLife {
		n++
	}
	old := h.drop(0, n)
	h.mu.Unlock()
	closeSlots(old)
}

// close closes all that waits, and keeps nothing from now on.
func (h *hostPool) close() {
	h.mu.Lock()
	h.closed = true
	all := h.drop(0, len(h.slots))
	h.mu.Unlock()
	closeSlots(all)
}

// drop takes slots out, from one to before another, the oldest first. They are closed, if
// they are, when mu is held no more: that gives memory back, which takes its time.
// Precondition: mu is held.
func (h *hostPool) drop(from, to int) (fds []int) {
	for _, s := range h.slots[from:to] {
		fds = append(fds, s.fd)
		h.bytes -= s.key.bytes
	}
	h.slots = slices.Delete(h.slots, from, to)
	return fds
}

// keep takes over as many of the slots as there is room for, the first ones, and says
// how many. Where it is full those who have more in it make room.
func (h *hostPool) keep(key slotKey, fds []int, now time.Time) (n int) {
	var old []int
	h.mu.Lock()
	for ; n < len(fds); n++ {
		for h.full(key) && h.cede(key, &old) {
		}
		if h.full(key) {
			break
		}
		h.slots = append(h.slots, keptSlot{key, fds[n], now})
		h.bytes += key.bytes
	}
	h.mu.Unlock()
	closeSlots(old)
	return n
}

// full says whether there is no room for a slot. Precondition: mu is held.
func (h *hostPool) full(key slotKey) bool {
	return h.closed || len(h.slots) >= h.most || h.bytes+key.bytes > h.limit
}

// cede takes out the oldest slot of whoever has most, if a slot's owner would still have less
// than that one has then. Precondition: mu is held.
func (h *hostPool) cede(key slotKey, old *[]int) bool {
	if len(h.slots) == 0 {
		return false
	}
	has := map[slotOwner]mem.Bytes{}
	for _, s := range h.slots {
		has[s.key.owner] += s.key.bytes
	}
	most := slices.Max(slices.Collect(maps.Values(has)))
	for i, s := range h.slots {
		if owner := s.key.owner; owner != key.owner && has[owner] == most && has[key.owner]+key.bytes <= most-s.key.bytes {
			*old = append(*old, h.drop(i, i+1)...)
			return true
		}
	}
	return false
}

// take gives the newest slots of a kind, which are the caller's then: what has waited
// for longer is what nobody needs.
func (h *hostPool) take(key slotKey, most int) (fds []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.slots) - 1; i >= 0 && len(fds) < most; i-- {
		if h.slots[i].key == key {
			fds = append(fds, h.drop(i, i+1)...)
			h.taken += key.bytes
		}
	}
	return fds
}

var errPoolled = errors.New("this process has a connection to the host pool")

// enter lets a process in, which has one connection at a time. One that is gone counts
// until its connection has ended here: each may hold a thread of the daemon's.
func (h *hostPool) enter(p *process) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, inside := h.inside[p.id]; inside {
		return errPoolled
	}
	owned := 0
	for _, uid := range h.inside {
		if uid == p.peer.UID {
			owned++
		}
	}
	if len(h.inside) >= maxProcesses || owned >= maxProcessesPerUser {
		return errTooMany
	}
	h.inside[p.id] = p.peer.UID
	return nil
}

func (h *hostPool) leave(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.inside, p.id)
}

// attached finds a registration that has its board, for its own process.
func (r *registry) attached(id plane.ProcessID, by peer.Peer) *process {
	p := r.session(id, by)
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == nil || p.ticket != "" {
		return nil
	}
	return p
}

// ownerOf is whose slots a process gives and takes.
func ownerOf(p peer.Peer) (slotOwner, error) {
	o := slotOwner{uid: p.UID}
	for name, into := range map[string]*uint64{"user": &o.user, "pid": &o.pid, "mnt": &o.mount} {
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", p.PID, name), &st); err != nil {
			return o, fmt.Errorf("read the %s namespace of %v: %w", name, p, err)
		}
		*into = st.Ino
	}
	if p.StartTime == 0 || !p.Alive() {
		return o, fmt.Errorf("read the namespaces of %v: it may be another process by now", p)
	}
	return o, nil
}

// poolClient is the daemon's side of a connection to the pool.
type poolClient struct {
	server  *Server
	process *process
	owner   slotOwner
}

// enterPool lets a process into the pool. Postcondition: without an error serve is to be
// called.
func (s *Server) enterPool(conn *net.UnixConn, who peer.Peer, session uint64) (*poolClient, error) {
	p := s.registry.attached(plane.ProcessID(session), who)
	if p == nil {
		return nil, errors.New("no such registration of this process that has its board")
	}
	owner, err := ownerOf(who)
	if err != nil {
		return nil, err
	}
	if err := s.pool.enter(p); err != nil {
		return nil, err
	}
	if err := send(conn, client.BoardReply{Version: client.BoardProtocol}); err != nil {
		s.pool.leave(p)
		return nil, err
	}
	return &poolClient{s, p, owner}, nil
}

// serve answers until the connection, the registration or ctx ends.
func (c *poolClient) serve(ctx context.Context, conn *net.UnixConn) {
	defer c.server.pool.leave(c.process)
	served := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-served:
		case <-c.process.gone:
		case <-ctx.Done():
		}
		_ = conn.Close() // ends what waits for the client
	})
	defer watch.Wait()
	defer close(served)
	for {
		if err := c.answer(conn); err != nil {
			c.server.log.Debug("host pool: connection ended", "client", c.process.peer, "why", err)
			return
		}
	}
}

// answer serves one request. An error is told to the client, and ends the connection.
func (c *poolClient) answer(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	var req client.PoolRequest
	given, err := client.ReceivePoolLine(conn, &req, handshakeLimit)
	var reply client.PoolReply
	var taken []int
	if err == nil {
		err = readAll(conn)
	}
	if err == nil {
		reply.Slots, taken, err = c.act(req, given)
	}
	// After the answer: to close the last descriptor of a slot unpins it, which may wait for
	// the driver's lock. Of those that were taken the client has its own by then.
	defer closeSlots(given[min(reply.Slots, len(given)):])
	defer closeSlots(taken)
	if err != nil {
		reply = client.PoolReply{Error: err.Error()}
	}
	if derr := conn.SetWriteDeadline(time.Now().Add(pooledAnswer)); derr != nil {
		return derr
	}
	return errors.Join(err, send(conn, reply, taken...))
}

// act does what was asked. It says how many of the given slots were kept, the first
// ones, or returns those that were taken, which are the caller's.
func (c *poolClient) act(req client.PoolRequest, given []int) (n int, taken []int, err error) {
	bytes := mem.Clamp(req.Bytes, mem.MaxBytes)
	key := slotKey{c.owner, req.Device, bytes}
	switch {
	case bytes == 0 || bytes > maxSlotBytes || bytes%mem.Granularity != 0:
		return 0, nil, fmt.Errorf("slots of %d bytes: allowed are multiples of %d up to %d", req.Bytes, mem.Granularity, maxSlotBytes)
	case req.Device == "" || len(req.Device) > maxPoolName:
		return 0, nil, fmt.Errorf("a device's name has 1 to %d bytes", maxPoolName)
	case req.Slots < 1 || req.Slots > client.MaxPoolSlots:
		return 0, nil, fmt.Errorf("%d slots: allowed are 1 to %d", req.Slots, client.MaxPoolSlots)
	}
	switch {
	case req.Op == client.PoolGive && len(given) != req.Slots:
		return 0, nil, fmt.Errorf("%d slots with %d descriptors", req.Slots, len(given))
	case req.Op == client.PoolGive && !allMemory(given, bytes):
		return 0, nil, errors.New("a descriptor is none of memory")
	case req.Op == client.PoolGive:
		return c.server.pool.keep(key, given, time.Now()), nil, nil
	case req.Op == client.PoolTake && len(given) > 0:
		return 0, nil, errors.New("a descriptor beside a request to take some")
	case req.Op == client.PoolTake:
		taken = c.server.pool.take(key, req.Slots)
		return len(taken), taken, nil
	}
	return 0, nil, errors.New("neither to give nor to take")
}

// readAll says in an error that the client has not read the last answer, whose
// descriptors are the daemon's until then. Who waits for it before he asks again has.
func readAll(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	left := 0
	var ierr error
	if err := raw.Control(func(fd uintptr) { left, ierr = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil {
		return err
	}
	if ierr == nil && left > 0 {
		return errors.New("a request before the answer to the last was read")
	}
	return ierr
}

// allMemory says whether descriptors may be slots. NVIDIA's driver gives a character
// device, or an anonymous inode, which has no type; our simulator a memfd, which has
// seals. Files of file systems are refused: one of the client's own, as by FUSE, would
// hold up whoever closes them. Such a one is not asked here either.
func allMemory(fds []int, bytes mem.Bytes) bool {
	return !slices.ContainsFunc(fds, func(fd int) bool {
		var st unix.Statx_t
		if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_NLINK|unix.STATX_SIZE, &st) != nil {
			return true
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFCHR, 0:
			return false
		case unix.S_IFREG:
			_, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
			return err != nil || st.Nlink > 0 || st.Size < uint64(bytes)
		}
		return true
	})
}

func closeSlots(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
