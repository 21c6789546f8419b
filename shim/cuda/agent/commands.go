package main

/*
#include "../preload/agent.h"

// Go cannot call a pointer to a C function; these do.
static int cmd_record(const struct xm_commands *c, int on) { return c->record(on); }
static int cmd_take(const struct xm_commands *c, void *buf, uint32_t bytes) { return c->take(buf, bytes); }
static uint64_t cmd_dropped(const struct xm_commands *c) { return c->dropped(); }
static int cmd_kernel(const struct xm_commands *c, uint32_t id, struct xm_kernel *out) { return c->kernel(id, out); }
static int cmd_graph(const struct xm_commands *c, uint64_t id, void *buf, uint32_t bytes, uint64_t *version) { return c->graph(id, buf, bytes, version); }
static int cmd_ranges(const struct xm_commands *c, void *buf, uint32_t bytes) { return c->ranges(buf, bytes); }
*/
import "C"

import (
	"math"
	"unsafe"

	"xmsched/shim/agent"
)

// recorded is the C library's table of commands.
type recorded struct{ c *C.struct_xm_commands }

// commandsOf is the host's, nil for a host whose table is of another version.
func commandsOf(h *C.struct_xm_host) agent.Commands {
	if h.commands == nil || h.commands.version != C.XM_COMMANDS_VERSION || uintptr(h.commands.size) < unsafe.Sizeof(*h.commands) {
		return nil
	}
	return recorded{h.commands}
}

// room is how much of a buffer C is told of.
func room(buf []byte) (unsafe.Pointer, C.uint32_t) {
	return unsafe.Pointer(unsafe.SliceData(buf)), C.uint32_t(min(len(buf), math.MaxInt32))
}

func (r recorded) Record(on bool) bool {
	var word C.int
	if on {
		word = 1
	}
	return C.cmd_record(r.c, word) != 0
}

func (r recorded) Take(buf []byte) ([]byte, error) {
	at, n := room(buf)
	got, err := result(C.cmd_take(r.c, at, n))
	return buf[:got], err
}

func (r recorded) Dropped() uint64 { return uint64(C.cmd_dropped(r.c)) }

func (r recorded) Kernel(id uint32) (agent.Kernel, error) {
	var k C.struct_xm_kernel
	if _, err := result(C.cmd_kernel(r.c, C.uint32_t(id), &k)); err != nil {
		return agent.Kernel{}, err
	}
	return agent.DecodeKernel(unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k)))
}

func (r recorded) Graph(id uint64, buf []byte) (records []byte, version uint64, err error) {
	var v C.uint64_t
	records, err = agent.Grow(buf, func(buf []byte) (int, error) {
		at, n := room(buf)
		return result(C.cmd_graph(r.c, C.uint64_t(id), at, n, &v))
	})
	return records, uint64(v), err
}

func (r recorded) Ranges(buf []byte) ([]byte, error) {
	return agent.Grow(buf, func(buf []byte) (int, error) {
		at, n := room(buf)
		return result(C.cmd_ranges(r.c, at, n))
	})
}
