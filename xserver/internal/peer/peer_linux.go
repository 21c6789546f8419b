// Package peer finds out who is at the other end of a Unix socket, from the
// kernel and never from what the other end says.
package peer

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Peer is a process at the other end of a connection.
type Peer struct {
	PID       int    // in our pid namespace; 0: it is in none that we see
	UID       uint32 // in our user namespace
	StartTime uint64 // clock ticks since boot; with PID it names a process for good. 0: not known
}

// String names a peer for a log or an error.
func (p Peer) String() string { return fmt.Sprintf("pid %d of uid %d", p.PID, p.UID) }

// Of asks the kernel who connected.
func Of(conn *net.UnixConn) (Peer, error) {
	var cred *unix.Ucred
	err := control(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	p := Peer{PID: int(cred.Pid), UID: cred.Uid}
	if p.PID > 0 {
		p.StartTime, _ = StartTime(p.PID) // it may be gone already; its connection will tell
	}
	return p, nil
}

// Pidfd opens a descriptor that becomes readable when the process that
// connected ends. Kernels before 6.5 cannot say it from the socket; there it
// comes from the number, which the still open connection vouches for.
func Pidfd(conn *net.UnixConn, p Peer) (int, error) {
	fd := -1
	err := control(conn, func(sock int) (err error) {
		fd, err = unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		return err
	})
	if err == nil {
		unix.CloseOnExec(fd)
		return fd, nil
	}
	if p.PID <= 0 {
		return -1, fmt.Errorf("watch %s: %w", p, err)
	}
	if fd, err = unix.PidfdOpen(p.PID, 0); err != nil {
		return -1, fmt.Errorf("watch %s: %w", p, err)
	}
	return fd, nil
}

func control(conn *net.UnixConn, f func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := raw.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

// StartTime reads when a process started, in clock ticks since boot.
func StartTime(pid int) (uint64, error) {
	stat, err := readStat(pid)
	return stat.start, err
}

// Alive says whether the process runs still. One that has ended and whose parent
// did not ask after it yet is dead; one that cannot be named passes for alive.
func (p Peer) Alive() bool {
	if p.PID <= 0 || p.StartTime == 0 {
		return true
	}
	stat, err := readStat(p.PID)
	return err == nil && stat.start == p.StartTime && stat.state != 'Z' && stat.state != 'X'
}

// Stopped says whether a process is stopped, by a signal or a debugger.
func Stopped(pid int) bool {
	stat, err := readStat(pid)
	return err == nil && (stat.state == 'T' || stat.state == 't')
}

// stat is what we read of /proc/PID/stat.
type stat struct {
	state    byte
	start    uint64
	priority int
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name may hold blanks and parentheses; what follows it is field 3.
	const priority, startTime = 18, 22
	end := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) <= startTime-3 {
		return stat{}, fmt.Errorf("/proc/%d/stat: unexpected form", pid)
	}
	start, err := strconv.ParseUint(fields[startTime-3], 10, 64)
	if err != nil {
		return stat{}, err
	}
	prio, err := strconv.Atoi(fields[priority-3])
	return stat{state: fields[0][0], start: start, priority: prio}, err
}

// CPUPriority is a process's priority at the processor, that of its main thread:
// the larger goes first. Ordinary ones have 0 less their niceness, from -19 to 20;
// real-time ones 21 and their priority there, from 22 to 121.
func CPUPriority(pid int) (int, error) {
	stat, err := readStat(pid)
	return 20 - stat.priority, err // the kernel has 20 + nice, and -1 - priority
}

// Name is what the process calls itself; empty if it is gone.
func Name(pid int) string {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(comm))
}
