package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/nvx/sheet"
)

// The allocators that are looked into.
const (
	plainAllocator  = "cuMemAlloc"
	mappedAllocator = "cuMemCreate"
)

var allocators = []string{plainAllocator, mappedAllocator}

// How much is written and looked at. The reader takes at most half of what is
// free, since others use the device too; a simulated device's memory is the
// host's.
const (
	chunkBytes     = 64 << 20
	writeMost      = 4 << 30
	writeSimulated = 128 << 20
	readSimulated  = 256 << 20
	readShare      = 2 // of what is free, the part read
	writeShare     = 8 // and the part written, at most
)

// chunk is a piece of device memory.
type chunk struct {
	at     abi.DevicePtr
	bytes  uint64
	handle cuda.MemHandle
	mapped bool
}

func (g *gpu) take(allocator string, bytes uint64) (chunk, error) {
	c := chunk{bytes: bytes, mapped: allocator == mappedAllocator}
	if !c.mapped {
		at, err := g.driver.MemAlloc(bytes)
		c.at = at
		return c, err
	}
	var err error
	if c.handle, err = g.driver.CreateMem(g.device, bytes); err != nil {
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

// leave fills memory with a pattern; the chunks are the caller's to free, or to
// leave to the end of the process.
func (g *gpu) leave(allocator string, pattern uint32) ([]chunk, error) {
	free, _, err := g.driver.MemInfo()
	if err != nil {
		return nil, err
	}
	most := uint64(writeMost)
	if g.simulated {
		most = writeSimulated
	}
	chunks, err := g.takeAll(allocator, min(most, free/writeShare))
	for _, c := range chunks {
		err = errors.Join(err, g.driver.MemsetD32(c.at, pattern, c.bytes/4))
	}
	return chunks, errors.Join(err, g.ctx.Synchronize())
}

// search takes memory and counts the words in it that equal the pattern.
func (g *gpu) search(allocator string, pattern uint32) (read, free, seen uint64, err error) {
	if free, _, err = g.driver.MemInfo(); err != nil {
		return 0, 0, 0, err
	}
	most := free / readShare
	if g.simulated {
		most = min(most, readSimulated)
	}
	chunks, err := g.takeAll(allocator, most)
	if err != nil {
		return 0, free, 0, errors.Join(err, g.giveAll(chunks))
	}
	for _, c := range chunks {
		read += c.bytes
	}
	seen, err = g.counted(chunks, pattern)
	return read, free, seen, errors.Join(err, g.giveAll(chunks))
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
