package mover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
	"xmsched/memory"
)

const (
	unitsOfPiece = int(memory.PieceBytes / kernels.DigestUnit)
	// A launch takes at least leastUnits and at most mostUnits, as far as they take about a
	// millisecond: whoever waits for the process waits for little more than that.
	leastUnits = unitsOfPiece
	mostUnits  = int(4 * memory.GiB / kernels.DigestUnit)
	// digestBlocks fill any device that there is.
	digestBlocks = 132 * 8
)

// hasher takes digests on the device, in the copier's context. It is used by the
// copier's goroutine.
type hasher struct {
	driver *cuda.Driver
	stream cuda.Stream
	begun  cuda.Event
	done   cuda.Event
	kernel cuda.Function
	key    abi.DevicePtr
	table  []byte        // of the host, pinned: addresses of units, then their digests
	at     abi.DevicePtr // of the table
	last   [2 * unitsOfPiece]digest
	units  int // of the next launch
}

// openHasher makes one in the current context, and has it prove itself: a kernel that
// does not compute what it should would take what changed for clean.
func openHasher(d *cuda.Driver) (*hasher, error) {
	h := &hasher{driver: d, units: leastUnits}
	key := make([]byte, kernels.DigestKeyBytes+len(h.last)*kernels.DigestBytes)
	if err := random(key); err != nil {
		return nil, err
	}
	for i := range h.last {
		b := key[kernels.DigestKeyBytes+kernels.DigestBytes*i:]
		h.last[i] = digest{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b)}
	}
	key = key[:kernels.DigestKeyBytes]
	module, err := d.LoadModule(kernels.DigestPTX())
	if err != nil {
		return nil, err
	}
	if h.kernel, err = module.Function("xm_digest"); err == nil {
		err = h.open(key)
	}
	if err == nil {
		err = h.prove(key)
	}
	if err != nil {
		return nil, errors.Join(err, h.release(), module.Unload())
	}
	return h, nil
}

func (h *hasher) open(key []byte) (err error) {
	if h.stream, err = h.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return err
	}
	for _, e := range []*cuda.Event{&h.begun, &h.done} {
		if *e, err = h.driver.NewEvent(uint32(abi.CU_EVENT_BLOCKING_SYNC)); err != nil {
			return err
		}
	}
	if h.key, err = h.driver.MemAlloc(uint64(len(key))); err != nil {
		return err
	}
	if h.table, err = h.driver.HostAlloc(uint64(mostUnits*(8+kernels.DigestBytes)), uint32(abi.CU_MEMHOSTALLOC_DEVICEMAP)); err != nil {
		return err
	}
	if h.at, err = h.driver.HostDevicePointer(h.table); err != nil {
		return err
	}
	return h.upload(h.key, key)
}

// upload has bytes be on the device for what the stream is given next. A copy without a
// stream returns when the driver has the bytes, which it may bring to the device while
// kernels of this stream run already: these do not wait for it (H200). What is read back
// has arrived.
func (h *hasher) upload(to abi.DevicePtr, b []byte) error {
	if err := h.driver.MemcpyHtoD(to, b); err != nil {
		return err
	}
	last := make([]byte, 1)
	return h.driver.MemcpyDtoH(last, to+abi.DevicePtr(len(b)-1))
}

// release gives back what open made, as far as it came.
func (h *hasher) release() (err error) {
	if h.table != nil {
		err = h.driver.HostFree(h.table)
	}
	if h.key != 0 {
		err = errors.Join(err, h.driver.MemFree(h.key))
	}
	for _, e := range []cuda.Event{h.begun, h.done} {
		if e.Handle != 0 {
			err = errors.Join(err, e.Destroy())
		}
	}
	if h.stream.Handle != 0 {
		err = errors.Join(err, h.stream.Destroy())
	}
	return err
}

// prove has the device take the digests of bytes of which they are known.
func (h *hasher) prove(key []byte) error {
	unit := make([]byte, 2*kernels.DigestUnit)
	if err := random(unit); err != nil {
		return err
	}
	at, err := h.driver.MemAlloc(uint64(len(unit)))
	if err != nil {
		return err
	}
	err = h.upload(at, unit)
	if err == nil {
		h.list(0, uint64(at)+kernels.DigestUnit)
		h.list(1, uint64(at))
		err = h.launch(2)
	}
	if err = errors.Join(err, h.driver.MemFree(at)); err != nil {
		return err
	}
	for i, part := range [...][]byte{unit[kernels.DigestUnit:], unit[:kernels.DigestUnit]} {
		if want := kernels.Digest(key, part); !bytes.Equal(h.result(i), want[:]) {
			return fmt.Errorf("digest %x of bytes whose digest is %x", h.result(i), want)
		}
	}
	return nil
}

// list enters a unit's address.
func (h *hasher) list(i int, address uint64) { binary.LittleEndian.PutUint64(h.table[8*i:], address) }

// result is a unit's digest, after a launch.
func (h *hasher) result(i int) []byte {
	return h.table[8*mostUnits+kernels.DigestBytes*i:][:kernels.DigestBytes]
}

// launch takes the digests of the first n units that were entered.
func (h *hasher) launch(n int) error {
	args, err := cuda.NewLaunchArgs(h.at+abi.DevicePtr(8*mostUnits), h.at, h.key, uint32(n))
	if err != nil {
		return err
	}
	grid, block := [3]uint32{uint32(min(n, digestBlocks)), 1, 1}, [3]uint32{kernels.DigestThreads, 1, 1}
	if err := h.begun.Record(h.stream); err != nil {
		return err
	}
	if err := h.driver.Launch(h.kernel, grid, block, 0, h.stream, args); err != nil {
		return err
	}
	if err := h.done.Record(h.stream); err != nil {
		return errors.Join(err, h.stream.Synchronize())
	}
	return h.done.Synchronize()
}

func (h *hasher) sums(list []memory.Segment, into []digest, stop func() bool) ([]digest, error) {
	for len(list) > 0 && !stop() {
		n, units := 0, 0
		for ; n < len(list); n++ {
			more := int(list[n].Bytes / kernels.DigestUnit)
			if n > 0 && units+more > h.units {
				break
			}
			for u := range more {
				h.list(units+u, list[n].Address+uint64(u)*kernels.DigestUnit)
			}
			units += more
		}
		err := h.launch(units)
		if err == nil {
			err = h.pace()
		}
		if err != nil {
			return into, fmt.Errorf("digests of %d segments: %w", n, err)
		}
		at := 0
		for _, s := range list[:n] {
			more := int(s.Bytes / kernels.DigestUnit)
			into = append(into, h.sum(at, more))
			at += more
		}
		list = list[n:]
	}
	return into, nil
}

// pace has a launch take about a millisecond of the device. What it waits for its turn
// beside others' work is not counted: that is as long for a large one.
func (h *hasher) pace() error {
	took, err := h.done.Elapsed(h.begun)
	switch {
	case err != nil:
		return err
	case took < 0.5:
		h.units = min(2*h.units, mostUnits)
	case took > 2:
		h.units = max(h.units/2, leastUnits)
	}
	return nil
}

// sum is the digest of n units' digests, from the one at on: a sum over their words,
// each times a random number, modulo 2^128, as in kernels.Digest. Segments that differ
// have the same one with a probability of at most 2^-64 for a unit's digest, and 2^-65
// here.
func (h *hasher) sum(at, n int) (d digest) {
	for u := range n {
		b := h.result(at + u)
		d.addTimes(h.last[2*u], binary.LittleEndian.Uint64(b))
		d.addTimes(h.last[2*u+1], binary.LittleEndian.Uint64(b[8:]))
	}
	return d
}

// addTimes adds k*m.
func (d *digest) addTimes(k digest, m uint64) {
	hi, lo := bits.Mul64(k.lo, m)
	var carry uint64
	d.lo, carry = bits.Add64(d.lo, lo, 0)
	d.hi += hi + carry + k.hi*m
}
