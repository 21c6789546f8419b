package client

import (
	"context"

	xserverv1 "xmsched/xserver/api/v1"
)

// TokenFile is the file of a run directory that holds the token of the daemon's own
// user, where HTTP is served.
const TokenFile = "token"

// Report lists the tasks that the caller may see, with what became of them, and those
// of them that ended lately, the newest last.
func (c *Client) Report(ctx context.Context) (tasks, ended []*xserverv1.Task, err error) {
	r, err := c.api.Report(ctx, &xserverv1.ReportRequest{})
	return r.GetTasks(), r.GetEnded(), fromStatus(c.dir, err)
}

// Trace calls each with what is decided from now on, until the context or the daemon
// ends or each returns an error, which it returns. lost are events that came too fast
// and are missing before these.
func (c *Client) Trace(ctx context.Context, each func(events []*xserverv1.TraceEvent, lost uint64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.api.Trace(ctx, &xserverv1.TraceRequest{})
	if err != nil {
		return fromStatus(c.dir, err)
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return fromStatus(c.dir, err)
		}
		if err := each(r.GetEvents(), r.GetLost()); err != nil {
			return err
		}
	}
}

// Token gives what shows over HTTP who the caller is, and where HTTP is served:
// host:port, empty where it is not.
func (c *Client) Token(ctx context.Context) (*xserverv1.TokenResponse, error) {
	r, err := c.api.Token(ctx, &xserverv1.TokenRequest{})
	return r, fromStatus(c.dir, err)
}
