package bpf

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// role is the environment variable by which this binary is run as something else:
// another user, or in a namespace of its own.
const role = "XMSCHED_BPF_TEST_ROLE"

func TestMain(m *testing.M) {
	if r := os.Getenv(role); r != "" {
		if err := play(r); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if shared.dir, err = os.MkdirTemp("", "xmobserve"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(shared.dir)
		os.Exit(code)
	}))
}

func play(role string) error {
	what, number, _ := strings.Cut(role, " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	switch what {
	case "denied":
		var denied *PermissionError
		if o, err := Open(Options{PID: pid}); !errors.As(err, &denied) {
			return fmt.Errorf("open: %v, %w", o, err)
		}
		return nil
	case "inside":
		return observeInside()
	}
	return fmt.Errorf("no role %q", what)
}

// played runs this binary in a role.
func played(t *testing.T, what string, attr *syscall.SysProcAttr, environment ...string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), environment...), role+"="+what)
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNobodyIsDenied: without rights the error says what is needed.
func TestNobodyIsDenied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	w := startWorker(t, 0)
	played(t, fmt.Sprintf("denied %d", w.cmd.Process.Pid), &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	played(t, fmt.Sprintf("denied %d", 0), &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
}

// TestFromInsideANamespace: an observer in a pid namespace of its own knows
// processes by their numbers there.
func TestFromInsideANamespace(t *testing.T) {
	open(t, Options{}) // or the kernel's reason
	w := startWorker(t, 0)
	program, ptx := w.cmd.Args[0], w.cmd.Args[1]
	played(t, "inside 0", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS},
		append(w.cmd.Env, "PROGRAM="+program, "PTX="+ptx)...)
}

// observeInside starts a program and observes it, as the first process of a
// namespace. The other one that TestFromInsideANamespace has started is not seen.
func observeInside() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	cmd := exec.Command(os.Getenv("PROGRAM"), os.Getenv("PTX"))
	orders, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ok := make([]byte, 3)
	do := func(order string) {
		_, werr := fmt.Fprint(orders, order)
		_, rerr := said.Read(ok)
		err = errors.Join(err, werr, rerr)
	}
	do("")
	for _, pid := range []int{cmd.Process.Pid, 0} {
		o, oerr := Open(Options{PID: pid})
		if oerr != nil {
			return oerr
		}
		do("launch 5\n")
		s, serr := o.Snapshot()
		if err = errors.Join(err, serr, o.Close()); err != nil {
			return err
		}
		if len(s.Processes) != 1 || s.Processes[0].PID != cmd.Process.Pid || s.Processes[0].Commands != 5 {
			return fmt.Errorf("observing %d: process %d is not the only one: %+v", pid, cmd.Process.Pid, s.Processes)
		}
	}
	return errors.Join(orders.Close(), cmd.Wait())
}
