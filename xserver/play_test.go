package xserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"xmsched/preempt/board"
	"xmsched/xserver"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// Child processes of the tests are this test binary itself, in a role. A child
// says what it did in lines of JSON and does what lines on its standard input
// say.

// said is one line of a child.
type said struct {
	PID   int    `json:"pid"`
	Task  uint64 `json:"task"`
	Error string `json:"error,omitempty"`
}

// part is what a child plays.
type part struct {
	Role         string
	Dir          string
	Registration client.Registration
}

// child is a child process of a test.
type child struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	said
}

// spawn starts a child and waits until it is registered.
func spawn(t testing.TB, p part, edit ...func(*exec.Cmd)) *child {
	t.Helper()
	c := start(t, p, edit...)
	if !c.out.Scan() {
		t.Fatalf("child %s said nothing", p.Role)
	}
	if err := json.Unmarshal(c.out.Bytes(), &c.said); err != nil || c.Error != "" {
		t.Fatalf("child %s: %q, %v", p.Role, c.out.Text(), err)
	}
	return c
}

func start(t testing.TB, p part, edit ...func(*exec.Cmd)) *child {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), "XMSCHED_TEST_ROLE="+string(text))
	cmd.Stderr = t.Output()
	for _, e := range edit {
		e(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() { c.kill() })
	return c
}

func (c *child) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// tell has the child do something and waits until it is done.
func (c *child) tell(what string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, what); err != nil {
		c.t.Fatal(err)
	}
	if !c.out.Scan() || c.out.Text() != "done" {
		c.t.Fatalf("told %q, the child said %q", what, c.out.Text())
	}
}

// play is the child's side. It returns the exit code.
func play(role string) int {
	var p part
	if err := json.Unmarshal([]byte(role), &p); err != nil {
		return 3
	}
	if p.Role == "daemon" {
		return playDaemon(p)
	}
	if p.Role == "half" {
		return playHalf(p)
	}
	a, b, err := enter(p)
	reply := said{PID: os.Getpid()}
	if err != nil {
		reply.Error = err.Error()
	} else {
		reply.Task = a.Task
	}
	line, err := json.Marshal(reply)
	if err != nil {
		return 3
	}
	fmt.Println(string(line))
	if reply.Error != "" {
		return 1
	}
	switch p.Role {
	case "player":
		obey(a, b, p)
	case "noise":
		noise(a, b)
	case "burn": // as busy as one that floods, and silent
		for {
			_ = unix.Getppid()
		}
	case "flood":
		for {
			_ = a.Ring()
		}
	}
	return 0
}

// playDaemon serves until it is killed.
func playDaemon(p part) int {
	s, err := xserver.New(xserver.Config{Dir: p.Dir})
	if err != nil {
		fmt.Printf("{\"error\":%q}\n", err.Error())
		return 1
	}
	fmt.Printf("{\"pid\":%d}\n", os.Getpid())
	if err := s.Run(context.Background()); err != nil {
		return 1
	}
	return 0
}

// playHalf registers, fetches no board and waits.
func playHalf(p part) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient("unix:"+p.Dir+"/"+client.ControlSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 1
	}
	defer conn.Close()
	r, err := xserverv1.NewXServerServiceClient(conn).Register(ctx, &xserverv1.RegisterRequest{BoardVersion: board.Version})
	if err != nil {
		fmt.Printf("{\"error\":%q}\n", err.Error())
		return 1
	}
	fmt.Printf("{\"pid\":%d,\"task\":%d}\n", os.Getpid(), r.Task)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func enter(p part) (*client.Attachment, *board.Board, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, p.Dir)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.Attach(ctx, p.Registration)
	if err != nil {
		return nil, nil, err
	}
	b, err := a.Map()
	if err != nil {
		return nil, nil, err
	}
	b.Device(0).Claim(gpu)
	return a, b, a.Ring()
}

// obey does what standard input says until it ends.
func obey(a *client.Attachment, b *board.Board, p part) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "ready", "idle":
			b.Device(0).SetReady(lines.Text() == "ready")
			b.Device(0).Ack(b.Device(0).Gate())
			_ = a.Ring()
		case "exec":
			p.Registration.Nonce = 0 // the new program draws its own
			text, err := json.Marshal(p)
			if err != nil {
				return
			}
			env := append(os.Environ(), "XMSCHED_TEST_ROLE="+string(text))
			_ = unix.Exec("/proc/self/exe", []string{"again", "-test.run=^$"}, env)
			return
		}
		fmt.Println("done")
	}
}

// noise writes garbage over every claim and rings, as fast as it can.
func noise(a *client.Attachment, b *board.Board) {
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	for {
		for i := range board.Devices {
			d := b.Device(i)
			if rnd.IntN(2) == 0 {
				d.Claim(board.Identity{UUID: board.UUID{1, 2, byte(rnd.IntN(4))}, Name: strings.Repeat("\x1b[2J", 9)})
			} else {
				d.Leave()
			}
			d.SetReady(rnd.IntN(2) == 0)
			d.Ack(board.Gate(rnd.Uint32()))
			d.SetWaiting(rnd.Uint32())
			d.OpenByLease(d.Gate())
		}
		for range 64 {
			s := b.Slot(rnd.IntN(board.Slots))
			s.Take(rnd.Uint64(), rnd.IntN(1<<20), 0)
			s.Submit(rnd.Uint64())
			s.Complete(rnd.Uint64())
		}
		_ = a.Ring()
	}
}
