package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"xmsched/memory"
	"xmsched/xserver/client"
)

// reopenAfter is how long after a connection to the pool of host memory was lost, or
// refused, the next one is tried. A daemon that is slow for a moment, as others make host
// memory and hold the driver's lock, loses it; the process makes its own meanwhile.
const reopenAfter = time.Second

// openLimit is how long a connection may take to open: memory may wait for that.
const openLimit = 200 * time.Millisecond

// slotLine is a connection to the pool; after an error it is of no use.
type slotLine interface {
	Give(device string, bytes uint64, fds []int) (taken int, err error)
	Take(device string, bytes uint64, most int) ([]int, error)
	Close() error
}

// slotPool is the pool for as long as the process is attached: it opens a connection when
// one is needed, and another after one was lost.
type slotPool struct {
	open func() (slotLine, error)
	now  func() time.Time

	mu    sync.Mutex
	line  slotLine  // protected by mu; nil: none
	again time.Time // protected by mu: none is opened before
}

// poolOf is the one of an attachment.
func poolOf(ctx context.Context, at *client.Attachment) *slotPool {
	return &slotPool{now: time.Now, open: func() (slotLine, error) {
		ctx, cancel := context.WithTimeout(ctx, openLimit)
		defer cancel()
		return at.HostPool(ctx)
	}}
}

var errNoPool = errors.New("the host pool did not answer a moment ago")

// use has f use the connection.
func (p *slotPool) use(f func(slotLine) error) error {
	line, err := p.connected()
	if err != nil {
		return err
	}
	if err = f(line); err != nil {
		p.lost(line)
	}
	return err
}

func (p *slotPool) connected() (slotLine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != nil {
		return p.line, nil
	}
	now := p.now()
	if now.Before(p.again) {
		return nil, errNoPool
	}
	line, err := p.open()
	if err != nil {
		p.again = now.Add(reopenAfter)
		return nil, err
	}
	p.line = line
	return line, nil
}

func (p *slotPool) lost(line slotLine) {
	p.mu.Lock()
	if p.line == line {
		p.line, p.again = nil, p.now().Add(reopenAfter)
	}
	p.mu.Unlock()
	_ = line.Close()
}

// close ends the connection, if there is one.
func (p *slotPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != nil {
		_ = p.line.Close()
	}
}

// slotsOf is what of the pool is for one device.
type slotsOf struct {
	pool   *slotPool
	device string
}

func (s slotsOf) Give(size memory.Bytes, fds []int) error {
	return s.pool.use(func(l slotLine) error {
		_, err := l.Give(s.device, uint64(size), fds)
		return err
	})
}

func (s slotsOf) Take(size memory.Bytes, n int) (fds []int, err error) {
	err = s.pool.use(func(l slotLine) (err error) {
		fds, err = l.Take(s.device, uint64(size), n)
		return err
	})
	return fds, err
}
