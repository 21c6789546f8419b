package plane

import (
	"sync"

	"golang.org/x/sys/unix"
)

// reaper closes what dead processes left: unmapping and closing may take long,
// and the loop does not wait for it.
type reaper struct {
	mu      sync.Mutex
	heap    []Attachment // protected by mu
	ended   bool         // protected by mu
	news    chan struct{}
	stopped chan struct{}
}

func (r *reaper) run(onGone func(ProcessID)) {
	r.news, r.stopped = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(r.stopped)
		for range r.news {
			for {
				heap, ended := r.all()
				for _, a := range heap {
					a.Close()
					onGone(a.ID)
				}
				if len(heap) == 0 {
					if ended {
						return
					}
					break
				}
			}
		}
	}()
}

func (r *reaper) all() ([]Attachment, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	heap := r.heap
	r.heap = nil
	return heap, r.ended
}

func (r *reaper) take(a Attachment) {
	r.mu.Lock()
	r.heap = append(r.heap, a)
	r.mu.Unlock()
	r.poke()
}

func (r *reaper) poke() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// stop closes what is left and ends the goroutine.
func (r *reaper) stop() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.poke()
	<-r.stopped
}

// Close gives everything back, board included, for an attachment that is not in a
// loop.
func (a Attachment) Close() {
	if a.Board != nil {
		_ = a.Board.Close()
	}
	for _, fd := range []int{a.Bell, a.Death, a.Socket} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
