package board

import (
	"os"
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
