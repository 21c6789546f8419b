package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MakeRunDir makes a run directory, for whoever needs one first: the daemon, or a
// program on the simulated device. It is for its owner alone; one that is there
// is closed to others again.
//
// Root's can be shared: others may pass through (0711), and the daemon's sockets
// are open to them. So is SystemDir always, another one where shared is asked
// for, or where somebody has made it so. The first result says whether it is.
func MakeRunDir(dir string, shared bool) (bool, error) {
	root := os.Geteuid() == 0
	if shared && !root {
		return false, fmt.Errorf("%s cannot be shared: only root's daemon serves other users", dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return false, err
	}
	shared = shared || root && dir == SystemDir
	mode := os.FileMode(0o700)
	if shared {
		mode = 0o711
	}
	switch err := os.Mkdir(dir, mode); {
	case errors.Is(err, os.ErrExist):
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return false, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return false, fmt.Errorf("%s is not a directory", dir)
		}
		if int(st.Uid) != os.Geteuid() {
			return false, &ForeignDirError{Dir: dir, Owner: int(st.Uid)}
		}
		if st.Mode&unix.S_ISVTX != 0 || dir == "/" {
			return false, fmt.Errorf("%s is everybody's: a run directory has to be a folder of its own, such as %s", dir, filepath.Join(dir, "xmsched"))
		}
		if root {
			mode |= os.FileMode(st.Mode & 0o011)
		}
	case err != nil:
		return false, err
	}
	return mode&0o001 != 0, os.Chmod(dir, mode) // whatever the umask was
}

// ForeignDirError says that a run directory is another user's.
type ForeignDirError struct {
	Dir   string
	Owner int // uid
}

func (e *ForeignDirError) Error() string {
	return fmt.Sprintf("%s belongs to uid %d, not to us (%d)", e.Dir, e.Owner, os.Geteuid())
}
