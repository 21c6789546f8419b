// Package client talks to the daemon: xcli, xrun, the agent in a program and the
// benchmarks all go through here. It finds the run directory, dials, turns wire
// errors into typed ones, and adopts a board.
//
// It decides nothing, starts no process and keeps no state but its connection.
//
// A Client may be used from any goroutine.
package client

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/internal/peer"
)

// Client is a connection to the daemon of one run directory.
type Client struct {
	dir  string
	conn *grpc.ClientConn
	api  xserverv1.XServerServiceClient
}

// Dial connects to the daemon in dir, and waits for its first word for a second
// at most. The errors: *AbsentError, no daemon is there; *SilentError, one is
// there and says nothing; *StrandedError, one is there and its socket is gone;
// *CrowdedError, it takes no more connections; *DeniedError, it is not for this
// user, or the socket belongs to neither root nor the caller.
func Dial(ctx context.Context, dir string) (*Client, error) {
	if err := reach(ctx, dir); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///xserver",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialUnix(ctx, filepath.Join(dir, ControlSocket))
		}),
		grpc.WithAuthority("xserver"),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", dir, err)
	}
	return &Client{dir: dir, conn: conn, api: xserverv1.NewXServerServiceClient(conn)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Dir is the run directory.
func (c *Client) Dir() string { return c.dir }

// wrongOwnerError says that somebody else's socket lies in the run directory.
type wrongOwnerError struct {
	path string
	uid  uint32
}

func (e *wrongOwnerError) Error() string {
	return fmt.Sprintf("%s is served by uid %d, neither root nor us", e.path, e.uid)
}

func dialUnix(ctx context.Context, path string) (*net.UnixConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	unixConn := conn.(*net.UnixConn)
	p, err := peer.Of(unixConn)
	if err == nil && p.UID != 0 && p.UID != uint32(os.Geteuid()) {
		err = &wrongOwnerError{path, p.UID}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return unixConn, nil
}

// ListTasks lists the tasks that the caller may see.
func (c *Client) ListTasks(ctx context.Context) ([]*xserverv1.Task, error) {
	r, err := c.api.ListTasks(ctx, &xserverv1.ListTasksRequest{})
	return r.GetTasks(), fromStatus(c.dir, err)
}

// Watch calls each with the list of tasks, now and then every interval, until
// the context or the daemon ends or each returns an error, which it returns.
func (c *Client) Watch(ctx context.Context, interval time.Duration, each func([]*xserverv1.Task) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.api.Watch(ctx, &xserverv1.WatchRequest{IntervalMs: uint32(interval.Milliseconds())})
	if err != nil {
		return fromStatus(c.dir, err)
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return fromStatus(c.dir, err)
		}
		if err := each(r.GetTasks()); err != nil {
			return err
		}
	}
}

// Target names a task: by its id, or by the pid of one of its processes. Where
// processes can be meant by themselves, the pid means that one alone.
type Target struct {
	Task uint64
	PID  int
}

// Settings are changes of what processes are governed by; what is empty stays as
// it is.
type Settings struct {
	Level     string // auto, 1 or 2
	Threshold *uint32
	Batch     *uint32
}

// SetConfig changes the settings of a process, or of a task with all processes
// that it has and will have. It returns the task's id and the settings of those
// that were meant.
func (c *Client) SetConfig(ctx context.Context, target Target, s Settings) (uint64, []*xserverv1.ProcessSettings, error) {
	req := &xserverv1.SetConfigRequest{Pid: int32(target.PID), Task: target.Task, Threshold: s.Threshold, Batch: s.Batch}
	if s.Level != "" {
		req.Level = &s.Level
	}
	r, err := c.api.SetConfig(ctx, req)
	return r.GetTask(), r.GetProcesses(), fromStatus(c.dir, err)
}

// Policy is the present policy and those that there are.
func (c *Client) Policy(ctx context.Context) (name string, allowed []string, err error) {
	r, err := c.api.GetPolicy(ctx, &xserverv1.GetPolicyRequest{})
	return r.GetPolicy(), r.GetAllowed(), fromStatus(c.dir, err)
}

// Policies describes the policies that there are.
func (c *Client) Policies(ctx context.Context) (name string, list []*xserverv1.PolicyInfo, err error) {
	r, err := c.api.GetPolicy(ctx, &xserverv1.GetPolicyRequest{})
	return r.GetPolicy(), r.GetPolicies(), fromStatus(c.dir, err)
}

// SetPolicy changes the policy and returns its proper name.
func (c *Client) SetPolicy(ctx context.Context, name string) (string, error) {
	r, err := c.api.SetPolicy(ctx, &xserverv1.SetPolicyRequest{Policy: name})
	return r.GetPolicy(), fromStatus(c.dir, err)
}

// Status is the daemon's own state.
func (c *Client) Status(ctx context.Context) (*xserverv1.GetStatusResponse, error) {
	r, err := c.api.GetStatus(ctx, &xserverv1.GetStatusRequest{})
	return r, fromStatus(c.dir, err)
}
