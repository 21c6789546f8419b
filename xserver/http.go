package xserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/renameio/v2"
	"google.golang.org/grpc/codes"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/web"
)

// AddressError says that an address of Config is none on this machine alone.
type AddressError = web.AddressError

// door is a port on which HTTP is served.
type door struct {
	listener net.Listener
	server   *http.Server
}

// openHTTP opens the ports that were asked for, and writes the token of the daemon's
// own user.
func (s *Server) openHTTP(v *service) error {
	if s.cfg.HTTP == "" && s.cfg.Metrics == "" {
		_ = os.Remove(s.dir.File(client.TokenFile)) // an earlier daemon's, killed
		return nil
	}
	s.tokens = web.NewTokens()
	c := web.Config{Service: v, As: asUser, Tokens: s.tokens, Log: s.log}
	for _, w := range []struct {
		what, address string
		handler       func(web.Config) http.Handler
		door          **door
	}{
		{"http", s.cfg.HTTP, web.Handler, &s.http},
		{"metrics", s.cfg.Metrics, web.Metrics, &s.metrics},
	} {
		if w.address == "" {
			continue
		}
		l, err := web.Listen(w.address)
		if err != nil {
			return fmt.Errorf("%s: %w", w.what, err)
		}
		*w.door = &door{l, web.NewServer(w.handler(c), s.log)}
	}
	token := s.tokens.Of(uint32(os.Geteuid())) + "\n"
	if err := renameio.WriteFile(s.dir.File(client.TokenFile), []byte(token), 0o600, renameio.WithStaticPermissions(0o600)); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	return nil
}

// asUser makes a context on behalf of a user, as the socket's are.
func asUser(ctx context.Context, uid uint32) context.Context {
	return grpcpeer.NewContext(ctx, &grpcpeer.Peer{AuthInfo: caller{peer: peer.Peer{UID: uid}}})
}

func (s *Server) doors() (open []*door) {
	for _, d := range []*door{s.http, s.metrics} {
		if d != nil {
			open = append(open, d)
		}
	}
	return open
}

// serveHTTP serves a port until closeHTTP.
func (s *Server) serveHTTP(d *door) error {
	if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", d.listener.Addr(), err)
	}
	return nil
}

// closeHTTP ends the ports, whatever is under way there after a moment, and takes the
// token away that is good for nothing now.
func (s *Server) closeHTTP() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	for _, d := range s.doors() {
		if d.server.Shutdown(ctx) != nil {
			_ = d.server.Close()
		}
		_ = d.listener.Close()
	}
	if s.tokens != nil {
		_ = os.Remove(s.dir.File(client.TokenFile))
	}
}

// address is where a door is; empty: nowhere.
func (d *door) address() string {
	if d == nil {
		return ""
	}
	return d.listener.Addr().String()
}

// Token gives the caller his token: the socket says who he is.
func (v *service) Token(ctx context.Context, _ *xserverv1.TokenRequest) (*xserverv1.TokenResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	s := v.server
	if s.tokens == nil {
		return nil, status.Error(codes.FailedPrecondition, "this daemon does not serve HTTP: start it with --http 127.0.0.1:50000, or --metrics 127.0.0.1:9464")
	}
	return &xserverv1.TokenResponse{Token: s.tokens.Of(who.UID), Http: s.http.address(), Metrics: s.metrics.address()}, nil
}
