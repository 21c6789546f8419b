package memory

import "fmt"

// ID names a segment within its table. 0 names none.
type ID uint64

// State is where a segment's authoritative copy is.
type State uint8

const (
	// Device: mapped to device memory, which is authoritative.
	Device State = iota
	// Host: its host slot is mapped at the same address and is authoritative.
	Host
	// Away: mapped to nothing, its host slot is authoritative; only while its
	// task is Stopped.
	Away
	// Loading: device memory is mapped and its host slot still authoritative,
	// while a move is under way.
	Loading
)

var stateNames = [...]string{"device", "host", "away", "loading"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// OnDevice says whether a segment of this state takes device memory.
func (s State) OnDevice() bool { return s == Device || s == Loading }

// Pin is why a segment stays on the device.
type Pin uint8

const (
	Movable Pin = iota
	Exported
	IPC
	Peer
	RDMA
	Array
	GraphNode
	Pool
	Ranks   // its process holds several ranks of a communicator
	Library // a library's workspace, small and in use by every kernel
	Asked   // the program asked for it
	pinEnd
)

var pinNames = [...]string{
	"movable", "exported", "shared by CUDA IPC", "mapped by a peer", "registered for RDMA",
	"array", "memory node of a graph", "pool", "several ranks in one process", "library workspace", "asked for",
}

func (p Pin) String() string {
	if int(p) < len(pinNames) {
		return pinNames[p]
	}
	return fmt.Sprintf("pin %d", uint8(p))
}

// Pins lists the reasons there are, without Movable.
func Pins() []Pin {
	var list []Pin
	for p := Movable + 1; p < pinEnd; p++ {
		list = append(list, p)
	}
	return list
}

// Segment is a piece of one managed allocation with one physical backing. An
// arena of small allocations is a segment as well.
type Segment struct {
	ID         ID
	Allocation uint64
	Address    uint64
	Bytes      Bytes // a multiple of Granularity
	State      State
	Pin        Pin
	// Arena segments hold small allocations and library workspaces: they stay on
	// the device as long as the task has any residency.
	Arena bool
	// Used is a sequence number that grows: the larger, the later it was used. 0
	// is never, as far as is known.
	Used uint64
	// Kept: it is on the device, and the host still has its bytes as they were when
	// it came in: a clean copy, unless something wrote to the segment since.
	Kept bool
	// Version is a number of what its host slot holds: as long as it is the same, so
	// are the bytes there.
	Version uint64
}
