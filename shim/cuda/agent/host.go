package main

/*
#cgo CFLAGS: -std=c11 -O2 -Wall -Wextra -Werror
#include <stdlib.h>
#include "../preload/agent.h"

// Go cannot call a pointer to a C function; these do.
static int  host_attach(const struct xm_host *h, int board, int bell) { return h->attach(board, bell); }
static void host_detach(const struct xm_host *h) { h->detach(); }
static int  host_wait_news(const struct xm_host *h, int ms) { return h->wait_news(ms); }
static int  host_uncovered(const struct xm_host *h, char *buf, int n) { return h->uncovered(buf, n); }
static void host_left(const struct xm_host *h) { h->left(); }
static void host_warn_once(const struct xm_host *h, int code, const char *text) { h->warn_once(code, text); }
*/
import "C"

import (
	"strings"
	"syscall"
	"time"
	"unsafe"

	"xmsched/shim/agent"
)

// host is the C library.
type host struct{ h *C.struct_xm_host }

func (h host) Attach(boardFD, bellFD int) error {
	if e := C.host_attach(h.h, C.int(boardFD), C.int(bellFD)); e != 0 {
		return syscall.Errno(-e)
	}
	return nil
}

func (h host) Detach() { C.host_detach(h.h) }

func (h host) WaitNews(limit time.Duration) agent.News {
	return agent.News(C.host_wait_news(h.h, C.int(limit.Milliseconds())))
}

// Uncovered asks with a larger buffer until all names fit; they only get more.
func (h host) Uncovered() []string {
	for size := 4096; size <= 1<<20; size *= 4 {
		buf := make([]byte, size)
		n := int(C.host_uncovered(h.h, (*C.char)(unsafe.Pointer(&buf[0])), C.int(size)))
		if n > size {
			continue
		}
		return strings.FieldsFunc(string(buf[:max(n, 0)]), func(r rune) bool { return r == '\n' })
	}
	return nil
}

func (h host) WarnOnce(code agent.Warning, text string) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	C.host_warn_once(h.h, C.int(code), c)
}

func (h host) Left() { C.host_left(h.h) }
