package device

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sys/unix"

	"xmsched/hal/kernels"
)

// errUnmapped is an access that a device would fault on.
var errUnmapped = errors.New("address is not mapped")

// errNotPeer is an access to another device's memory that the context was not given.
var errNotPeer = errors.New("memory of another device, without access to it")

// errNotManaged is a prefetch of memory that has one home for good.
var errNotManaged = errors.New("memory is not managed")

type memoryKind uint8

const (
	deviceMemory  memoryKind = iota
	hostMemory               // mapped here
	foreignMemory            // in the client only: reached through the kernel
	managedMemory            // mapped here and in the client, wherever it is at home
)

// span is one mapped range of a client's addresses. data is nil for foreign
// memory. Protected by space.mu: uses, gone.
type span struct {
	base, size uint64
	kind       memoryKind
	gpu        *gpu   // of device memory: whose
	ctx        uint64 // owner of device memory
	charge     uint64 // bytes of gpu's capacity
	data       []byte
	blocks     []block // of managed memory; protected by Device.mu
	access     uint64  // of device memory: other devices that may, a bit each; protected by space.mu
	mapped     *mapping
	uses       int
	gone       bool
}

// space is a client's address space as the device sees it: spans in order, none
// overlapping. A span taken out stays mapped here until its last use ends.
type space struct {
	pid   int
	mu    sync.Mutex
	spans []*span
	dead  []*span // taken out and unused
	peers map[peering]struct{}
	rooms []*room // reserved addresses
	left  []*span // of rooms: taken out, and still used
	fds   []int   // of physical memory that is gone: reap closes them
	empty []*room // reap unmaps them
}

// peering is one context's right to what another has on its device.
type peering struct{ ctx, peer uint64 }

// maxSpans bounds a client's ranges: each is a mapping of this process, which
// can have some 65,000.
const maxSpans = 16384

// foreignLimit bounds the copy that a view makes of memory it cannot map.
const foreignLimit = 256 << 20

func (s *space) add(n *span) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.size == 0 || n.base+n.size < n.base {
		return invalidValue
	}
	if len(s.spans) >= maxSpans {
		return outOfMemory
	}
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].base+s.spans[i].size > n.base })
	if i < len(s.spans) && s.spans[i].base < n.base+n.size {
		return alreadyMapped
	}
	s.spans = append(s.spans, nil)
	copy(s.spans[i+1:], s.spans[i:])
	s.spans[i] = n
	return success
}

// remove takes the span that begins at base out; nil when there is none that
// want accepts.
func (s *space) remove(base uint64, want func(*span) bool) *span {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, sp := range s.spans {
		if sp.base == base && want(sp) {
			s.spans = append(s.spans[:i], s.spans[i+1:]...)
			s.drop(sp)
			return sp
		}
	}
	return nil
}

// removeAll takes out every span that want accepts.
func (s *space) removeAll(want func(*span) bool) (gone []*span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.spans[:0]
	for _, sp := range s.spans {
		if !want(sp) {
			kept = append(kept, sp)
			continue
		}
		gone = append(gone, sp)
		s.drop(sp)
	}
	clear(s.spans[len(kept):])
	s.spans = kept
	return gone
}

// drop marks a span for reap, or for the end of its last use.
func (s *space) drop(sp *span) {
	sp.gone = true
	switch {
	case sp.uses == 0 && sp.mapped != nil:
		s.vacate(sp)
	case sp.mapped != nil:
		s.left = append(s.left, sp)
	case sp.uses == 0:
		s.dead = append(s.dead, sp)
	}
}

// reap unmaps what was taken out. It takes milliseconds a gigabyte: never call
// it with Device.mu held.
func (s *space) reap() {
	s.mu.Lock()
	dead, fds, empty := s.dead, s.fds, s.empty
	s.dead, s.fds, s.empty = nil, nil, nil
	s.mu.Unlock()
	for _, sp := range dead {
		sp.unmap()
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	for _, r := range empty {
		_ = unix.Munmap(r.mem)
	}
}

func (sp *span) unmap() {
	if sp.data != nil {
		_ = unix.Munmap(sp.data)
		sp.data = nil
	}
}

// acquire finds the span that holds all of [addr, addr+n) and keeps it.
func (s *space) acquire(addr, n uint64) (*span, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].base+s.spans[i].size > addr })
	if i == len(s.spans) || s.spans[i].base > addr || n > s.spans[i].base+s.spans[i].size-addr {
		return nil, fmt.Errorf("%d bytes at %#x: %w", n, addr, errUnmapped)
	}
	s.spans[i].uses++
	return s.spans[i], nil
}

// acquireAll finds and keeps the spans that hold all of [addr, addr+n): one, or
// several that are mapped side by side in one room. The bytes are nil for foreign
// memory.
func (s *space) acquireAll(addr, n uint64) ([]*span, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].base+s.spans[i].size > addr })
	unmapped := func() error { return fmt.Errorf("%d bytes at %#x: %w", n, addr, errUnmapped) }
	if i == len(s.spans) || s.spans[i].base > addr {
		return nil, nil, unmapped()
	}
	j, end := i, s.spans[i].base+s.spans[i].size
	for ; n > end-addr; j++ {
		if j+1 == len(s.spans) || s.spans[j+1].base != end || s.spans[j].mapped == nil ||
			s.spans[j+1].mapped == nil || s.spans[j].mapped.room != s.spans[j+1].mapped.room {
			return nil, nil, unmapped()
		}
		end += s.spans[j+1].size
	}
	all := append([]*span(nil), s.spans[i:j+1]...)
	for _, sp := range all {
		sp.uses++
	}
	switch first := all[0]; {
	case first.mapped != nil:
		r := first.mapped.room
		return all, r.mem[addr-r.base:][:n:n], nil
	case first.data != nil:
		return all, first.data[addr-first.base:][:n:n], nil
	}
	return all, nil, nil
}

func (s *space) release(sp *span) {
	var empty []*room
	s.mu.Lock()
	sp.uses--
	switch {
	case sp.uses > 0 || !sp.gone:
	case sp.mapped != nil:
		s.left = slices.DeleteFunc(s.left, func(o *span) bool { return o == sp })
		s.vacate(sp)
		empty, s.empty = s.empty, nil // the client may be gone, and nobody reaps
	default:
		sp.unmap()
	}
	s.mu.Unlock()
	for _, r := range empty {
		_ = unix.Munmap(r.mem)
	}
}

// home is the device that an address is at home on, or onHost. Precondition:
// Device.mu is held.
func (s *space) home(addr uint64) int8 {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sort.Search(len(s.spans), func(i int) bool { return s.spans[i].base+s.spans[i].size > addr })
	if i == len(s.spans) || s.spans[i].base > addr {
		return onHost
	}
	switch sp := s.spans[i]; sp.kind {
	case deviceMemory:
		return int8(sp.gpu.index)
	case managedMemory:
		return sp.blocks[(addr-sp.base)/blockBytes].home
	}
	return onHost
}

// setPeer gives context A access to what context B has on its device, or takes it
// back.
func (c *client) setPeer(req *request) result {
	if c.contexts[req.A] == nil || c.contexts[req.B] == nil {
		return invalidContext
	}
	s := c.space
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers == nil {
		s.peers = map[peering]struct{}{}
	}
	p := peering{req.A, req.B}
	switch _, is := s.peers[p]; {
	case is && req.C != 0:
		return peerEnabled
	case req.C != 0:
		s.peers[p] = struct{}{}
	case !is:
		return peerNotEnabled
	default:
		delete(s.peers, p)
	}
	return success
}

// share says which other devices have access to the device memory that begins at
// base, a bit each.
func (s *space) share(base, devices uint64) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spans {
		if sp.base == base && sp.kind == deviceMemory && sp.mapped == nil {
			sp.access = devices
			return success
		}
	}
	return invalidValue
}

func (s *space) forgetPeers(ctx uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		if p.ctx == ctx || p.peer == ctx {
			delete(s.peers, p)
		}
	}
}

// view is the memory of one command: it keeps what it has looked at until it is
// closed, and then writes foreign memory back. It implements kernels.Memory.
type view struct {
	space *space
	by    *gpuContext // whose rights count
	moves bool        // it is a copy, which needs no right to what another device has allocated
	loose bool        // any memory of the client's process will do
	spans []*span
	back  []foreign

	touched []touch // of managed memory; the device makes faults of it
}

type foreign struct {
	addr uint64
	data []byte
}

// View implements kernels.Memory.
func (v *view) View(addr, n uint64, a kernels.Access) ([]byte, error) {
	spans, data, err := v.space.acquireAll(addr, n)
	if err != nil && !v.loose {
		return nil, err
	}
	v.spans = append(v.spans, spans...)
	for _, sp := range spans {
		if err := v.may(sp, a); err != nil {
			return nil, fmt.Errorf("%d bytes at %#x: %w", n, addr, err)
		}
	}
	if len(spans) == 1 && spans[0].kind == managedMemory && n > 0 {
		v.touch(touch{spans[0], addr, n, a})
	}
	if data != nil {
		return data, nil
	}
	if n > foreignLimit {
		return nil, fmt.Errorf("%d bytes at %#x of memory that is not shared: at most %d", n, addr, foreignLimit)
	}
	buf := make([]byte, n)
	if a != kernels.Write {
		if err := processVM(v.space.pid, buf, addr, false); err != nil {
			return nil, err
		}
	}
	if a != kernels.Read {
		v.back = append(v.back, foreign{addr, buf})
	}
	return buf, nil
}

// touch keeps a look in mind. One that begins in the block where the last one ended
// makes that longer: a body may look at a word at a time.
func (v *view) touch(t touch) {
	if k := len(v.touched); k > 0 {
		last := &v.touched[k-1]
		end := last.addr + last.n
		if last.span == t.span && last.access == t.access && t.addr >= last.addr && (t.addr-t.span.base)/blockBytes == (end-1-t.span.base)/blockBytes {
			last.n = max(end, t.addr+t.n) - last.addr
			return
		}
	}
	v.touched = append(v.touched, t)
}

// may tells whether the view's context has access to a span, in an error.
func (v *view) may(sp *span, a kernels.Access) error {
	if sp.mapped != nil {
		return v.mayMapped(sp, a)
	}
	if v.moves || sp.kind != deviceMemory || sp.gpu == v.by.gpu {
		return nil
	}
	v.space.mu.Lock()
	defer v.space.mu.Unlock()
	if _, ok := v.space.peers[peering{v.by.id, sp.ctx}]; ok || sp.access>>v.by.gpu.index&1 != 0 {
		return nil
	}
	return errNotPeer
}

// close ends the view; err is the body's, which wins.
func (v *view) close(err error) error {
	for _, f := range v.back {
		if err == nil {
			err = processVM(v.space.pid, f.data, f.addr, true)
		}
	}
	for _, sp := range v.spans {
		v.space.release(sp)
	}
	v.spans, v.back = nil, nil
	return err
}
