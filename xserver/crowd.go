package xserver

import (
	"fmt"
	"net"
	"sync"
	"time"

	"xmsched/xserver/client"
	"xmsched/xserver/internal/peer"
)

// maxConnections is how many connections one user may have open to the control
// socket: one for each process that it may register, and some to ask with. It
// keeps a user from taking all descriptors of a daemon that serves others too.
const maxConnections = maxProcessesPerUser + 128

// crowdListener is a listener that closes what a user opens beyond the limit.
type crowdListener struct {
	*net.UnixListener
	limit int

	mu   sync.Mutex
	open map[uint32]int // by uid; protected by mu
}

func newCrowdListener(l *net.UnixListener, limit int) *crowdListener {
	return &crowdListener{UnixListener: l, limit: limit, open: map[uint32]int{}}
}

// Accept waits for a connection that is within its user's limit.
func (l *crowdListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		p, err := peer.Of(conn)
		if err != nil || !l.enter(p.UID) {
			l.refuse(conn, p.UID)
			continue
		}
		return &crowdConn{UnixConn: conn, peer: p, leave: sync.OnceFunc(func() { l.left(p.UID) })}, nil
	}
}

// refuse says why and closes. Nothing was written to the connection yet, so that
// what is said fits its buffer and nobody waits.
func (l *crowdListener) refuse(conn *net.UnixConn, uid uint32) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
	_, _ = conn.Write(client.Refusal(fmt.Sprintf("uid %d has %d, which is the limit; end some of its programs that use the daemon", uid, l.limit)))
	_ = conn.Close()
}

func (l *crowdListener) enter(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid] >= l.limit {
		return false
	}
	l.open[uid]++
	return true
}

func (l *crowdListener) left(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid]--; l.open[uid] == 0 {
		delete(l.open, uid)
	}
}

// crowdConn is a connection that is counted until it is closed.
type crowdConn struct {
	*net.UnixConn
	peer  peer.Peer
	leave func()
}

func (c *crowdConn) Close() error {
	c.leave()
	return c.UnixConn.Close()
}
