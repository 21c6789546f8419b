package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kernelLog reads what the kernel says from its opening on: the NVIDIA driver
// writes a line with "Xid" when something went wrong on the device.
type kernelLog struct {
	file *os.File // /dev/kmsg, at the first record after the opening
}

// openKernelLog fails where this user, or this container, may not read it.
func openKernelLog() (*kernelLog, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("read the kernel's log: /dev/kmsg: %w", err)
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("read the kernel's log: /dev/kmsg: %w", err)
	}
	return &kernelLog{os.NewFile(uintptr(fd), "/dev/kmsg")}, nil
}

// xids gives the lines with an Xid since the last call.
func (k *kernelLog) xids() ([]string, error) {
	var found []string
	record := make([]byte, 8192) // a record is read whole
	for {
		// A deadline, for the runtime would wait for the next record.
		_ = k.file.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := k.file.Read(record)
		switch {
		case errors.Is(err, unix.EPIPE): // some were overwritten; the next one is the oldest
			continue
		case err != nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, unix.EAGAIN) || errors.Is(err, io.EOF)):
			return found, nil
		case err != nil:
			return found, fmt.Errorf("read the kernel's log: %w", err)
		}
		// "priority,number,time,flags;text"
		_, text, _ := bytes.Cut(record[:n], []byte(";"))
		if line := strings.TrimSpace(string(text)); isXid(line) {
			found = append(found, line)
		}
	}
}

func isXid(line string) bool { return strings.Contains(line, "NVRM") && strings.Contains(line, "Xid") }

func (k *kernelLog) close() { _ = k.file.Close() }
