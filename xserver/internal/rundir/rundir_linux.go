// Package rundir owns the daemon's run directory: it makes it, checks who may
// write there, holds the lock that keeps a second daemon out, and clears away
// what an earlier one left. It serves nothing.
package rundir

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/xserver/client"
)

// maxSocketPath is what sockaddr_un holds, without its NUL.
const maxSocketPath = 107

// BusyError says that another daemon serves the directory.
type BusyError struct {
	Dir string
	PID int // 0: it did not write it yet
}

func (e *BusyError) Error() string {
	who := "another xserver"
	if e.PID > 0 {
		who = fmt.Sprintf("another xserver (pid %d)", e.PID)
	}
	return fmt.Sprintf("%s serves %s: stop it first, or choose another directory with --dir", who, e.Dir)
}

// Dir is a run directory that belongs to this daemon until Close.
type Dir struct {
	path   string
	lock   *os.File
	public bool // users other than the owner may connect
}

// Open makes the directory if need be, as client.MakeRunDir has it, and takes its
// lock. A *BusyError says that another daemon has it.
func Open(path string, shared bool) (*Dir, error) {
	d := &Dir{path: path}
	if longest := d.File(client.ControlSocket); len(longest) > maxSocketPath {
		return nil, fmt.Errorf("%s: the path of a socket may have %d bytes, this one has %d", longest, maxSocketPath, len(longest))
	}
	var err error
	if d.public, err = client.MakeRunDir(path, shared); err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	if err := d.take(); err != nil {
		return nil, err
	}
	return d, nil
}

// lockPatience is how long a lock is tried for: one who finds out whether a daemon
// is there has it for a moment.
const lockPatience = 100 * time.Millisecond

// take locks the directory. The lock goes with the process, however it ends.
func (d *Dir) take() error {
	f, err := os.OpenFile(d.File(client.LockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for begin := time.Now(); errors.Is(err, unix.EWOULDBLOCK) && time.Since(begin) < lockPatience; time.Sleep(time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return &BusyError{Dir: d.path, PID: readPID(f)}
		}
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := writePID(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	d.lock = f
	return nil
}

func readPID(f *os.File) int {
	var buf [32]byte
	n, _ := f.ReadAt(buf[:], 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Path is the directory.
func (d *Dir) Path() string { return d.path }

// File is the path of a file in the directory.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// Listen opens a socket in the directory, in place of one that an earlier daemon
// left.
func (d *Dir) Listen(name string) (*net.UnixListener, error) {
	path := d.File(name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("clear away stale socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	mode := os.FileMode(0o600)
	if d.public {
		mode = 0o666
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Close gives the lock back. The file stays: removing it would let two daemons
// lock two files of the same name.
func (d *Dir) Close() error { return d.lock.Close() }
