package device

import (
	"golang.org/x/sys/unix"
)

const (
	pageBytes  = 4096
	blockBytes = 2 << 20 // the driver takes device memory in blocks of this size
	largest    = 1 << 46 // sizes beyond are refused before any arithmetic
)

// charge is what an allocation takes of the device.
func charge(n uint64) uint64 {
	unit := uint64(pageBytes)
	if n >= blockBytes/2 {
		unit = blockBytes
	}
	return (n + unit - 1) / unit * unit
}

// alloc backs [B, B+C) with memory of context A's device, or with memory of device
// g that is the whole process's.
func (d *Device) alloc(c *client, g *gpu, req *request) result {
	if req.A != 0 {
		ctx := c.contexts[req.A]
		if ctx == nil {
			return invalidContext
		}
		g = ctx.gpu
	}
	if req.C == 0 || req.B%pageBytes != 0 || req.B == 0 {
		return invalidValue
	}
	if req.C > largest || !g.capacity.Reserve(charge(req.C)) {
		return outOfMemory
	}
	fd, data, err := newMemfd("xmsched-sim-hbm", roundPage(req.C))
	if err != nil {
		g.capacity.Return(charge(req.C))
		d.log.Warn("allocate device memory", "bytes", req.C, "err", err)
		return outOfMemory
	}
	_ = unix.Close(fd) // the mapping keeps the memory
	sp := &span{base: req.B, size: req.C, kind: deviceMemory, gpu: g, ctx: req.A, charge: charge(req.C), data: data}
	if r := c.space.add(sp); r != success {
		sp.unmap()
		g.capacity.Return(sp.charge)
		return r
	}
	return success
}

func roundPage(n uint64) uint64 { return (n + pageBytes - 1) / pageBytes * pageBytes }

// hostAlloc makes pinned host memory, or managed memory that is at home on the
// host, for [B, B+C): the client maps it there.
func (d *Device) hostAlloc(c *client, req *request, kind memoryKind) (reply, int) {
	if req.C == 0 || req.B%pageBytes != 0 || req.B == 0 {
		return reply{Result: invalidValue}, -1
	}
	if req.C > hostLimit-c.hostBytes {
		return reply{Result: outOfMemory}, -1
	}
	fd, data, err := newMemfd("xmsched-sim-host", roundPage(req.C))
	if err != nil {
		d.log.Warn("allocate host memory", "bytes", req.C, "err", err)
		return reply{Result: outOfMemory}, -1
	}
	sp := &span{base: req.B, size: req.C, kind: kind, data: data}
	if kind == managedMemory {
		sp.blocks = make([]block, (req.C+blockBytes-1)/blockBytes)
		for i := range sp.blocks {
			sp.blocks[i].home = onHost
		}
	}
	if r := c.space.add(sp); r != success {
		sp.unmap()
		_ = unix.Close(fd)
		return reply{Result: r}, -1
	}
	c.hostBytes += sp.size
	return reply{}, fd
}

// hostRegister makes the client's own memory [B, B+C) known. When the client
// found the descriptor behind it, and that memory cannot shrink, it is mapped
// here; otherwise it is reached through the kernel.
func (d *Device) hostRegister(c *client, req *request, fds []int) result {
	if req.C == 0 || req.C > hostLimit-c.hostBytes || req.B == 0 {
		return invalidValue
	}
	sp := &span{base: req.B, size: req.C, kind: foreignMemory}
	if len(fds) == 1 {
		if data := mapForeign(fds[0], req.D, req.C); data != nil {
			sp.kind, sp.data = hostMemory, data
		}
	}
	if r := c.space.add(sp); r != success {
		sp.unmap()
		return r
	}
	c.hostBytes += sp.size
	return success
}

// mapForeign maps a client's descriptor, or returns nil when that is not safe:
// touching shared memory that its owner can shrink would end this process.
func mapForeign(fd int, offset, n uint64) []byte {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || offset%pageBytes != 0 || offset > uint64(st.Size) || roundPage(n) > roundPage(uint64(st.Size))-offset {
		return nil
	}
	data, err := unix.Mmap(fd, int64(offset), int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return data
}
