package xserver_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"xmsched/xserver"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// TestConnectionsThatSayNothingAreClosed connects and says nothing, and only good
// day: neither keeps its place. One with a request under way does.
func TestConnectionsThatSayNothingAreClosed(t *testing.T) {
	dir := serve(t, rundir(t), func(c *xserver.Config) { c.IdleConnection = 200 * time.Millisecond }).dir
	enough := errors.New("enough")
	busy := make(chan error, 1)
	go func() {
		c, err := client.Dial(t.Context(), dir)
		if err != nil {
			busy <- err
			return
		}
		defer c.Close()
		start := time.Now()
		busy <- c.Watch(t.Context(), 100*time.Millisecond, func([]*xserverv1.Task) error {
			if time.Since(start) > time.Second {
				return enough
			}
			return nil
		})
	}()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	for name, words := range map[string]string{
		"nothing":          "",
		"half a word":      preface[:7],
		"no more":          preface + string(make([]byte, 3)) + "\x04" + string(make([]byte, 5)), // empty SETTINGS
		"another tongue":   "GET / HTTP/1.1\r\n\r\n",
		"more than wanted": preface + strings.Repeat("\xff", 100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("unix", dir+"/"+client.ControlSocket)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, words); err != nil {
				t.Fatal(err)
			}
			const limit = 20 * time.Second // ten times the daemon's
			_ = conn.SetReadDeadline(time.Now().Add(limit))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("still open after %v", limit)
			}
		})
	}
	if err := <-busy; !errors.Is(err, enough) {
		t.Errorf("a connection with a request under way: %v", err)
	}
}

// TestIdleClientAsksAgain has a client whose connection was closed meanwhile.
func TestIdleClientAsksAgain(t *testing.T) {
	c := dial(t, serve(t, rundir(t), func(c *xserver.Config) { c.IdleConnection = 50 * time.Millisecond }).dir)
	for range 3 {
		if _, err := c.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// journalHas waits until the journal holds a text, or does not.
func journalHas(t *testing.T, dir, text string, want bool) {
	t.Helper()
	eventually(t, "the journal", func() bool {
		b, err := os.ReadFile(dir + "/" + client.JournalFile)
		return err == nil && bytes.Contains(b, []byte(text)) == want
	})
}

// TestJournalForgetsTheDead has a hint outlive its process neither while the
// daemon runs nor over its restart.
func TestJournalForgetsTheDead(t *testing.T) {
	dir := rundir(t)
	d := serve(t, dir)
	c := dial(t, dir)
	steer := func(name string) *child {
		s := spawn(t, part{Role: "player", Dir: dir, Registration: client.Registration{Name: name}})
		if _, err := setPriority(t, c, client.Target{Task: s.Task}, 42); err != nil {
			t.Fatal(err)
		}
		journalHas(t, dir, `"pid":`+strconv.Itoa(s.PID)+`,`, true)
		return s
	}
	first, second := steer("first"), steer("second")
	first.kill()
	journalHas(t, dir, `"pid":`+strconv.Itoa(first.PID)+`,`, false)
	journalHas(t, dir, `"pid":`+strconv.Itoa(second.PID)+`,`, true)
	d.stop() // the second lives, and may come back
	journalHas(t, dir, `"pid":`+strconv.Itoa(second.PID)+`,`, true)
	second.kill()
	serve(t, dir)
	journalHas(t, dir, `"pid":`, false)
}

// TestKilledBetweenTwoSteps has a process die that registered and did not fetch
// its board: it can be steered no more, long before its ticket expires.
func TestKilledBetweenTwoSteps(t *testing.T) {
	dir := serve(t, rundir(t)).dir
	c := dial(t, dir)
	s := spawn(t, part{Role: "half", Dir: dir})
	if _, err := setPriority(t, c, client.Target{PID: s.PID}, 1); err != nil {
		t.Fatalf("while it lives: %v", err)
	}
	s.kill()
	var rejected *client.RejectedError
	if _, err := setPriority(t, c, client.Target{PID: s.PID}, 2); !errors.As(err, &rejected) {
		t.Errorf("after its death: %v, want a RejectedError", err)
	}
}

// TestSharedDirectory opens a directory and its sockets to other users, as root's
// daemon does when it is told to.
func TestSharedDirectory(t *testing.T) {
	dir := rundir(t)
	if os.Geteuid() != 0 {
		if _, err := xserver.New(xserver.Config{Dir: dir, Shared: true}); err == nil {
			t.Error("another user than root shares")
		}
		return
	}
	serve(t, dir, func(c *xserver.Config) { c.Shared = true })
	for name, want := range map[string]os.FileMode{".": 0o711, client.ControlSocket: 0o666, client.BoardSocket: 0o666, client.LockFile: 0o600} {
		info, err := os.Lstat(dir + "/" + name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode().Perm(), err, want)
		}
	}
}
