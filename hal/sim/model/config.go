package model

import (
	"fmt"
	"math/bits"
	"time"
)

// Config is what the machine imitates. Zero fields take the defaults, which are
// measurements of an H200.
type Config struct {
	Slice      time.Duration // of a group; 2048 us, the driver's default
	SwitchCost time.Duration // taking an unfinished kernel off; 180 us
	LoadCost   time.Duration // loading another group onto a free engine; 8 us
	RefillCost time.Duration // of a slice that goes on with a kernel, before it gets anywhere; 25 us
	LinkOneWay uint64        // bytes a second to or from the host; 55 GB/s
	LinkBoth   uint64        // each way when both ways are busy; 50.8 GB/s
	Peer       uint64        // bytes a second within the device; 2.1 TB/s (reads and writes 4.2)
	Fill       uint64        // bytes a second of a memset; 3 TB/s
	Launch     time.Duration // of a kernel, beside its cost; 2.2 us
	Copy       time.Duration // of a copy or memset, beside its bytes; 1.5 us
	Wait       time.Duration // a stream wait that is satisfied; 1.1 us
	Write      time.Duration // a stream write; 1.2 us
	Event      time.Duration // an event; 0.3 us
	Across     uint64        // bytes a second to another device; 400 GB/s: NVLink by its data sheet, less its overhead

	SuspendBeside time.Duration // channels taken off beside another busy process; 0.6 ms
	SuspendAlone  time.Duration // with nobody else busy; 1.7 ms (measured 1.2 to 2.2)
	Resume        time.Duration // channels put back; 0.4 ms (measured 0.3 to 0.5)
	SetSlice      time.Duration // a time slice set while the engine is busy; 1.5 ms
	SetSliceIdle  time.Duration // while it is not; 0.3 ms: not measured, as little as a resume takes
	Pin           time.Duration // a MiB of host memory made for the device; 178 us
	MapHost       time.Duration // a MiB of it mapped; 20 us (measured 0.5 to 0.9 ms for 32)
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Slice, 2048 * time.Microsecond}, {&c.SwitchCost, 180 * time.Microsecond}, {&c.LoadCost, 8 * time.Microsecond},
		{&c.RefillCost, 25 * time.Microsecond},
		{&c.Launch, 2200}, {&c.Copy, 1500}, {&c.Wait, 1100}, {&c.Write, 1200}, {&c.Event, 300},
		{&c.SuspendBeside, 600 * time.Microsecond}, {&c.SuspendAlone, 1700 * time.Microsecond},
		{&c.Resume, 400 * time.Microsecond}, {&c.SetSlice, 1500 * time.Microsecond}, {&c.SetSliceIdle, 300 * time.Microsecond},
		{&c.Pin, 178 * time.Microsecond}, {&c.MapHost, 20 * time.Microsecond},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	for _, b := range []struct {
		field *uint64
		value uint64
	}{
		{&c.LinkOneWay, 55_000_000_000}, {&c.LinkBoth, 50_800_000_000},
		{&c.Peer, 2_100_000_000_000}, {&c.Fill, 3_000_000_000_000}, {&c.Across, 400_000_000_000},
	} {
		if *b.field == 0 {
			*b.field = b.value
		}
	}
	return c
}

func (c Config) bothRate() ratio {
	const unit = 1_000_000 // keeps products of rates and nanoseconds far from overflow
	return ratio{int64(c.LinkBoth / unit), int64(c.LinkOneWay / unit)}
}

// KernelCommand is a kernel of the given cost.
func (m *Machine) KernelCommand(id uint64, cost time.Duration) Command {
	return Command{ID: id, Engine: Compute, Work: m.cfg.Launch + cost}
}

// CopyCommand is a copy of n bytes on the engine for that direction.
func (m *Machine) CopyCommand(id uint64, e Engine, n uint64) Command {
	rate := m.cfg.LinkOneWay
	if e == CopyPeer {
		rate = m.cfg.Peer
	}
	return Command{ID: id, Engine: e, Work: m.cfg.Copy + transfer(n, rate)}
}

// AcrossCommand is a copy of n bytes from or to another device.
func (m *Machine) AcrossCommand(id uint64, n uint64) Command {
	return Command{ID: id, Engine: CopyPeer, Work: m.cfg.Copy + transfer(n, m.cfg.Across)}
}

// FillCommand is a memset of n bytes; the driver does it with a kernel.
func (m *Machine) FillCommand(id uint64, n uint64) Command {
	return Command{ID: id, Engine: Compute, Work: m.cfg.Copy + transfer(n, m.cfg.Fill)}
}

// WaitCommand holds its channel until it is released.
func (m *Machine) WaitCommand(id uint64) Command {
	return Command{ID: id, Engine: FrontEnd, Hold: true, Work: m.cfg.Wait}
}

// WriteCommand is a stream write, EventCommand an event.
func (m *Machine) WriteCommand(id uint64) Command {
	return Command{ID: id, Engine: FrontEnd, Work: m.cfg.Write}
}

// EventCommand is the record of an event.
func (m *Machine) EventCommand(id uint64) Command {
	return Command{ID: id, Engine: FrontEnd, Work: m.cfg.Event}
}

// transfer is the time for n bytes, at most an hour: n is a program's claim.
func transfer(n, bytesPerSecond uint64) time.Duration {
	const longest = uint64(time.Hour)
	hi, lo := bits.Mul64(n, uint64(time.Second))
	if hi >= bytesPerSecond {
		return time.Hour
	}
	q, _ := bits.Div64(hi, lo, bytesPerSecond)
	return time.Duration(min(q, longest))
}

// Capacity is the ledger of the device's memory.
type Capacity struct{ total, used uint64 }

// NewCapacity is an empty device of that many bytes.
func NewCapacity(total uint64) *Capacity { return &Capacity{total: total} }

// Reserve takes n bytes, or nothing when they are not there.
func (c *Capacity) Reserve(n uint64) bool {
	if n > c.total-c.used {
		return false
	}
	c.used += n
	return true
}

// Return gives n bytes back. More than was taken is a broken invariant.
func (c *Capacity) Return(n uint64) {
	if n > c.used {
		panic(fmt.Sprintf("model: %d bytes returned, %d in use", n, c.used))
	}
	c.used -= n
}

// Total and Free are in bytes.
func (c *Capacity) Total() uint64 { return c.total }

// Free is what Reserve can still give.
func (c *Capacity) Free() uint64 { return c.total - c.used }
