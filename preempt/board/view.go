package board

import (
	"strings"
	"sync/atomic"
	"unicode"
)

// Limits that a client's claims are clamped to. They only keep listings and
// sums sane; nothing is decided by a number near them.
const (
	maxWaiting = 1 << 16
	maxOrdinal = 1 << 10
)

// UUID names a device.
type UUID [16]byte

// String is the form the NVIDIA tools print.
func (u UUID) String() string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	b.WriteString("GPU-")
	for i, v := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b.WriteByte('-')
		}
		b.WriteByte(digits[v>>4])
		b.WriteByte(digits[v&15])
	}
	return b.String()
}

// Identity says which device a section stands for.
type Identity struct {
	UUID    UUID
	Ordinal int // in the client's process
	Name    string
}

// ClientView is one copy of a client's claims about one device.
type ClientView struct {
	Present       bool
	Ready         bool
	Edge          uint32
	Acked         Gate
	Waiting       int // threads, at most 65536
	Launches      uint64
	OpenedByLease uint32
	ReadyAt       uint64 // CLOCK_MONOTONIC ns, statistics only
	LastSubmitAt  uint64 // CLOCK_MONOTONIC ns, statistics only
	WaitedFrom    uint64 // CLOCK_MONOTONIC ns: since when it waited for what ended in the last idle edge
	IdleUS        uint32 // CLOCK_MONOTONIC us of the last idle edge, the low 32 bits; 0: not told
	LevelMax      uint32 // 0: not known yet; at most MaxLevel
	LevelWhy      LevelWhy
}

// MaxLevel is the highest preemption level that there is.
const MaxLevel = 3

// LevelWhy is the client's reason for doing no higher level than it does. The
// values are part of the layout.
type LevelWhy uint32

// Reasons for staying at Level 1, then those for staying at Level 2.
const (
	NothingInTheWay LevelWhy = iota
	NotRegistered            // the driver did not register the board
	NoStreamWaits            // the device has no stream waits
	StandsAside              // the child of a process that had used the device

	UnknownObjects  // the driver's own objects were not recognised
	ControlRefused  // the driver refused a control
	ClientOfMPS     // its channels belong to the MPS server
	DebuggerPresent // a debugger or profiler is on the channel group
	SlicedByMIG     // a MIG instance
)

// String is the reason as listings show it.
func (w LevelWhy) String() string {
	switch w {
	case NothingInTheWay:
		return "nothing in the way"
	case NotRegistered:
		return "the driver did not register the board"
	case NoStreamWaits:
		return "the device has no stream waits"
	case StandsAside:
		return "the child of a process that had used the device"
	case UnknownObjects:
		return "the driver's own objects were not recognised"
	case ControlRefused:
		return "the driver refused a control"
	case ClientOfMPS:
		return "a client of MPS, whose channels belong to the server"
	case DebuggerPresent:
		return "a debugger or profiler is on its channels"
	case SlicedByMIG:
		return "a MIG instance"
	}
	return "unknown reason"
}

// Snapshot copies the client's line of a device once and clamps it.
func (b *Board) Snapshot(device int) ClientView {
	c := &b.page.Devices[device].Client
	return ClientView{
		Present:       atomic.LoadUint32(&c.Present) != 0,
		Edge:          atomic.LoadUint32(&c.Edge), // before Ready: a newer Ready with an older edge only looks twice
		Ready:         atomic.LoadUint32(&c.Ready) != 0,
		Acked:         Gate(atomic.LoadUint32(&c.Acked)),
		Waiting:       int(min(atomic.LoadUint32(&c.Waiting), maxWaiting)),
		Launches:      atomic.LoadUint64(&c.Launches),
		OpenedByLease: atomic.LoadUint32(&c.OpenedByLease),
		ReadyAt:       atomic.LoadUint64(&c.ReadyAt),
		LastSubmitAt:  atomic.LoadUint64(&c.LastSubmitAt),
		WaitedFrom:    atomic.LoadUint64(&c.WaitedFrom),
		IdleUS:        atomic.LoadUint32(&c.IdleUS),
		LevelMax:      min(atomic.LoadUint32(&c.LevelMax), MaxLevel),
		LevelWhy:      LevelWhy(atomic.LoadUint32(&c.LevelWhy)),
	}
}

// Present says whether the client claimed the section.
func (b *Board) Present(device int) bool {
	return atomic.LoadUint32(&b.page.Devices[device].Client.Present) != 0
}

// Identity copies a claimed section's identity. The name is cut at its NUL and
// rid of what does not print, because it ends on terminals.
func (b *Board) Identity(device int) Identity {
	id := &b.page.Devices[device].Identity
	raw := string(id.Name[:])
	if end := strings.IndexByte(raw, 0); end >= 0 {
		raw = raw[:end]
	}
	name := strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, raw)
	return Identity{UUID: id.UUID, Ordinal: int(min(id.Ordinal, maxOrdinal)), Name: name}
}

// ClientHealth is one copy of the client's own header line.
type ClientHealth struct {
	Beat       uint64
	Leaving    bool
	Uncovered  uint32
	QueuesOver uint32
}

// Health copies the client's header line once.
func (b *Board) Health() ClientHealth {
	c := &b.page.Client
	return ClientHealth{
		Beat:       atomic.LoadUint64(&c.Heartbeat),
		Leaving:    atomic.LoadUint32(&c.State) != 0,
		Uncovered:  atomic.LoadUint32(&c.Uncovered),
		QueuesOver: atomic.LoadUint32(&c.QueuesOver),
	}
}

// Claim takes a section for a device: the identity first, then present. The
// caller rings the eventfd afterwards.
func (d Device) Claim(id Identity) {
	i := &d.s.Identity
	i.UUID, i.Ordinal = id.UUID, uint32(id.Ordinal)
	clear(i.Name[:])
	copy(i.Name[:len(i.Name)-1], id.Name)
	atomic.StoreUint32(&d.s.Client.Present, 1)
}

// Leave gives the section back.
func (d Device) Leave() { atomic.StoreUint32(&d.s.Client.Present, 0) }

// SetReady stores a ready (or idle) edge. The caller rings the eventfd
// afterwards.
func (d Device) SetReady(ready bool) {
	var word uint32
	if ready {
		word = 1
	}
	atomic.StoreUint32(&d.s.Client.Ready, word)
	atomic.AddUint32(&d.s.Client.Edge, 1)
}

// Ack says that every launching thread has seen the gate word.
func (d Device) Ack(g Gate) { atomic.StoreUint32(&d.s.Client.Acked, uint32(g)) }

// SetWaiting says how many threads wait at the gate or over the bound.
func (d Device) SetWaiting(n uint32) { atomic.StoreUint32(&d.s.Client.Waiting, n) }

// AddLaunches counts admitted commands.
func (d Device) AddLaunches(n uint64) { atomic.AddUint64(&d.s.Client.Launches, n) }

// SetTimes says when the last ready edge was, and since when the client waited for
// what ends in the coming idle edge; CLOCK_MONOTONIC ns.
func (d Device) SetTimes(readyAt, waitedFrom uint64) {
	atomic.StoreUint64(&d.s.Client.ReadyAt, readyAt)
	atomic.StoreUint64(&d.s.Client.WaitedFrom, waitedFrom)
}

// SetIdleAt says when the coming idle edge is; CLOCK_MONOTONIC ns.
func (d Device) SetIdleAt(at uint64) { atomic.StoreUint32(&d.s.Client.IdleUS, uint32(at/1000)) }

// SetLevelMax says the highest level that the client can do on the device, and
// why it is no higher. The caller rings the eventfd afterwards.
func (d Device) SetLevelMax(level uint32, why LevelWhy) {
	atomic.StoreUint32(&d.s.Client.LevelWhy, uint32(why))
	atomic.StoreUint32(&d.s.Client.LevelMax, level)
}
