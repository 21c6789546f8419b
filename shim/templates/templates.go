// Package templates keeps what was learnt of kernels on disk, so that it is learnt
// once: one file a user, shared by all processes of that user.
//
// It is the edge of package predictor: files, owners and locks live here, formats
// there. What is read may be old, damaged or somebody else's; then it is ignored,
// with a reason, and never followed. A file is replaced as a whole or not at all.
// Nothing here runs on a program's own threads.
package templates

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"xmsched/predictor"
)

const (
	// Variable names the directory in place of the user's own; Off: no store is
	// read or written.
	Variable = "XMSCHED_TEMPLATES"
	Off      = "off"

	fileName = "store"
	lockName = "lock"

	// lockLimit bounds the wait for another process that writes: a stopped one
	// must not keep this one from ending.
	lockLimit = 2 * time.Second
	lockLook  = 5 * time.Millisecond

	// tempAge is how old what a writer left behind must be to be removed.
	tempAge = time.Hour
)

// ErrOff says that the user wants no store.
var ErrOff = errors.New("templates are off (" + Variable + "=" + Off + ")")

// IgnoredError says why a store is not used. Whoever gets it goes on without.
type IgnoredError struct {
	Path   string // the file, or the directory that it would be in
	Reason error
}

func (e *IgnoredError) Error() string {
	if filepath.Base(e.Path) != fileName {
		return fmt.Sprintf("ignored templates in %s: %v", e.Path, e.Reason)
	}
	return fmt.Sprintf("ignored %s: %v; `xcli templates clear` removes it", e.Path, e.Reason)
}

func (e *IgnoredError) Unwrap() error { return e.Reason }

// Dir is the directory of this process's user, which need not be there.
func Dir() (string, error) {
	if dir := os.Getenv(Variable); dir == Off {
		return "", ErrOff
	} else if dir != "" {
		return filepath.Abs(dir)
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as its specification says
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("where templates are kept: %w: set %s", err, Variable)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "xmsched", "templates"), nil
}

// Store is a directory with templates. It holds nothing open.
type Store struct{ dir string }

// Open returns the store in a directory, which is made when something is saved.
func Open(dir string) Store { return Store{dir} }

// Path is the file with the templates.
func (s Store) Path() string { return filepath.Join(s.dir, fileName) }

// Load reads the store; one that is not there is empty. The error is an
// *IgnoredError, and the library is empty then.
func (s Store) Load() (*predictor.Library, error) {
	data, err := s.read()
	if err == nil && data != nil {
		var l *predictor.Library
		if l, err = predictor.Decode(data, predictor.Config{}); err == nil {
			return l, nil
		}
	}
	if ignored := (*IgnoredError)(nil); err != nil && !errors.As(err, &ignored) {
		err = &IgnoredError{s.Path(), err}
	}
	return predictor.NewLibrary(predictor.Config{}), err
}

// read returns the file's bytes, nil if there is none.
func (s Store) read() ([]byte, error) {
	dir, err := openOwn(unix.AT_FDCWD, s.dir, unix.O_DIRECTORY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &IgnoredError{s.dir, err}
	}
	defer dir.Close()
	f, err := openOwn(int(dir.Fd()), fileName, unix.O_NONBLOCK)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > predictor.MaxStore:
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", info.Size(), predictor.MaxStore)
	}
	data, err := io.ReadAll(io.LimitReader(f, predictor.MaxStore+1))
	if err == nil && len(data) == 0 {
		err = errors.New("it is empty")
	}
	return data, err
}

// openOwn opens what belongs to this user and can be written by nobody else, and
// follows no symbolic link at its end.
func openOwn(dir int, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
	var st unix.Stat_t
	if errors.Is(err, unix.ELOOP) || // ENOTDIR is for both
		errors.Is(err, unix.ENOTDIR) && unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil, errors.New("it is a symbolic link")
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, err
	}
	if err := ours(&st); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func ours(st *unix.Stat_t) error {
	if me := os.Geteuid(); int(st.Uid) != me {
		return fmt.Errorf("it belongs to user %d, this process is user %d's", st.Uid, me)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("others may write it (mode %#o)", st.Mode&0o777)
	}
	return nil
}

// Save merges an encoded library into the store: what other processes saved
// meanwhile stays. A store that says nothing of use is replaced; one that cannot be
// read at the moment stays.
func (s Store) Save(encoded []byte) error {
	return s.Update(func(l *predictor.Library) error {
		mine, err := predictor.Decode(encoded, predictor.Config{})
		if err != nil {
			return err
		}
		l.Merge(mine)
		return nil
	})
}

// Update changes the store while no other process does.
func (s Store) Update(change func(*predictor.Library) error) error {
	if err := s.update(change); err != nil {
		return fmt.Errorf("save templates in %s: %w", s.dir, err)
	}
	return nil
}

func (s Store) update(change func(*predictor.Library) error) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	l, unusable := s.Load()
	if trouble := unix.Errno(0); errors.As(unusable, &trouble) { // of this process or the disk, not of the store
		return trouble
	}
	if err := change(l); err != nil {
		return err
	}
	s.tidy()
	if unusable != nil {
		// A replaced file would keep its mode.
		if err := os.Remove(s.Path()); err != nil {
			return err
		}
	}
	return renameio.WriteFile(s.Path(), l.Encode(0), 0o600, renameio.IgnoreUmask(), renameio.WithTempDir(s.dir))
}

// Clear removes the store, whatever it is. It says whether there was one.
func (s Store) Clear() (bool, error) {
	if _, err := os.Lstat(s.Path()); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	unlock, err := s.lock()
	if err != nil {
		return false, fmt.Errorf("clear %s: %w", s.dir, err)
	}
	defer unlock()
	if err := os.Remove(s.Path()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// lock makes the directory if need be and takes its lock, which goes with the
// process, however it ends.
func (s Store) lock() (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := openOwn(unix.AT_FDCWD, s.dir, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), lockName, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", lockName, err)
	}
	for begin := time.Now(); ; time.Sleep(lockLook) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = unix.Close(fd) }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Since(begin) > lockLimit {
			_ = unix.Close(fd)
			return nil, fmt.Errorf("another process holds %s: %w", filepath.Join(s.dir, lockName), err)
		}
	}
}

// tidy removes what writers left that died on the way. The lock is held.
func (s Store) tidy() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "."+fileName) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tempAge {
			_ = os.Remove(filepath.Join(s.dir, e.Name()))
		}
	}
}
