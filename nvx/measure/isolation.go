package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/memory"
	"xmsched/nvx/mover"
	"xmsched/nvx/sheet"
)

// The allocators that are looked into.
const (
	plainAllocator  = "cuMemAlloc"
	mappedAllocator = "cuMemCreate"
	hostAllocator   = "cuMemCreate HOST_NUMA" // host memory, as moved memory is kept in
)

// allocators are those of device memory.
var allocators = []string{plainAllocator, mappedAllocator}

// How much is written and looked at. The reader takes at most half of what is
// free, since others use the device too; a simulated device's memory is the
// host's. Of the host's it takes less: it is pinned, at 178 us per MiB or more, in
// which the driver holds its lock over all GPUs (h200.md).
const (
	chunkBytes     = 64 << 20
	writeMost      = 4 << 30
	writeHost      = 1 << 30
	readHost       = 2 << 30
	writeSimulated = 128 << 20
	readSimulated  = 256 << 20
	readShare      = 2 // of what is free, the part read
	writeShare     = 8 // and the part written, at most
)

// room is how much of a kind of memory is free, and how much of that is written
// and read.
type room struct{ free, write, read uint64 }

func (g *gpu) room(allocator string) (room, error) {
	var r room
	if allocator == hostAllocator {
		host := mover.HostMemory()
		most, _ := memory.HostBudget(host) // half of what is available, or the control group's limit
		r.free = uint64(host.Available)
		r.write, r.read = min(writeHost, uint64(most)/writeShare), min(readHost, uint64(most)/readShare)
	} else {
		var err error
		if r.free, _, err = g.driver.MemInfo(); err != nil {
			return r, err
		}
		r.write, r.read = min(writeMost, r.free/writeShare), r.free/readShare
	}
	if g.simulated {
		r.write, r.read = min(r.write, writeSimulated), min(r.read, readSimulated)
	}
	return r, nil
}

// chunk is a piece of memory that the device reads and writes.
type chunk struct {
	at     abi.DevicePtr
	bytes  uint64
	handle cuda.MemHandle
	mapped bool
}

func (g *gpu) take(allocator string, bytes uint64) (chunk, error) {
	c := chunk{bytes: bytes, mapped: allocator != plainAllocator}
	if !c.mapped {
		at, err := g.driver.MemAlloc(bytes)
		c.at = at
		return c, err
	}
	var err error
	if c.handle, err = g.physical(allocator, bytes); err != nil {
		return c, err
	}
	if c.at, err = g.driver.ReserveAddress(bytes); err != nil {
		return c, errors.Join(err, g.driver.ReleaseMem(c.handle))
	}
	if err = g.driver.Map(c.at, bytes, c.handle); err == nil {
		err = g.driver.SetAccess(c.at, bytes, g.device)
	}
	if err != nil {
		return c, errors.Join(err, g.driver.FreeAddress(c.at, bytes), g.driver.ReleaseMem(c.handle))
	}
	return c, nil
}

// physical makes memory that can be mapped.
func (g *gpu) physical(allocator string, bytes uint64) (cuda.MemHandle, error) {
	if allocator != hostAllocator {
		return g.driver.CreateMem(g.device, bytes)
	}
	able, err := g.device.Attribute(abi.CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
	if err != nil {
		return 0, err
	}
	if able == 0 {
		return 0, errors.New("the device does not map such memory")
	}
	node, err := g.device.Attribute(abi.CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)
	if err != nil {
		return 0, err
	}
	return g.driver.CreateHostMem(max(node, 0), bytes) // a machine without NUMA says -1
}

func (g *gpu) give(c chunk) error {
	if !c.mapped {
		return g.driver.MemFree(c.at)
	}
	return errors.Join(g.driver.Unmap(c.at, c.bytes), g.driver.FreeAddress(c.at, c.bytes), g.driver.ReleaseMem(c.handle))
}

// takeAll takes so many bytes in chunks; fewer, when the device has no more.
func (g *gpu) takeAll(allocator string, bytes uint64) ([]chunk, error) {
	var all []chunk
	for taken := uint64(0); taken+chunkBytes <= bytes; taken += chunkBytes {
		c, err := g.take(allocator, chunkBytes)
		if errors.Is(err, abi.CUDA_ERROR_OUT_OF_MEMORY) {
			break
		}
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no %d bytes are free", allocator, uint64(chunkBytes))
	}
	return all, nil
}

func (g *gpu) giveAll(chunks []chunk) error {
	var errs []error
	for _, c := range chunks {
		errs = append(errs, g.give(c))
	}
	return errors.Join(errs...)
}

// leave fills memory with a pattern, and looks whether it is there; the chunks are
// the caller's to free, or to leave to the end of the process.
func (g *gpu) leave(allocator string, pattern uint32) ([]chunk, error) {
	r, err := g.room(allocator)
	if err != nil {
		return nil, err
	}
	chunks, err := g.takeAll(allocator, r.write)
	var words uint64
	for _, c := range chunks {
		err = errors.Join(err, g.driver.MemsetD32(c.at, pattern, c.bytes/4))
		words += c.bytes / 4
	}
	if err = errors.Join(err, g.ctx.Synchronize()); err != nil {
		return chunks, err
	}
	seen, err := g.counted(chunks, pattern)
	if err == nil && seen != words {
		err = fmt.Errorf("%s: of %d words that were written %d are seen in the same memory", allocator, words, seen)
	}
	return chunks, err
}

// search takes memory and counts the words in it that equal the pattern.
func (g *gpu) search(allocator string, pattern uint32) (read, free, seen uint64, err error) {
	r, err := g.room(allocator)
	if err != nil {
		return 0, 0, 0, err
	}
	chunks, err := g.takeAll(allocator, r.read)
	if err != nil {
		return 0, r.free, 0, errors.Join(err, g.giveAll(chunks))
	}
	for _, c := range chunks {
		read += c.bytes
	}
	seen, err = g.counted(chunks, pattern)
	return read, r.free, seen, errors.Join(err, g.giveAll(chunks))
}

func (g *gpu) counted(chunks []chunk, pattern uint32) (uint64, error) {
	out, err := g.driver.MemAlloc(8)
	if err != nil {
		return 0, err
	}
	err = g.driver.MemsetD8(out, 0, 8)
	for _, c := range chunks {
		args, e := cuda.NewLaunchArgs(out, c.at, c.bytes/4, pattern)
		if err = errors.Join(err, e); err != nil {
			break
		}
		err = g.driver.Launch(g.count, [3]uint32{4 * g.blocks, 1, 1}, [3]uint32{256, 1, 1}, 0, cuda.Stream{}, args)
	}
	var sum [8]byte
	err = errors.Join(err, g.driver.MemcpyDtoH(sum[:], out), g.driver.MemFree(out))
	return binary.LittleEndian.Uint64(sum[:]), err
}

// isolation lets a peer write and free, and looks for it here; then the peer
// writes again and ends. It takes the peer, which is gone afterwards.
func isolation(g *gpu, p *peer, allocator string) (sheet.Isolation, error) {
	one := sheet.Isolation{Allocator: allocator, ExitedToo: true}
	pattern := rand.Uint32() | 1 // memory that was cleared is no match
	written, err := p.write(allocator, pattern, false)
	if err != nil {
		return one, errors.Join(err, p.end())
	}
	one.WrittenBytes = written
	if one.ReadBytes, one.FreeBytes, one.WordsSeen, err = g.search(allocator, pattern); err != nil {
		return one, errors.Join(err, p.end())
	}
	_, err = p.write(allocator, pattern, true)
	if err = errors.Join(err, p.end()); err != nil {
		return one, err
	}
	_, _, seen, err := g.search(allocator, pattern)
	one.WordsSeen += seen
	return one, err
}
