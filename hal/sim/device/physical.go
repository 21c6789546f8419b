package device

import (
	"encoding/binary"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// physical is memory without an address. It goes with its last handle, in any
// process, and its last mapping; what is the host's and was exported can come back by a
// descriptor, see passed. Protected by Device.mu.
type physical struct {
	id, size uint64
	exported bool
	host     bool
	gpu      *gpu    // of device memory
	payer    *client // of host memory: whose limit it counts for
	props    [16]byte
	fd       int
	dev, ino uint64
	handles  map[*client]int
	maps     int
}

// callTime is how long the driver is busy with a request; 0 for those that are quick.
func (d *Device) callTime(req *request) time.Duration {
	m := d.gpus[0].machine
	switch {
	case req.Op == opPhysCreate && req.C != 0:
		return m.PinTime(min(req.A, hostLimit))
	case req.Op == opMap:
		d.mu.Lock()
		defer d.mu.Unlock()
		if p := d.physical[req.D]; p != nil && p.host {
			return m.MapTime(min(req.B, p.size))
		}
	}
	return 0
}

// mapped acts on a request about memory that is mapped by hand. Precondition:
// Device.mu is held.
func (d *Device) mapped(c *client, g *gpu, req *request, fds []int) (reply, int) {
	switch req.Op {
	case opPhysCreate:
		return d.physCreate(c, g, req), -1
	case opPhysImport:
		return d.physImport(c, req, fds), -1
	case opReserve:
		return reply{Result: c.space.reserve(req.A, req.B)}, -1
	case opUnreserve:
		return reply{Result: c.space.unreserve(req.A)}, -1
	case opUnmap:
		return reply{Result: d.unmap(c, req)}, -1
	case opMapAccess:
		return reply{Result: c.space.setAccess(req)}, -1
	}
	id := req.A
	if req.Op == opMap {
		id = req.D
	}
	p := d.physical[id]
	if p == nil || p.handles[c] == 0 && !(req.Op == opPhysExport && c.space.maps(p)) {
		return reply{Result: invalidValue}, -1
	}
	switch req.Op {
	case opPhysRelease:
		if p.handles[c]--; p.handles[c] == 0 {
			delete(p.handles, c)
		}
		d.settle(c.space, p)
		return reply{}, -1
	case opPhysExport:
		fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return reply{Result: operatingSystem}, -1
		}
		p.exported = true
		return reply{}, fd
	}
	if req.A%blockBytes != 0 || req.B == 0 || req.B%blockBytes != 0 || req.C%blockBytes != 0 || req.C > p.size || req.B > p.size-req.C {
		return reply{Result: invalidValue}, -1
	}
	r := c.space.place(req.A, req.B, req.C, p)
	if r == success {
		p.maps++
	}
	return reply{Result: r}, -1
}

// physCreate makes A bytes: of device g (C is 0) or of the host. The text holds what
// importers are to know.
func (d *Device) physCreate(c *client, g *gpu, req *request) reply {
	p := &physical{size: req.A, host: req.C != 0, gpu: g, handles: map[*client]int{c: 1}}
	if p.size == 0 || p.size%blockBytes != 0 {
		return reply{Result: invalidValue}
	}
	if p.size > largest || p.host && p.size > hostLimit-c.hostBytes || !p.host && !g.capacity.Reserve(p.size) {
		return reply{Result: outOfMemory}
	}
	fd, err := sealedMemfd("xmsched-sim-mem", p.size)
	if err == nil {
		p.dev, p.ino, _ = identify(fd)
	} else {
		if !p.host {
			g.capacity.Return(p.size)
		}
		d.log.Warn("make memory", "bytes", p.size, "err", err)
		return reply{Result: outOfMemory}
	}
	if p.host {
		p.gpu, p.payer = nil, c
		c.hostBytes += p.size
	}
	copy(p.props[:], req.Text[:])
	d.lastPhys++
	p.id, p.fd = d.lastPhys, fd
	d.physical[p.id] = p
	delete(d.passed, fileID{p.dev, p.ino}) // that one is closed
	return reply{A: p.id}
}

// physImport gives one more handle: for memory that another process, or this one,
// exported, or that is mapped here.
func (d *Device) physImport(c *client, req *request, fds []int) reply {
	p := d.physical[req.A]
	if p != nil && p.handles[c] == 0 && !c.space.maps(p) {
		p = nil
	}
	if len(fds) == 1 {
		if p = d.exported(fds[0]); p == nil {
			p = d.revive(c, fds[0])
		}
	}
	if p == nil {
		return reply{Result: invalidValue}
	}
	p.handles[c]++
	rep := reply{A: p.id, B: p.size}
	copy(rep.Text[:], p.props[:])
	return rep
}

// exported is the memory behind a descriptor, or nil.
func (d *Device) exported(fd int) *physical {
	dev, ino, ok := identify(fd)
	for _, p := range d.physical {
		if ok && p.dev == dev && p.ino == ino {
			return p
		}
	}
	return nil
}

// passed is memory of the host that nobody has but through a descriptor, as far as we know:
// the driver's is there for as long as that is.
type passed struct {
	size  uint64
	props [16]byte
}

// fileID names a memfd for as long as it is open.
type fileID struct{ dev, ino uint64 }

// mostPassed bounds what is remembered of memory whose descriptors may all be closed.
const mostPassed = 1 << 14

// revive gives memory back that was exported, and whose last handle and mapping went since.
func (d *Device) revive(c *client, fd int) *physical {
	dev, ino, ok := identify(fd)
	was, known := d.passed[fileID{dev, ino}]
	if !ok || !known || was.size > hostLimit-c.hostBytes {
		return nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil
	}
	delete(d.passed, fileID{dev, ino})
	c.hostBytes += was.size
	d.lastPhys++
	p := &physical{
		id: d.lastPhys, size: was.size, exported: true, host: true, payer: c, props: was.props,
		fd: own, dev: dev, ino: ino, handles: map[*client]int{},
	}
	d.physical[p.id] = p
	return p
}

// maps tells whether a client has a mapping of physical memory.
func (s *space) maps(p *physical) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.spans, func(sp *span) bool { return sp.mapped != nil && sp.mapped.phys == p })
}

// unmap maps [A, A+B), whole pieces, to nothing.
func (d *Device) unmap(c *client, req *request) result {
	s := c.space
	s.mu.Lock()
	pieces, err := s.pieces(req.A, req.B)
	if err != nil {
		s.mu.Unlock()
		return invalidValue
	}
	kept := s.spans[:0]
	for _, sp := range s.spans {
		if sp.base < req.A || sp.base >= req.A+req.B {
			kept = append(kept, sp)
		}
	}
	clear(s.spans[len(kept):])
	s.spans = kept
	for _, sp := range pieces {
		s.drop(sp)
	}
	s.mu.Unlock()
	for _, sp := range pieces {
		d.unmapped(s, sp.mapped.phys)
	}
	return success
}

// setAccess says which of the devices in the text may read (C) and write (D) the
// pieces of [A, A+B).
func (s *space) setAccess(req *request) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	pieces, err := s.pieces(req.A, req.B)
	if err != nil {
		return invalidValue
	}
	whose := binary.LittleEndian.Uint64(req.Text[:])
	for _, sp := range pieces {
		m := sp.mapped
		m.readable = m.readable&^whose | (req.C|req.D)&whose
		m.writable = m.writable&^whose | req.D&whose
	}
	return success
}

// unmapped counts a mapping less.
func (d *Device) unmapped(s *space, p *physical) {
	p.maps--
	d.settle(s, p)
}

// settle ends physical memory that nobody has any more.
func (d *Device) settle(s *space, p *physical) {
	if len(p.handles) > 0 || p.maps > 0 {
		return
	}
	delete(d.physical, p.id)
	if p.gpu != nil {
		p.gpu.capacity.Return(p.size)
	} else {
		p.payer.hostBytes -= p.size
		if p.exported && len(d.passed) < mostPassed {
			d.passed[fileID{p.dev, p.ino}] = passed{p.size, p.props}
		}
	}
	s.mu.Lock()
	s.fds = append(s.fds, p.fd)
	s.mu.Unlock()
}
