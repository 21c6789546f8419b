package measure

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/nvx/sheet"
)

const (
	copyBytes   = 64 << 20
	copies      = 6 // queued at once
	remapRounds = 30
	queueMost   = 8192 // commands that a queue is offered
	queueStuck  = 200 * time.Millisecond
	// boundMost is the daemon's largest threshold (board.MaxThreshold).
	boundMost = 256
)

// queueDepth finds how many commands a held stream takes before a launch blocks.
func queueDepth(g *gpu) (*sheet.Queue, error) {
	w, err := newWords(g.driver, 1)
	if err != nil {
		return nil, err
	}
	s, err := g.driver.NewStream(nonBlocking)
	if err != nil {
		return nil, err
	}
	if err := s.WaitValue32(w.at(0), 1, abi.CU_STREAM_WAIT_VALUE_AND); err != nil {
		return nil, err
	}
	var taken atomic.Uint32
	ended := g.thread(func() error { // blocks until the gate opens
		for range queueMost {
			if err := g.driver.Launch(g.empty, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, s, nil); err != nil {
				return err
			}
			taken.Add(1)
		}
		return nil
	})
	_, _ = quiet(time.Now(), taken.Load, queueStuck, time.Minute)
	depth := int(taken.Load())
	w.store(0, 1)
	if err := errors.Join(<-ended, s.Synchronize(), s.Destroy()); err != nil {
		return nil, err
	}
	w.free()
	return &sheet.Queue{DepthCommands: depth, Blocks: depth < queueMost, BoundLowest: 1, BoundHighest: boundMost}, nil
}

// lane is one direction of the link.
type lane struct {
	g          *gpu
	toDevice   bool
	host       []byte
	device     abi.DevicePtr
	stream     cuda.Stream
	begin, end cuda.Event
}

func (g *gpu) newLane(toDevice bool, bytes uint64) (l *lane, err error) {
	l = &lane{g: g, toDevice: toDevice}
	if l.host, err = g.driver.HostAlloc(bytes, abi.CU_MEMHOSTALLOC_PORTABLE); err != nil {
		return nil, err
	}
	if l.device, err = g.driver.MemAlloc(bytes); err != nil {
		return nil, err
	}
	if l.stream, err = g.driver.NewStream(nonBlocking); err != nil {
		return nil, err
	}
	for _, e := range []*cuda.Event{&l.begin, &l.end} {
		if *e, err = g.driver.NewEvent(0); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// queue puts copies into the stream.
func (l *lane) queue(n int) error {
	err := l.begin.Record(l.stream)
	for range n {
		if l.toDevice {
			err = errors.Join(err, l.g.driver.MemcpyHtoDAsync(l.device, l.host, l.stream))
		} else {
			err = errors.Join(err, l.g.driver.MemcpyDtoHAsync(l.host, l.device, l.stream))
		}
	}
	return errors.Join(err, l.end.Record(l.stream))
}

// speed waits for them, and gives GB/s.
func (l *lane) speed(n int) (float64, error) {
	if err := l.stream.Synchronize(); err != nil {
		return 0, err
	}
	ms, err := l.end.Elapsed(l.begin)
	if err != nil || ms <= 0 {
		return 0, errors.Join(err, errors.New("copies took no time"))
	}
	return float64(n) * float64(len(l.host)) / (float64(ms) * 1e6), nil
}

func (l *lane) close() error {
	return errors.Join(l.stream.Destroy(), l.begin.Destroy(), l.end.Destroy(), l.g.driver.MemFree(l.device), l.g.driver.HostFree(l.host))
}

// link measures copies between pinned host memory and the device.
func link(g *gpu) (*sheet.Copy, error) {
	free, _, err := g.driver.MemInfo()
	if err != nil {
		return nil, err
	}
	bytes := min(copyBytes, free/16)
	in, err := g.newLane(true, bytes)
	if err != nil {
		return nil, err
	}
	out, err := g.newLane(false, bytes)
	if err != nil {
		return nil, err
	}
	c := &sheet.Copy{Bytes: bytes}
	err = errors.Join(
		run(map[*lane]*float64{in: new(float64), out: new(float64)}), // warms up
		run(map[*lane]*float64{in: &c.ToDeviceGBs}),
		run(map[*lane]*float64{out: &c.FromDeviceGBs}),
		run(map[*lane]*float64{in: &c.BothToGBs, out: &c.BothFromGBs}),
		besideKernel(g, in, &c.BesideKernelGBs),
	)
	return c, errors.Join(err, in.close(), out.close())
}

// run queues copies on all lanes and then waits for all.
func run(lanes map[*lane]*float64) error {
	for l := range lanes {
		if err := l.queue(copies); err != nil {
			return err
		}
	}
	for l, into := range lanes {
		var err error
		if *into, err = l.speed(copies); err != nil {
			return err
		}
	}
	return nil
}

// besideKernel copies while a kernel computes that does not touch memory.
func besideKernel(g *gpu, l *lane, into *float64) error {
	const iterations = 30_000_000 // some hundred milliseconds, more than the copies take
	s, err := g.driver.NewStream(nonBlocking)
	if err != nil {
		return err
	}
	args, err := cuda.NewLaunchArgs(uint64(0), uint64(iterations))
	if err != nil {
		return err
	}
	if err := g.driver.Launch(g.spin, [3]uint32{g.blocks, 1, 1}, [3]uint32{128, 1, 1}, 0, s, args); err != nil {
		return err
	}
	return errors.Join(run(map[*lane]*float64{l: into}), s.Synchronize(), s.Destroy())
}

// remap measures what changing the memory at an address costs.
func remap(g *gpu, bytes uint64) (sheet.Remap, error) {
	r := sheet.Remap{Bytes: bytes}
	unit, err := g.driver.Granularity(g.device)
	if err != nil {
		return r, err
	}
	if unit == 0 || bytes%unit != 0 {
		return r, fmt.Errorf("%d bytes are no multiple of the device's unit of %d", bytes, unit)
	}
	at, err := g.driver.ReserveAddress(bytes)
	if err != nil {
		return r, err
	}
	var took [5][]time.Duration
	for range remapRounds {
		var once [5]time.Duration
		if once, err = remapOnce(g, at, bytes); err != nil {
			break
		}
		for i, d := range once {
			took[i] = append(took[i], d)
		}
	}
	for i, into := range []**sheet.Times{&r.Create, &r.Map, &r.SetAccess, &r.Unmap, &r.Release} {
		*into = times(took[i])
	}
	return r, errors.Join(err, g.driver.FreeAddress(at, bytes))
}

// remapOnce makes memory, maps it, writes to it, and takes it away again.
func remapOnce(g *gpu, at abi.DevicePtr, bytes uint64) (took [5]time.Duration, err error) {
	timed := func(i int, f func() error) {
		if err != nil {
			return
		}
		begin := time.Now()
		err = f()
		took[i] = time.Since(begin)
	}
	var h cuda.MemHandle
	timed(0, func() (err error) { h, err = g.driver.CreateMem(g.device, bytes); return err })
	timed(1, func() error { return g.driver.Map(at, bytes, h) })
	timed(2, func() error { return g.driver.SetAccess(at, bytes, g.device) })
	if err == nil {
		err = errors.Join(g.driver.MemsetD32(at, 1, bytes/4), g.ctx.Synchronize())
	}
	timed(3, func() error { return g.driver.Unmap(at, bytes) })
	timed(4, func() error { return g.driver.ReleaseMem(h) })
	return took, err
}

// second measures a further context of this process.
func second(g *gpu) (*sheet.Second, error) {
	before, _, err := g.driver.MemInfo()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	ctx, err := g.driver.NewContext(g.device, 0)
	if err != nil {
		return nil, err
	}
	s := &sheet.Second{CreateMS: milliseconds(time.Since(begin))}
	after, _, err := g.driver.MemInfo()
	if after < before {
		s.MemoryBytes = before - after
	}
	begin = time.Now()
	err = errors.Join(err, ctx.Release())
	s.DestroyMS = milliseconds(time.Since(begin))
	return s, errors.Join(err, g.ctx.SetCurrent())
}
