package device

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"xmsched/hal/kernels"
)

// Page faults, one for each block and access, and who watches them: trackers, as
// NVIDIA's UVM driver has them (nvx/faults knows the interface; the layouts here are
// the same facts).

// touch is one look of a body at managed memory.
type touch struct {
	span    *span
	addr, n uint64
	access  kernels.Access
}

// Accesses as the driver numbers them, and what is known of an entry.
const (
	faultRead  = 1
	faultWrite = 2

	entryFaultBytes = 72
	eventGPUFault   = 3

	offPutAhead = 8
	offDropped  = 16

	mostEntries  = 1 << 20
	mostTrackers = 8
)

// fault brings the managed memory that a kernel has touched to its device, and tells
// those who watch. Precondition: Device.mu is held.
func (d *Device) fault(cmd *command, all []touch) {
	if len(all) == 0 || cmd.dead {
		return
	}
	c, gpu := cmd.ch.ctx.owner, int8(cmd.ch.ctx.gpu.index)
	var entries []byte
	told := func(addr uint64, access byte) {
		if len(c.trackers) > 0 {
			entries = append(entries, d.faultEntry(addr, access, gpu)...)
		}
	}
	for _, t := range all {
		if t.span.gone {
			continue
		}
		for i := (t.addr - t.span.base) / blockBytes; i <= (t.addr+t.n-1-t.span.base)/blockBytes; i++ {
			at := max(t.addr, t.span.base+i*blockBytes) &^ (pageBytes - 1)
			b := &t.span.blocks[i]
			if t.access != kernels.Write && d.readFault(b, gpu) {
				told(at, faultRead)
			}
			if t.access != kernels.Read && d.writeFault(b, gpu) {
				told(at, faultWrite)
			}
		}
	}
	if len(entries) > 0 {
		c.tell(entries)
	}
}

// readFault tells whether a read faults, and brings the block or a copy.
func (d *Device) readFault(b *block, gpu int8) bool {
	if b.on(gpu) {
		return false
	}
	if b.mostly {
		d.copyTo(b, gpu)
	} else {
		d.moveTo(b, gpu)
	}
	return true
}

// writeFault is readFault for writes: what has copies must be one again first.
func (d *Device) writeFault(b *block, gpu int8) bool {
	if b.home == gpu && b.copies == 0 {
		return false
	}
	d.moveTo(b, gpu)
	return true
}

// faultEntry is one entry of a queue.
func (d *Device) faultEntry(addr uint64, access byte, gpu int8) []byte {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	e := make([]byte, entryFaultBytes)
	e[0] = eventGPUFault
	e[1] = 2 // the page table's entry is not valid
	binary.LittleEndian.PutUint64(e[8:], addr)
	binary.LittleEndian.PutUint64(e[16:], uint64(ts.Nano()))
	binary.LittleEndian.PutUint64(e[24:], uint64(d.gpus[gpu].machine.Now()))
	e[36] = 1 // of the compute engine
	e[37] = access
	return e
}

// tracker is a queue in a client's memory: entries, and a page of indices and
// counts of what was dropped. It ends when the client closes its descriptor.
type tracker struct {
	number               uint64
	queue, size, control uint64
	end                  int // readable when the client's is closed
	events               uint64
	put                  uint32
	dropped              uint64
}

// tools answers who watches: queue A of B entries, control page C, with the end of
// a pipe that the client holds; events C of tracker A (a number of this client's).
// A flush has nothing to do but to come behind all that has been told.
func (d *Device) tools(c *client, req *request, fds []int) reply {
	switch req.Op {
	case opToolsBegin:
		if len(fds) != 1 || req.B < 2 || req.B > mostEntries || req.B&(req.B-1) != 0 || req.A == 0 || req.C == 0 || len(c.trackers) >= mostTrackers {
			return reply{Result: invalidValue}
		}
		end, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return reply{Result: operatingSystem}
		}
		c.lastTracker++
		c.trackers = append(c.trackers, &tracker{number: c.lastTracker, queue: req.A, size: req.B, control: req.C, end: end})
		return reply{A: c.lastTracker}
	case opToolsEvents:
		for _, t := range c.trackers {
			if t.number == req.A {
				t.events = req.C
				return reply{}
			}
		}
		return reply{Result: invalidValue}
	}
	d.catchUp()
	d.poke()
	return reply{}
}

// tell gives entries to everybody who watches; whose descriptor is closed, or whose
// memory is gone, watches no longer.
func (c *client) tell(entries []byte) {
	kept := c.trackers[:0]
	for _, t := range c.trackers {
		if !t.closed() && (t.events>>eventGPUFault&1 == 0 || t.write(c.pid, entries) == nil) {
			kept = append(kept, t)
			continue
		}
		_ = unix.Close(t.end)
	}
	clear(c.trackers[len(kept):])
	c.trackers = kept
}

func (c *client) forgetTrackers() {
	for _, t := range c.trackers {
		_ = unix.Close(t.end)
	}
	c.trackers = nil
}

func (t *tracker) closed() bool {
	fds := []unix.PollFd{{Fd: int32(t.end)}}
	n, err := unix.Ppoll(fds, &unix.Timespec{}, nil)
	return err != nil || n > 0
}

// write puts entries into the queue as far as there is room, and counts the rest.
// One place stays free: else full would look like empty.
func (t *tracker) write(pid int, entries []byte) error {
	var get [4]byte
	if err := processVM(pid, get[:], t.control+4, false); err != nil { // get_behind
		return fmt.Errorf("page faults: %w", err)
	}
	mask := uint32(t.size - 1)
	room := uint64((binary.LittleEndian.Uint32(get[:]) - t.put - 1) & mask)
	n := min(room, uint64(len(entries)/entryFaultBytes))
	for left := entries[:n*entryFaultBytes]; len(left) > 0; {
		now := min(uint64(len(left)), (t.size-uint64(t.put))*entryFaultBytes)
		if err := processVM(pid, left[:now], t.queue+uint64(t.put)*entryFaultBytes, true); err != nil {
			return fmt.Errorf("page faults: %w", err)
		}
		t.put = (t.put + uint32(now/entryFaultBytes)) & mask
		left = left[now:]
	}
	t.dropped += uint64(len(entries)/entryFaultBytes) - n
	var dropped, put [8]byte
	binary.LittleEndian.PutUint64(dropped[:], t.dropped)
	binary.LittleEndian.PutUint32(put[:], t.put)
	binary.LittleEndian.PutUint32(put[4:], t.put)
	if err := processVM(pid, dropped[:], t.control+offDropped+8*eventGPUFault, true); err != nil {
		return fmt.Errorf("page faults: %w", err)
	}
	if err := processVM(pid, put[:], t.control+offPutAhead, true); err != nil {
		return fmt.Errorf("page faults: %w", err)
	}
	return nil
}
