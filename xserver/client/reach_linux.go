package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/xserver/internal/peer"
)

// wordLimit is how long a daemon may take to say its first word to one who
// connects. It does so before it is asked anything.
const wordLimit = time.Second

// reach finds out whether the daemon of a run directory takes and answers
// connections, and if not, why. The errors are those of Dial.
func reach(ctx context.Context, dir string) error {
	conn, err := dialUnix(ctx, filepath.Join(dir, ControlSocket))
	if err != nil {
		return dialError(dir, err)
	}
	defer conn.Close()
	pid := 0
	if p, err := peer.Of(conn); err == nil {
		pid = p.PID
	}
	limit := time.Now().Add(wordLimit)
	if d, ok := ctx.Deadline(); ok && d.Before(limit) {
		limit = d
	}
	if err := conn.SetReadDeadline(limit); err != nil {
		return err
	}
	switch refusal, err := firstWord(conn); {
	case err == nil && refusal == "":
		return nil
	case err == nil:
		return &CrowdedError{Dir: dir, Message: refusal}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &SilentError{Dir: dir, PID: pid, Stopped: peer.Stopped(pid), Err: err}
	default: // it went down in this moment
		return &AbsentError{Dir: dir, Err: err}
	}
}

// firstWord reads the frame that an HTTP/2 server begins with. One that takes
// nobody in says so in a GOAWAY frame, whose text is the refusal.
func firstWord(conn net.Conn) (refusal string, err error) {
	const goAway = 7
	var head [9]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return "", err
	}
	if head[3] != goAway {
		return "", nil
	}
	rest := make([]byte, min(int(binary.BigEndian.Uint32(head[:4])>>8), 1024))
	if _, err := io.ReadFull(conn, rest); err != nil {
		return "", err
	}
	return string(rest[min(8, len(rest)):]), nil
}

// Refusal is what a daemon writes on a connection that it does not take: a
// GOAWAY frame with the reason.
func Refusal(reason string) []byte {
	const goAway, enhanceYourCalm = 7, 0xb
	n := 8 + len(reason)
	frame := []byte{byte(n >> 16), byte(n >> 8), byte(n), goAway, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	return append(binary.BigEndian.AppendUint32(frame, enhanceYourCalm), reason...)
}

// dialError says why nobody took a connection.
func dialError(dir string, err error) error {
	var wrong *wrongOwnerError
	switch {
	case errors.As(err, &wrong):
		return &DeniedError{Message: wrong.Error()}
	case errors.Is(err, os.ErrPermission):
		return shut(dir, err)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		pid := holder(dir) // nobody takes connections off its queue
		return &SilentError{Dir: dir, PID: pid, Stopped: peer.Stopped(pid), Err: err}
	}
	if held(dir) {
		return &StrandedError{Dir: dir, PID: holder(dir), Err: err}
	}
	return &AbsentError{Dir: dir, Err: err}
}

// held says whether a daemon holds the lock of a run directory. Where this user
// may not look it says no.
func held(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	// A shared lock, for a moment: others who ask do not see it, and a daemon that
	// starts in this moment tries again.
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// holder is the pid that the lock file names; 0: none.
func holder(dir string) int {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	var buf [32]byte
	n, _ := f.ReadAt(buf[:], 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// shut says what bars this user from a run directory, and what to do instead.
func shut(dir string, err error) error {
	uid := os.Geteuid()
	barrier, owner := barrier(dir)
	if barrier == "" {
		barrier, owner = filepath.Join(dir, ControlSocket), ownerOf(filepath.Join(dir, ControlSocket))
	}
	own := OwnDir(uid)
	instead := fmt.Sprintf("start a daemon of your own: %s --dir %s, and export XMSCHED_DIR=%s", Command("xserver"), own, own)
	if owner == 0 {
		instead = fmt.Sprintf("have root start the daemon with: xserver --dir %s --shared; or %s", Quote(dir), instead)
	}
	return &DeniedError{Message: fmt.Sprintf("uid %d may not use the daemon in %s: %s is closed to it (it belongs to uid %d); %s",
		uid, dir, barrier, owner, instead), Err: err}
}

// OwnDir is a run directory that any user can have.
func OwnDir(uid int) string { return fmt.Sprintf("/tmp/xmsched-%d", uid) }

// Enterable says whether this user may pass through a run directory, with an
// error that says what to do if not. One that is not there is no obstacle.
func Enterable(dir string) error {
	if b, _ := barrier(dir); b != "" {
		return shut(dir, unix.EACCES)
	}
	return nil
}

// barrier is the first folder on the way to a directory, itself included, that
// this user may not pass; empty: none.
func barrier(dir string) (path string, owner uint32) {
	var way []string
	for at := dir; at != "/" && at != "."; at = filepath.Dir(at) {
		way = append(way, at)
	}
	for _, at := range slices.Backward(way) {
		if errors.Is(unix.Faccessat(unix.AT_FDCWD, at, unix.X_OK, unix.AT_EACCESS), unix.EACCES) {
			return at, ownerOf(at)
		}
	}
	return "", 0
}

func ownerOf(path string) uint32 {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return 0
	}
	return st.Uid
}
