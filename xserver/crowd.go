package xserver

import (
	"net"
	"sync"

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
			_ = conn.Close()
			continue
		}
		return &crowdConn{UnixConn: conn, peer: p, leave: sync.OnceFunc(func() { l.left(p.UID) })}, nil
	}
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
