package board

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"xmsched/preempt/board/internal/layout"
)

// mapped lays the layout over the file. Precondition: the file has Size bytes
// and cannot shrink.
func mapped(file *os.File) (*Board, error) {
	mem, err := unix.Mmap(int(file.Fd()), 0, Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &Board{file: file, mem: mem, page: (*layout.Board)(unsafe.Pointer(&mem[0]))}, nil
}

// touch has the pages there that decisions look at: headers, device sections and
// the first queue slots, as a process takes the lowest free one. Whoever decides
// by them later takes no page fault.
func (b *Board) touch() {
	const lively = layout.SlotsOffset + 64*unsafe.Sizeof(layout.Slot{})
	for at := uintptr(0); at < lively; at += uintptr(os.Getpagesize()) {
		atomic.LoadUint32((*uint32)(unsafe.Pointer(&b.mem[at])))
	}
}
