package experiment

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/memory"
	"xmsched/nvx/mover"
)

// Machines may show little memory at first, and more as it is used: a virtual machine of
// 128 GiB showed 31, and as much more as was used, 8 GiB in 3 s. Moved memory may take half
// of what is available, and does not wait for more to turn up. So that what is measured
// is not a machine that grows, its memory is used once before.

const (
	hostChunk   = 512 * memory.MiB
	hostThreads = 4              // that use a chunk
	hostReserve = 4 * memory.GiB // is left to all others at any time
	hostLookFor = 20 * time.Millisecond
)

// spares says whether a chunk may be taken.
func spares(f memory.HostFigures) bool {
	const least = hostChunk + hostReserve
	return f.Available >= least && (f.Limit == 0 || f.Limit-f.Used >= least)
}

// grower has the machine's memory grow.
type grower struct {
	figures  func() memory.HostFigures
	take     func(memory.Bytes) error // and holds it
	patience time.Duration            // for which more is waited for
}

// grow takes memory until so much would be available, or no more turns up, and says how
// much would be, as far as it is known.
func (g grower) grow(ctx context.Context, need memory.Bytes, report func(have memory.Bytes)) (memory.Bytes, error) {
	taken := memory.Bytes(0)
	for {
		f := g.figures()
		have := f.Available + taken
		if have >= need || f.Available == 0 {
			return have, nil
		}
		report(have)
		if !spares(f) {
			end := time.Now().Add(g.patience)
			for !spares(g.figures()) {
				if time.Now().After(end) {
					return have, nil
				}
				if err := pause(ctx, hostLookFor); err != nil {
					return have, err
				}
			}
		}
		if err := g.take(hostChunk); err != nil {
			return have, err
		}
		taken += hostChunk
		if ctx.Err() != nil {
			return have, context.Cause(ctx)
		}
	}
}

// Host memory is made ahead while programs do nothing, which takes an H200's host from 12 s
// to a minute for what can have to leave a device (h200.md: 1.5 to 5.9 GB/s).
const (
	hostMadeWithin = time.Minute
	hostStands     = time.Second // for how long none is made any more
	hostLook       = 200 * time.Millisecond
)

// awaitHost waits until no more host memory is made, and says how much there is.
func (l *Lab) awaitHost(ctx context.Context) (memory.Bytes, error) {
	var made uint64
	begun := time.Now()
	for since := begun; time.Since(since) < hostStands && time.Since(begun) < hostMadeWithin; {
		f, err := l.memoryFigures(ctx)
		if err != nil {
			return 0, err
		}
		if f.pool != made {
			made, since = f.pool, time.Now()
		}
		if err := pause(ctx, hostLook); err != nil {
			return 0, err
		}
	}
	return memory.Clamp(made, memory.MaxBytes), nil
}

// growHost has so much of the host be available, if the machine has it.
func (l *Lab) growHost(ctx context.Context, need memory.Bytes, report func(have memory.Bytes)) (memory.Bytes, error) {
	var held [][]byte
	defer func() {
		for _, b := range held {
			_ = unix.Munmap(b)
		}
	}()
	return grower{patience: 3 * time.Second, figures: mover.HostMemory, take: func(n memory.Bytes) error {
		b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		held = append(held, b)
		var all sync.WaitGroup
		var errs [hostThreads]error
		for i := range errs {
			part := len(b) / hostThreads
			all.Go(func() { errs[i] = use(b[i*part : (i+1)*part]) })
		}
		all.Wait()
		return errors.Join(errs[:]...)
	}}.grow(ctx, need, report)
}

// use has memory be there.
func use(b []byte) error {
	if err := unix.Madvise(b, unix.MADV_POPULATE_WRITE); !errors.Is(err, unix.EINVAL) {
		return err
	}
	for i := 0; i < len(b); i += unix.Getpagesize() { // before Linux 5.14
		b[i] = 1
	}
	return nil
}
