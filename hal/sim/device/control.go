package device

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/hal/sim/model"
)

// Controls of channels take the driver's time, and only then have they happened.
// One runs at a time, over all devices and processes.

// bodyWait is how often a suspension looks whether the bodies that it caught have
// ended.
const bodyWait = 50 * time.Microsecond

// group finds a channel group and its context: client A, object B. Precondition:
// Device.mu is held.
func (d *Device) group(c *client, req *request) (*rmResource, *gpuContext, rmStatus) {
	o, status := d.rm.object(c, req.A, req.B)
	if status != success {
		return nil, nil, status
	}
	ctx := c.contexts[o.ctx]
	if o.class != rmClassGroup || ctx == nil || o.engine == model.FrontEnd {
		return nil, nil, rmNotSupported
	}
	return o, ctx, success
}

// setSlice sets the time slice of group B of client A to C microseconds.
func (d *Device) setSlice(c *client, req *request) rmStatus {
	d.driver.Lock()
	defer d.driver.Unlock()
	d.mu.Lock()
	o, ctx, status := d.group(c, req)
	if status != success || req.C == 0 || req.C > uint64(time.Minute/time.Microsecond) {
		d.mu.Unlock()
		if status == success {
			status = rmInvalidArgument
		}
		return status
	}
	d.catchUp()
	cost := ctx.gpu.machine.ControlCost(model.SetSlice, o.engine, nil)
	d.mu.Unlock()
	d.take(cost)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.catchUp()
	_ = ctx.gpu.machine.SetTimeslice(ctx.model, o.engine, time.Duration(req.C)*time.Microsecond)
	d.poke()
	return success
}

// holdChannels takes channels off subdevice B of client A (C is 1), or puts them
// back (C is 0): D pairs of client and channel, in the text. All or none.
func (d *Device) holdChannels(c *client, req *request) rmStatus {
	d.driver.Lock()
	defer d.driver.Unlock()
	d.mu.Lock()
	list, g, status := d.listed(c, req)
	if status != success {
		d.mu.Unlock()
		return status
	}
	cost, on := model.Suspend, req.C == 0
	if on {
		cost = model.Resume
	}
	d.catchUp()
	took := g.machine.ControlCost(cost, model.Compute, func(id model.ContextID) bool { return c.has(id, g) })
	d.mu.Unlock()
	d.take(took)
	d.mu.Lock()
	d.catchUp()
	for _, o := range list {
		o.enable(c.contexts[o.ctx], on)
	}
	d.poke()
	for !on && d.caught(c, list) {
		d.mu.Unlock()
		time.Sleep(bodyWait)
		d.mu.Lock()
	}
	d.mu.Unlock()
	return success
}

// listed reads which channels a request names, and on which device.
func (d *Device) listed(c *client, req *request) ([]*rmResource, *gpu, rmStatus) {
	sub, status := d.rm.object(c, req.A, req.B)
	switch {
	case status != success:
		return nil, nil, status
	case sub.class != rmClassSubdevice:
		return nil, nil, rmNotSupported
	case req.D > rmMostChannels || req.C > 1:
		return nil, nil, rmInvalidArgument
	}
	list := make([]*rmResource, req.D)
	for i := range list {
		pair := req.Text[8*i:]
		o, status := d.rm.object(c, uint64(binary.LittleEndian.Uint32(pair)), uint64(binary.LittleEndian.Uint32(pair[4:])))
		if status != success {
			return nil, nil, status
		}
		if o.class&0xff != rmChannelLowByte || o.gpu != sub.gpu {
			return nil, nil, rmInvalidArgument
		}
		list[i] = o
	}
	return list, sub.gpu, success
}

// has tells whether a context of a device's machine is the client's.
func (c *client) has(id model.ContextID, on *gpu) bool {
	for _, g := range c.contexts {
		if g.model == id && g.gpu == on {
			return true
		}
	}
	return false
}

// take passes a control's time, scaled; less when the device ends. The runtime's
// timers are a millisecond late.
func (d *Device) take(cost time.Duration) {
	const piece = 20 * time.Millisecond
	for until := time.Now().Add(time.Duration(float64(cost) * d.cfg.Scale)); ; {
		left := min(time.Until(until), piece)
		if left <= 0 {
			return
		}
		ts := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&ts, nil)
		select {
		case <-d.end:
			return
		default:
		}
	}
}

// rings are those of a context's that use a channel: the compute group has a channel
// for each, a copy group's are shared.
func (r *rmResource) rings(yield func(int)) {
	if r.engine == model.FrontEnd {
		return
	}
	step := copyGroupChannels
	if r.engine == model.Compute {
		step = ringChannels
	}
	for n := r.place; n < ringChannels; n += step {
		yield(n)
	}
}

// enable lets a channel's rings run on its engine, or not. The context may be gone.
func (r *rmResource) enable(ctx *gpuContext, on bool) {
	r.off = !on
	if ctx == nil {
		return
	}
	r.rings(func(n int) { _ = ctx.gpu.machine.SetChannelEnabled(ctx.model, r.engine, n, on) })
}

// caught tells whether a worker still has the body of a command that a suspension
// has stopped: its bytes are there before the caller may move any.
func (d *Device) caught(c *client, list []*rmResource) (any bool) {
	if d.stopped {
		return false
	}
	for _, o := range list {
		ctx := c.contexts[o.ctx]
		if ctx == nil {
			continue
		}
		o.rings(func(n int) {
			flight := ctx.channels[n].flight
			any = any || len(flight) > 0 && flight[0].inBody && flight[0].engine == o.engine
		})
	}
	return any
}
