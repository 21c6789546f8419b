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

// Open makes the directory if need be and takes its lock. A *BusyError says that
// another daemon has it.
func Open(path string) (*Dir, error) {
	d := &Dir{path: path}
	if longest := d.File(client.ControlSocket); len(longest) > maxSocketPath {
		return nil, fmt.Errorf("%s: the path of a socket may have %d bytes, this one has %d", longest, maxSocketPath, len(longest))
	}
	if err := d.make(); err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	if err := d.take(); err != nil {
		return nil, err
	}
	return d, nil
}

// make creates the directory, for its owner alone; root's usual one, whose daemon
// serves everyone, may be passed through. An existing directory is closed to
// others, but that root may have opened another one to passage (0711), for
// containers and other users.
func (d *Dir) make() error {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o755); err != nil {
		return err
	}
	root := os.Geteuid() == 0
	mode := os.FileMode(0o700)
	if root && d.path == client.SystemDir {
		mode = 0o711
	}
	switch err := os.Mkdir(d.path, mode); {
	case errors.Is(err, os.ErrExist):
		var st unix.Stat_t
		if err := unix.Lstat(d.path, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return fmt.Errorf("%s is not a directory", d.path)
		}
		if int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to uid %d, not to us (%d)", d.path, st.Uid, os.Geteuid())
		}
		mode = 0o700
		if root {
			mode |= os.FileMode(st.Mode & 0o011)
		}
	case err != nil:
		return err
	}
	d.public = mode&0o001 != 0
	return os.Chmod(d.path, mode) // whatever the umask was
}

// take locks the directory. The lock goes with the process, however it ends.
func (d *Dir) take() error {
	f, err := os.OpenFile(d.File(client.LockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
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
