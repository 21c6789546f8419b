package device

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newMemfd makes sealed memory of n bytes: whoever holds a descriptor can map
// it, nobody can shrink it under the others.
func newMemfd(name string, n uint64) (int, []byte, error) {
	fd, err := sealedMemfd(name, n)
	if err != nil {
		return -1, nil, err
	}
	data, err := unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		_ = unix.Close(fd)
		return -1, nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	return fd, data, nil
}

// sealedMemfd is newMemfd that maps nothing.
func sealedMemfd(name string, n uint64) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("make memory: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(n)); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("size memory to %d bytes: %w", n, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("seal memory: %w", err)
	}
	return fd, nil
}

// reserveAddresses maps n bytes of this process's addresses to nothing.
func reserveAddresses(n uint64) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", n, err)
	}
	return mem, nil
}

// mapInto maps a descriptor's bytes over reserved addresses; fd -1 maps them to
// nothing again.
func mapInto(mem []byte, fd int, offset uint64) error {
	prot, flags := unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED
	if fd < 0 {
		prot, flags = unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS
	}
	_, err := unix.MmapPtr(fd, int64(offset), unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)), prot, flags|unix.MAP_FIXED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", len(mem), err)
	}
	return nil
}

// word32 and word64 are atomics in shared memory. Precondition: offset is
// aligned and in bounds; offsets are ours, never a client's unchecked number.
func word32(mem []byte, offset int) *atomic.Uint32 {
	_ = mem[offset+3]
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(mem[offset:])))
}

func word64(mem []byte, offset int) *atomic.Uint64 {
	_ = mem[offset+7]
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(mem[offset:])))
}

// readEntry copies an entry out of a ring, once.
func readEntry(mem []byte, offset int) entry {
	_ = mem[offset+entryBytes-1]
	return *(*entry)(unsafe.Pointer(unsafe.SliceData(mem[offset:])))
}

// wakeAll wakes everybody who sleeps on a word, in any process.
func wakeAll(w *atomic.Uint64) {
	const futexWake = 1
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, 1<<30, 0, 0, 0)
}

func (r *request) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
}

func (r *reply) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r)) }

// processVM moves len(local) bytes between here and another process's address.
func processVM(pid int, local []byte, remote uint64, write bool) error {
	if len(local) == 0 {
		return nil
	}
	liov := []unix.Iovec{{Base: &local[0], Len: uint64(len(local))}}
	riov := []unix.RemoteIovec{{Base: uintptr(remote), Len: len(local)}}
	call := unix.ProcessVMReadv
	if write {
		call = unix.ProcessVMWritev
	}
	n, err := call(pid, liov, riov, 0)
	if err != nil {
		return fmt.Errorf("memory of process %d at %#x: %w", pid, remote, err)
	}
	if n != len(local) {
		return fmt.Errorf("memory of process %d at %#x: %d of %d bytes", pid, remote, n, len(local))
	}
	return nil
}
