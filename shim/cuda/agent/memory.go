package main

/*
#include "../preload/agent.h"

// Go cannot call a pointer to a C function; these do.
static int mem_list(const struct xm_memory *m, uint32_t s, struct xm_segment *views, int n) { return m->list(s, views, n); }
static int mem_device(const struct xm_memory *m, uint32_t s) { return m->device(s); }
static int mem_begin(const struct xm_memory *m, uint32_t s) { return m->begin(s); }
static int mem_end(const struct xm_memory *m, uint32_t s) { return m->end(s); }
static int mem_wanted(const struct xm_memory *m, uint32_t s) { return m->wanted(s); }
static int mem_slots(const struct xm_memory *m, uint32_t s, uint32_t count, uint64_t bytes) { return m->slots(s, count, bytes); }
static int mem_trim(const struct xm_memory *m, uint32_t s, uint64_t bytes) { return m->trim(s, bytes); }
static int mem_slot(const struct xm_memory *m, uint32_t s, uint64_t id, uint64_t *at) { return m->slot(s, id, at); }
static int mem_away(const struct xm_memory *m, uint32_t s, const uint64_t *ids, int n) { return m->away(s, ids, n); }
static int mem_load(const struct xm_memory *m, uint32_t s, const uint64_t *ids, int n) { return m->load(s, ids, n); }
static int mem_loaded(const struct xm_memory *m, uint32_t s, const uint64_t *ids, int n) { return m->loaded(s, ids, n); }
static int mem_unheld(const struct xm_memory *m, uint32_t s, int begin) { return m->unheld(s, begin); }
static int mem_pool(const struct xm_memory *m, uint32_t s, uint64_t *all, uint64_t *idle) { return m->pool(s, all, idle); }
static int mem_spare(const struct xm_memory *m, uint32_t s, const uint64_t *ids, int n) { return m->spare(s, ids, n); }
static int mem_home(const struct xm_memory *m, uint32_t s, const uint64_t *ids, int n) { return m->home(s, ids, n); }
static int mem_forgo(const struct xm_memory *m, uint32_t s, uint64_t keep, uint64_t *kept) { return m->forgo(s, keep, kept); }
static int mem_give(const struct xm_memory *m, uint32_t s, int *fd, uint64_t *bytes) { return m->give(s, fd, bytes); }
static int mem_given(const struct xm_memory *m, uint32_t s, uint64_t bytes) { return m->given(s, bytes); }
static int mem_accept(const struct xm_memory *m, uint32_t s, int fd, uint64_t bytes) { return m->accept(s, fd, bytes); }
static int mem_flight(const struct xm_memory *m, uint32_t s, int begin) { return m->flight(s, begin); }
static void *mem_driver(const struct xm_memory *m, const char *name) { return m->driver(name); }
*/
import "C"

import (
	"sync"
	"syscall"
	"unsafe"

	"xmsched/hal/cuda/abi"
	"xmsched/memory"
	"xmsched/nvx/mover"
)

// lent is the C library's memory table. Sections may be used at once.
type lent struct {
	m *C.struct_xm_memory

	mu    sync.Mutex
	views []C.struct_xm_segment // protected by mu
}

// memoryOf is the host's memory, nil for a host whose table is of another version.
func memoryOf(h *C.struct_xm_host) mover.Memory {
	if h.memory == nil || h.memory.version != C.XM_MEMORY_VERSION || uintptr(h.memory.size) < unsafe.Sizeof(*h.memory) {
		return nil
	}
	return &lent{m: h.memory}
}

// result is a count, or the error that a negative errno stands for.
func result(r C.int) (int, error) {
	if r < 0 {
		return 0, syscall.Errno(-r)
	}
	return int(r), nil
}

// status is the error of a call that gives a negative errno or the driver's result.
func status(r C.int) error {
	switch {
	case r < 0:
		return syscall.Errno(-r)
	case r > 0:
		return abi.Result(r)
	}
	return nil
}

// List asks with a larger buffer until all segments fit.
func (l *lent) List(section int, into []memory.Segment) ([]memory.Segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	into = into[:0]
	for {
		n, err := result(C.mem_list(l.m, C.uint32_t(section), unsafe.SliceData(l.views), C.int(len(l.views))))
		if err != nil {
			return into, err
		}
		if n > len(l.views) {
			l.views = make([]C.struct_xm_segment, n+n/4)
			continue
		}
		for i := range l.views[:n] {
			into = append(into, segment(&l.views[i]))
		}
		return into, nil
	}
}

func segment(v *C.struct_xm_segment) memory.Segment {
	s := memory.Segment{
		ID: memory.ID(v.id), Address: uint64(v.address), Bytes: memory.Clamp(uint64(v.bytes), memory.MaxBytes),
		State: memory.State(v.state), Arena: v.flags&C.XM_SEGMENT_ARENA != 0,
		Allocation: uint64(v.allocation), Used: uint64(v.used),
		Kept: v.flags&C.XM_SEGMENT_KEPT != 0, Version: uint64(v.version),
	}
	if v.flags&(C.XM_SEGMENT_PINNED|C.XM_SEGMENT_BUSY) != 0 {
		s.Pin = memory.Asked // it stays, whatever the reason
	}
	return s
}

func (l *lent) Device(section int) (int, error) {
	return result(C.mem_device(l.m, C.uint32_t(section)))
}
func (l *lent) Begin(section int) error { return status(C.mem_begin(l.m, C.uint32_t(section))) }
func (l *lent) End(section int) error   { return status(C.mem_end(l.m, C.uint32_t(section))) }
func (l *lent) Wanted(section int) bool { return C.mem_wanted(l.m, C.uint32_t(section)) != 0 }

func (l *lent) Slots(section, count int, size memory.Bytes) error {
	return status(C.mem_slots(l.m, C.uint32_t(section), C.uint32_t(count), C.uint64_t(size)))
}

func (l *lent) Trim(section int, keep memory.Bytes) error {
	return status(C.mem_trim(l.m, C.uint32_t(section), C.uint64_t(keep)))
}

func (l *lent) Pool(section int) (all, idle memory.Bytes, err error) {
	var a, i C.uint64_t
	err = status(C.mem_pool(l.m, C.uint32_t(section), &a, &i))
	return memory.Clamp(uint64(a), memory.MaxBytes), memory.Clamp(uint64(i), memory.MaxBytes), err
}

func (l *lent) Slot(section int, id memory.ID) (uint64, error) {
	var at C.uint64_t
	err := status(C.mem_slot(l.m, C.uint32_t(section), C.uint64_t(id), &at))
	return uint64(at), err
}

// ids passes segments on, at most XM_MEMORY_BATCH at a time.
func ids(list []memory.ID, call func(*C.uint64_t, C.int) C.int) error {
	for len(list) > 0 {
		n := min(len(list), C.XM_MEMORY_BATCH)
		if err := status(call((*C.uint64_t)(unsafe.Pointer(&list[0])), C.int(n))); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func (l *lent) Away(section int, list []memory.ID) error {
	return ids(list, func(p *C.uint64_t, n C.int) C.int { return C.mem_away(l.m, C.uint32_t(section), p, n) })
}

func (l *lent) Load(section int, list []memory.ID) error {
	return ids(list, func(p *C.uint64_t, n C.int) C.int { return C.mem_load(l.m, C.uint32_t(section), p, n) })
}

func (l *lent) Loaded(section int, list []memory.ID) error {
	return ids(list, func(p *C.uint64_t, n C.int) C.int { return C.mem_loaded(l.m, C.uint32_t(section), p, n) })
}

func (l *lent) Spare(section int, list []memory.ID) error {
	return ids(list, func(p *C.uint64_t, n C.int) C.int { return C.mem_spare(l.m, C.uint32_t(section), p, n) })
}

func (l *lent) Home(section int, list []memory.ID) error {
	return ids(list, func(p *C.uint64_t, n C.int) C.int { return C.mem_home(l.m, C.uint32_t(section), p, n) })
}

func (l *lent) Forgo(section int, keep memory.Bytes) (memory.Bytes, error) {
	var kept C.uint64_t
	err := status(C.mem_forgo(l.m, C.uint32_t(section), C.uint64_t(keep), &kept))
	return memory.Clamp(uint64(kept), memory.MaxBytes), err
}

func (l *lent) Give(section int) (fd int, bytes memory.Bytes, err error) {
	d, n := C.int(-1), C.uint64_t(0)
	err = status(C.mem_give(l.m, C.uint32_t(section), &d, &n))
	return int(d), memory.Clamp(uint64(n), memory.MaxBytes), err
}

func (l *lent) Given(section int, bytes memory.Bytes) error {
	return status(C.mem_given(l.m, C.uint32_t(section), C.uint64_t(bytes)))
}

func (l *lent) Accept(section, fd int, bytes memory.Bytes) error {
	return status(C.mem_accept(l.m, C.uint32_t(section), C.int(fd), C.uint64_t(bytes)))
}

func (l *lent) Flight(section int, begin bool) error {
	return status(C.mem_flight(l.m, C.uint32_t(section), word(begin)))
}

func (l *lent) Unheld(section int, begin bool) error {
	return status(C.mem_unheld(l.m, C.uint32_t(section), word(begin)))
}

func word(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func (l *lent) Driver(symbol string) uintptr {
	name := append([]byte(symbol), 0)
	return uintptr(C.mem_driver(l.m, (*C.char)(unsafe.Pointer(&name[0]))))
}
