package device

import (
	"encoding/binary"
	"time"

	"xmsched/hal/sim/model"
)

// rmStatus is the resource manager's answer (nvstatuscodes.h of the open kernel
// modules).
type rmStatus = result

const (
	rmDuplicate       rmStatus = 0x19 // INSERT_DUPLICATE_NAME
	rmInvalidArgument rmStatus = 0x1f
	rmInvalidClient   rmStatus = 0x23
	rmInvalidParent   rmStatus = 0x36
	rmNotSupported    rmStatus = 0x56
	rmNotFound        rmStatus = 0x57
	rmNoResources     rmStatus = 0x1a // INSUFFICIENT_RESOURCES
	rmFirstClient              = 0xc1d00000
	rmFirstObject              = 0xcaf00000 // of handles that the caller leaves to us
	rmMostObjects              = 4096       // of one process's
	rmMostChannels             = 64         // of one call
	rmClassRoot                = 0x41
	rmClassDevice              = 0x80
	rmClassSubdevice           = 0x2080
	rmClassGroup               = 0xa06c
	rmChannelLowByte           = 0x6f
	rmEngineGraphics           = 1
	rmEngineCopyIn             = 11 // those that libcuda uses on an H200
	rmEngineCopyOut            = 12
	rmEngineCopyPeer           = 13
	copyGroupChannels          = 4 // of a copy engine's group: rings share them
)

// rmTable is every client of the resource manager, of all processes, by handle.
// Protected by Device.mu.
type rmTable map[uint32]*rmClient

// rmClient is one client: the root of a process's objects, by handle.
type rmClient struct {
	owner   *client
	objects map[uint32]*rmObject
	last    uint32 // handle that was given out
}

// rmObject is a name for something; a duplicate is a second name for the same.
type rmObject struct {
	parent uint32
	below  map[uint32]struct{}
	of     *rmResource
}

// rmResource is what a name stands for. A group has an engine; a channel its
// group's, and its place in it.
type rmResource struct {
	class  uint32
	gpu    *gpu // nil: of a client alone
	ctx    uint64
	engine model.Engine
	place  int
	names  int
	kids   int // channels that a group has had
	off    bool
}

// forget takes away all that a process has had.
func (t rmTable) forget(c *client) {
	for h := range c.rm {
		delete(t, h)
	}
	clear(c.rm)
}

// client finds a client of the caller's: another process's is as good as none.
func (t rmTable) client(c *client, handle uint64) (*rmClient, rmStatus) {
	rc := t[uint32(handle)]
	if rc == nil || rc.owner != c || handle>>32 != 0 {
		return nil, rmInvalidClient
	}
	return rc, success
}

// object finds an object of the caller's.
func (t rmTable) object(c *client, client, handle uint64) (*rmResource, rmStatus) {
	rc, status := t.client(c, client)
	if status != success {
		return nil, status
	}
	o := rc.objects[uint32(handle)]
	if o == nil || handle>>32 != 0 {
		return nil, rmNotFound
	}
	return o.of, success
}

// answerRM acts on a request to the resource manager.
func (d *Device) answerRM(c *client, req *request) reply {
	switch req.Op {
	case opRMSlice:
		return reply{Result: d.setSlice(c, req)}
	case opRMHold:
		return reply{Result: d.holdChannels(c, req)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch req.Op {
	case opRMAlloc:
		handle, status := d.rmAlloc(c, req)
		return reply{Result: status, A: uint64(handle)}
	case opRMDup:
		handle, status := d.rmDup(c, req)
		return reply{Result: status, A: uint64(handle)}
	case opRMFree:
		return reply{Result: d.rmFree(c, req)}
	case opRMGetSlice:
		o, ctx, status := d.group(c, req)
		if status != success {
			return reply{Result: status}
		}
		return reply{A: uint64(ctx.gpu.machine.Timeslice(ctx.model, o.engine) / time.Microsecond)}
	}
	o, status := d.rm.object(c, req.A, req.B)
	if status != success {
		return reply{Result: status}
	}
	rep := reply{A: uint64(o.class)}
	if o.gpu != nil {
		rep.UUID = o.gpu.uuid
	}
	return rep
}

// rmAlloc makes an object: client A, parent B, wanted handle C (0: any), class D;
// the text holds the context that it is for, an engine type, and a device's number.
func (d *Device) rmAlloc(c *client, req *request) (uint32, rmStatus) {
	class := uint32(req.D)
	if class <= 1 || class == rmClassRoot {
		return d.rmRoot(c, uint32(req.C))
	}
	rc, status := d.rm.client(c, req.A)
	if status != success {
		return 0, status
	}
	r := &rmResource{
		class: class, ctx: binary.LittleEndian.Uint64(req.Text[0:]),
		engine: rmEngine(binary.LittleEndian.Uint32(req.Text[8:])),
	}
	parent := rc.objects[uint32(req.B)]
	switch {
	case parent == nil:
		return 0, rmInvalidParent
	case class == rmClassDevice:
		if r.gpu = d.gpuOf(binary.LittleEndian.Uint32(req.Text[12:])); r.gpu == nil {
			return 0, rmInvalidArgument
		}
	default:
		r.gpu = parent.of.gpu
	}
	if class&0xff == rmChannelLowByte {
		r.ctx, r.engine, r.place = parent.of.ctx, parent.of.engine, parent.of.kids
		parent.of.kids++
	}
	if g := c.contexts[r.ctx]; g != nil && g.gpu != r.gpu {
		return 0, rmInvalidArgument
	}
	return rc.add(uint32(req.C), uint32(req.B), r)
}

func (d *Device) rmRoot(c *client, handle uint32) (uint32, rmStatus) {
	for next := uint32(rmFirstClient); handle == 0; next++ {
		if d.rm[next] == nil {
			handle = next
		}
	}
	if d.rm[handle] != nil {
		return 0, rmDuplicate
	}
	if len(c.rm) >= rmMostObjects {
		return 0, rmNoResources
	}
	root := &rmResource{class: rmClassRoot, names: 1}
	d.rm[handle] = &rmClient{owner: c, objects: map[uint32]*rmObject{handle: {of: root}}, last: rmFirstObject}
	c.rm[handle] = struct{}{}
	return handle, success
}

// add gives a resource a name. Precondition: the parent is there.
func (rc *rmClient) add(handle, parent uint32, r *rmResource) (uint32, rmStatus) {
	for handle == 0 {
		rc.last++
		if rc.objects[rc.last] == nil {
			handle = rc.last
		}
	}
	if rc.objects[handle] != nil {
		return 0, rmDuplicate
	}
	if len(rc.objects) >= rmMostObjects {
		return 0, rmNoResources
	}
	r.names++
	rc.objects[handle] = &rmObject{parent: parent, of: r}
	if up := rc.objects[parent]; up.below == nil {
		up.below = map[uint32]struct{}{handle: {}}
	} else {
		up.below[handle] = struct{}{}
	}
	return handle, success
}

// rmDup gives the object D (its client in the upper half) a second name: in client
// A, under B, wanted handle C.
func (d *Device) rmDup(c *client, req *request) (uint32, rmStatus) {
	rc, status := d.rm.client(c, req.A)
	if status != success {
		return 0, status
	}
	r, status := d.rm.object(c, req.D>>32, req.D&0xffffffff)
	if status != success {
		return 0, status
	}
	if rc.objects[uint32(req.B)] == nil {
		return 0, rmInvalidParent
	}
	return rc.add(uint32(req.C), uint32(req.B), r)
}

// rmFree takes the object B of client A away with all below it.
func (d *Device) rmFree(c *client, req *request) rmStatus {
	rc, status := d.rm.client(c, req.A)
	if status != success {
		return status
	}
	handle := uint32(req.B)
	if rc.objects[handle] == nil {
		return rmNotFound
	}
	d.rmDrop(c, rc, handle)
	if handle == uint32(req.A) {
		delete(d.rm, handle)
		delete(c.rm, handle)
	}
	return success
}

// rmDrop takes a name away with those below it. A channel that nothing names any
// more cannot be let go on by anybody: it goes on now.
func (d *Device) rmDrop(c *client, rc *rmClient, handle uint32) {
	o := rc.objects[handle]
	for below := range o.below {
		d.rmDrop(c, rc, below)
	}
	delete(rc.objects, handle)
	if up := rc.objects[o.parent]; up != nil {
		delete(up.below, handle)
	}
	if o.of.names--; o.of.names == 0 && o.of.off {
		d.catchUp()
		o.of.enable(c.contexts[o.of.ctx], true)
		d.poke()
	}
}

// rmEngine is the engine of a group of that type; other types' groups have none of
// ours.
func rmEngine(t uint32) model.Engine {
	switch t {
	case rmEngineGraphics:
		return model.Compute
	case rmEngineCopyIn:
		return model.CopyIn
	case rmEngineCopyOut:
		return model.CopyOut
	case rmEngineCopyPeer:
		return model.CopyPeer
	}
	return model.FrontEnd
}
