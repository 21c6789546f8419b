package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// Find gives the address of a function that the CUDA driver's library exports; 0:
// it has none of that name.
type Find func(symbol string) uintptr

// SystemOf is the kernel's driver, or the simulated one where that is the library.
func SystemOf(find Find) System {
	if ioctl, open := find("xm_sim_ioctl"), find("xm_sim_open"); ioctl != 0 && open != 0 {
		return simulated{ioctl, open}
	}
	return Kernel{}
}

// Kernel is the driver in the kernel.
type Kernel struct{}

// Spaces looks through this process's descriptors.
func (Kernel) Spaces() ([]int, error) {
	const dir = "/proc/self/fd"
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, e := range names {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if fd, bad := strconv.Atoi(e.Name()); err == nil && bad == nil && to == spacePath {
			all = append(all, fd)
		}
	}
	slices.Sort(all)
	return all, nil
}

// OpenTools implements System.
func (Kernel) OpenTools() (int, error) {
	fd, err := unix.Open(toolsPath, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", toolsPath, err)
	}
	return fd, nil
}

// Ioctl implements System.
func (Kernel) Ioctl(fd int, request uint64, argument unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(argument))
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// simulated is the simulated driver, by its own open and ioctl.
type simulated struct{ ioctl, open uintptr }

var errSimulated = errors.New("the simulated driver refused")

func (s simulated) openFile(path string) (int, error) {
	name := append([]byte(path), 0)
	fd, _, _ := purego.SyscallN(s.open, uintptr(unsafe.Pointer(&name[0])))
	runtime.KeepAlive(name)
	if int32(fd) < 0 {
		return -1, fmt.Errorf("open %s: %w", path, errSimulated)
	}
	return int(int32(fd)), nil
}

func (s simulated) Spaces() ([]int, error) {
	fd, err := s.openFile(spacePath)
	return []int{fd}, err
}

func (s simulated) OpenTools() (int, error) { return s.openFile(toolsPath) }

func (s simulated) Ioctl(fd int, request uint64, argument unsafe.Pointer) error {
	r, _, _ := purego.SyscallN(s.ioctl, uintptr(fd), uintptr(request), uintptr(argument))
	if int32(r) < 0 {
		return errSimulated
	}
	return nil
}
