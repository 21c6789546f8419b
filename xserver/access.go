package xserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"xmsched/xserver/internal/peer"
)

// serves says whether a user is served here: a daemon serves its own user and
// root; root's daemon everyone.
func serves(uid uint32) bool {
	own := uint32(os.Geteuid())
	return own == 0 || uid == own || uid == 0
}

// maySee says whether a caller sees and steers what belongs to a user.
func maySee(caller peer.Peer, owner uint32) bool {
	return caller.UID == 0 || caller.UID == owner
}

// peerCredentials are transport credentials of gRPC that encrypt nothing and
// take who calls from the kernel.
type peerCredentials struct{}

// caller is who is at the other end of a gRPC connection.
type caller struct {
	credentials.CommonAuthInfo
	peer peer.Peer
}

func (caller) AuthType() string { return "peer" }

func (peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*crowdConn)
	if !ok {
		return nil, nil, fmt.Errorf("a %s connection tells nothing of its peer", conn.RemoteAddr().Network())
	}
	info := credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity} // it does not leave the machine
	return conn, caller{info, c.peer}, nil
}

func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("peer credentials are the server's")
}

func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "peer"}
}

func (c peerCredentials) Clone() credentials.TransportCredentials { return c }

func (peerCredentials) OverrideServerName(string) error { return nil }

// callerOf is who calls, or an error that says why he is not served.
func callerOf(ctx context.Context) (peer.Peer, error) {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return peer.Peer{}, status.Error(codes.Unauthenticated, "who calls is not known")
	}
	c, ok := p.AuthInfo.(caller)
	if !ok {
		return peer.Peer{}, status.Error(codes.Unauthenticated, "who calls is not known")
	}
	if !serves(c.peer.UID) {
		return peer.Peer{}, status.Errorf(codes.PermissionDenied, "this daemon serves uid %d, not uid %d", os.Geteuid(), c.peer.UID)
	}
	return c.peer, nil
}

// newGRPC makes the control plane's server: small messages, few streams a
// connection, nobody unserved, and no request that ends the daemon.
func newGRPC(s *Server) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(peerCredentials{}),
		grpc.MaxRecvMsgSize(256<<10),
		grpc.MaxConcurrentStreams(32),
		// Whoever says nothing is not kept: neither before his first words nor, when
		// no request of his is under way, after them. Programs have their session.
		grpc.ConnectionTimeout(handshakeLimit),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: s.cfg.IdleConnection}),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
			defer s.survive(info.FullMethod, &err)
			if _, err := callerOf(ctx); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			defer s.survive(info.FullMethod, &err)
			if _, err := callerOf(stream.Context()); err != nil {
				return err
			}
			return next(srv, stream)
		}),
	)
}

// survive turns a panic of one request into its error.
func (s *Server) survive(method string, err *error) {
	if r := recover(); r != nil {
		s.log.Error("request failed", "method", method, "panic", r, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the request failed inside the daemon; its log has more")
	}
}
