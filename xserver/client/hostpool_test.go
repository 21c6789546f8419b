package client

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// playDaemon lets one client into a pool and answers each of its lines with the next
// answer, and descriptors beside it. With none left it says nothing any more.
func playDaemon(t *testing.T, beside []int, answers ...string) *Attachment {
	t.Helper()
	dir := t.TempDir()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, BoardSocket), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 4096)
		for i := 0; ; i++ {
			if _, err := conn.Read(buf); err != nil { // what comes beside it is dropped
				return
			}
			switch {
			case i == 0:
				_, _ = conn.Write([]byte(`{"version":1}` + "\n"))
			case i <= len(answers):
				_, _, _ = conn.WriteMsgUnix([]byte(answers[i-1]), unix.UnixRights(beside...), nil)
			}
		}
	}()
	return &Attachment{session: 1, client: &Client{dir: dir}}
}

// TestHostPoolIsGivenUp has daemons that answer late, wrongly or half. The client waits
// no longer than it says, keeps nothing of what came, and asks no more.
func TestHostPoolIsGivenUp(t *testing.T) {
	const name = "xm-client"
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for what, bad := range map[string]struct {
		beside []int
		answer string
		why    string
	}{
		"nothing":        {nil, "", "timeout"},
		"half":           {[]int{fd}, `{"slots":1`, "timeout"},
		"an error":       {[]int{fd}, `{"slots":1,"error":"no such luck"}` + "\n", "no such luck"},
		"too many":       {[]int{fd, fd, fd}, `{"slots":3}` + "\n", "says 3 and sends 3"},
		"less than said": {[]int{fd}, `{"slots":2}` + "\n", "says 2 and sends 1"},
		"more than said": {[]int{fd, fd}, `{"slots":1}` + "\n", "says 1 and sends 2"},
		"negative":       {nil, `{"slots":-1}` + "\n", "says -1 and sends 0"},
		"no JSON":        {[]int{fd}, "slots\n", "invalid character"},
		"two lines":      {[]int{fd}, `{"slots":1}` + "\n{}\n", "more than a line"},
		"too long":       {[]int{fd}, strings.Repeat(" ", 1024), "1024 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			answers := []string{bad.answer}
			if bad.answer == "" {
				answers = nil
			}
			h, err := playDaemon(t, bad.beside, answers...).HostPool(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			begin := time.Now()
			fds, err := h.Take("GPU", 2<<20, 2)
			took := time.Since(begin)
			if err == nil || !strings.Contains(err.Error(), bad.why) || len(fds) != 0 {
				t.Errorf("%v, %v, want %q", fds, err, bad.why)
			}
			if late := strings.Contains(bad.why, "timeout"); took > 5*time.Second || late && took < poolLimit {
				t.Errorf("waited %v, want %v", took, poolLimit)
			}
			if n := openOf(t, name); n != 1 {
				t.Errorf("%d descriptors of a slot that was not taken are open", n-1)
			}
			if _, again := h.Give("GPU", 2<<20, []int{fd}); again != err {
				t.Errorf("after that: %v, want %v", again, err)
			}
		})
	}
}

// TestHostPoolTakesWhatThereIs has the connection end in the middle: what was taken
// before is the caller's.
func TestHostPoolTakesWhatThereIs(t *testing.T) {
	const name = "xm-middle"
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var full []int
	for range MaxPoolSlots {
		full = append(full, fd)
	}
	h, err := playDaemon(t, full, `{"slots":16}`+"\n", "nonsense\n").HostPool(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	fds, err := h.Take("GPU", 2<<20, 20)
	if err != nil || len(fds) != MaxPoolSlots || openOf(t, name) != 1+MaxPoolSlots {
		t.Errorf("%d taken, %d open, %v", len(fds), openOf(t, name)-1, err)
	}
	closeDescriptors(fds)
	if _, err := h.Take("GPU", 2<<20, 1); err == nil {
		t.Error("asked on a connection that said nonsense")
	}
}

func TestHostPoolIsClosed(t *testing.T) {
	h, err := playDaemon(t, nil).HostPool(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := h.Take("GPU", 2<<20, 1); ended <- err }()
	if err := h.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("a request outlived its connection")
	}
	if _, err := h.Take("GPU", 2<<20, 1); err == nil {
		t.Error("taken from a pool that is closed")
	}
	if err := h.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// TestHostPoolOfAnOldDaemon has one that knows tickets alone.
func TestHostPoolOfAnOldDaemon(t *testing.T) {
	dir := t.TempDir()
	a := &Attachment{session: 1, client: &Client{dir: dir}}
	if _, err := a.HostPool(t.Context()); err == nil {
		t.Error("a pool without a daemon")
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, BoardSocket), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, err := l.AcceptUnix(); err == nil {
			_, _ = conn.Write([]byte(`{"version":1,"error":"unknown, used or expired ticket"}` + "\n"))
			_, _ = conn.Read(make([]byte, 1024))
			_ = conn.Close()
		}
	}()
	if _, err := a.HostPool(t.Context()); err == nil || !strings.Contains(err.Error(), "expired ticket") {
		t.Errorf("%v, want what the daemon said", err)
	}
	<-done
}

// openOf counts this process's descriptors of memfds of a name.
func openOf(t *testing.T, name string) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "/memfd:"+name+" ") {
			n++
		}
	}
	return n
}
