package device

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"xmsched/hal/kernels"
)

// Memory that a program maps by hand: addresses are reserved (a room), physical
// memory is made apart from them, and mapped there piece by piece. This process maps
// it in the same way, so that pieces side by side are one piece of memory here too.
//
// A piece that is unmapped while a body uses it stays mapped here until the body has
// ended, or until something else is mapped in its place.

// errNoAccess is an access to mapped memory that the device was not given.
var errNoAccess = errors.New("mapped without access")

// room is a reserved range of addresses. Protected by space.mu: spans, gone.
type room struct {
	base, size uint64
	mem        []byte
	spans      int // mapped in it, or taken out and still used
	gone       bool
}

// mapping is what a span has when it is a piece of physical memory in a room.
// Protected by space.mu: readable, writable.
type mapping struct {
	room               *room
	phys               *physical
	readable, writable uint64 // devices, a bit each
}

// roomLimit bounds what one process reserves: all of them share this one's addresses.
const roomLimit = 4 << 40

// mayMapped tells whether the view's device was given access to a mapped span.
func (v *view) mayMapped(sp *span, a kernels.Access) error {
	v.space.mu.Lock()
	defer v.space.mu.Unlock()
	bit := uint64(1) << v.by.gpu.index
	if sp.mapped.readable&bit == 0 || a != kernels.Read && sp.mapped.writable&bit == 0 {
		return errNoAccess
	}
	return nil
}

// vacate takes a span's bytes off its room, where nothing else has taken their place.
// Precondition: s.mu is held; nobody uses the span.
func (s *space) vacate(sp *span) {
	r := sp.mapped.room
	r.spans--
	if r.gone {
		if r.spans == 0 {
			s.empty = append(s.empty, r)
		}
		return
	}
	at, end := sp.base, sp.base+sp.size
	for _, o := range s.taken(sp) {
		if o.base > at {
			_ = mapInto(r.mem[at-r.base:o.base-r.base], -1, 0)
		}
		at = max(at, o.base+o.size)
	}
	if at < end {
		_ = mapInto(r.mem[at-r.base:end-r.base], -1, 0)
	}
}

// taken lists, by address, what else lies where a span lies. Precondition: s.mu is
// held.
func (s *space) taken(sp *span) (all []*span) {
	for _, list := range [][]*span{s.spans, s.left} {
		for _, o := range list {
			if o != sp && o.base < sp.base+sp.size && sp.base < o.base+o.size {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b *span) int {
		if a.base < b.base {
			return -1
		}
		return 1
	})
	return all
}

// reserve makes a room of [base, base+n).
func (s *space) reserve(base, n uint64) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == 0 || base == 0 || n%pageBytes != 0 || base%blockBytes != 0 || base+n < base {
		return invalidValue
	}
	sum := n
	for _, r := range s.rooms {
		if r.base < base+n && base < r.base+r.size {
			return invalidValue
		}
		sum += r.size
	}
	if n > roomLimit || sum > roomLimit {
		return outOfMemory
	}
	mem, err := reserveAddresses(n)
	if err != nil {
		return outOfMemory
	}
	s.rooms = append(s.rooms, &room{base: base, size: n, mem: mem})
	return success
}

// unreserve ends an empty room.
func (s *space) unreserve(base uint64) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.rooms {
		if r.base != base {
			continue
		}
		if len(s.inside(r)) > 0 {
			return invalidValue
		}
		s.rooms = slices.Delete(s.rooms, i, i+1)
		s.end(r)
		return success
	}
	return invalidValue
}

// inside lists what is mapped in a room. Precondition: s.mu is held.
func (s *space) inside(r *room) (all []*span) {
	for _, sp := range s.spans {
		if sp.mapped != nil && sp.mapped.room == r {
			all = append(all, sp)
		}
	}
	return all
}

// end lets a room's addresses go when the last user of its memory has. Precondition:
// s.mu is held.
func (s *space) end(r *room) {
	if r.gone = true; r.spans == 0 {
		s.empty = append(s.empty, r)
	}
}

// place maps n bytes of physical memory at addr.
func (s *space) place(addr, n, offset uint64, p *physical) result {
	s.mu.Lock()
	i := slices.IndexFunc(s.rooms, func(r *room) bool { return r.base <= addr && n <= r.size && addr-r.base <= r.size-n })
	if i < 0 {
		s.mu.Unlock()
		return invalidValue
	}
	r := s.rooms[i]
	s.mu.Unlock() // nobody else changes a client's spans: its requests come one by one
	sp := &span{base: addr, size: n, kind: deviceMemory, gpu: p.gpu, data: r.mem[addr-r.base:][:n:n], mapped: &mapping{room: r, phys: p}}
	if p.host {
		sp.kind = hostMemory
	}
	if res := s.add(sp); res != success {
		if res == alreadyMapped {
			res = invalidValue
		}
		return res
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.spans++
	if err := mapInto(sp.data, p.fd, offset); err != nil {
		s.spans = slices.DeleteFunc(s.spans, func(o *span) bool { return o == sp })
		s.drop(sp)
		return outOfMemory
	}
	return success
}

// pieces are the mapped spans that make up [addr, addr+n) exactly. Precondition: s.mu
// is held.
func (s *space) pieces(addr, n uint64) ([]*span, error) {
	var all []*span
	at := addr
	for _, sp := range s.spans {
		if sp.mapped != nil && sp.base == at && at-addr < n {
			all = append(all, sp)
			at += sp.size
		}
	}
	if n == 0 || at-addr != n {
		return nil, fmt.Errorf("%d bytes at %#x: %w", n, addr, errUnmapped)
	}
	return all, nil
}

// forgetMapped takes all rooms of a client away, with what is mapped in them, and its
// handles. Precondition: Device.mu is held.
func (d *Device) forgetMapped(c *client) {
	s := c.space
	s.mu.Lock()
	var spans []*span
	for _, r := range s.rooms {
		inside := s.inside(r)
		s.end(r)
		spans = append(spans, inside...)
	}
	s.rooms = nil
	s.spans = slices.DeleteFunc(s.spans, func(sp *span) bool { return sp.mapped != nil })
	for _, sp := range spans {
		s.drop(sp)
	}
	s.mu.Unlock()
	for _, sp := range spans {
		d.unmapped(s, sp.mapped.phys)
	}
	for _, p := range d.physical {
		if p.handles[c] > 0 {
			delete(p.handles, c)
			d.settle(s, p)
		}
	}
}

// identify says which file a descriptor is of.
func identify(fd int) (dev, ino uint64, ok bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0, 0, false
	}
	return uint64(st.Dev), st.Ino, true
}
