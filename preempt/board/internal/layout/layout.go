// Package layout is the one definition of the shared board's bytes. Go maps
// these structs over the memory; the C header of the preload library is
// generated from them by reflection, so neither side can drift alone.
//
// Only data lives here: no I/O, no behaviour. Rules of the layout: little
// endian, natural alignment without implicit padding, every line (a multiple
// of 64 bytes) is written by one side only, and nothing ever moves within one
// Version.
package layout

// The numbers that both sides check before they trust a board.
const (
	Magic   = 0x31424d58 // "XMB1" as it stands in memory
	Version = 1
	Devices = 16   // device sections
	Slots   = 4096 // queue slots; slot 0 is shared by all queues beyond the last

	DevicesOffset = 256
	SlotsOffset   = 16384
	Size          = SlotsOffset + Slots*128
)

// DaemonHeader is written by the daemon; all but Heartbeat only once, before
// the board is handed out.
type DaemonHeader struct {
	Magic     uint32   `c:"magic" doc:"XM_BOARD_MAGIC"`
	Version   uint32   `c:"version" doc:"XM_BOARD_VERSION"`
	Size      uint32   `c:"size" doc:"bytes of the whole board"`
	Slots     uint32   `c:"slots" doc:"queue slots, the shared slot 0 included"`
	Devices   uint32   `c:"devices" doc:"device sections"`
	_         uint32   `c:"pad0"`
	Epoch     uint64   `c:"epoch" doc:"random, one a daemon start"`
	Nonce     uint64   `c:"nonce" doc:"the session this board was made for"`
	Heartbeat uint64   `c:"heartbeat" doc:"the daemon adds 1 every 200 ms; standing still for 1 s by the reader's clock means dead"`
	_         [80]byte `c:"pad1"`
}

// ClientHeader is written by the client.
type ClientHeader struct {
	Heartbeat  uint64    `c:"heartbeat" doc:"the agent adds 1 each second"`
	State      uint32    `c:"state" doc:"XM_CLIENT_ATTACHED or XM_CLIENT_LEAVING"`
	Uncovered  uint32    `c:"uncovered" doc:"distinct driver calls used that are not covered"`
	QueuesOver uint32    `c:"queues_over" doc:"queues that share slot 0"`
	_          [108]byte `c:"pad0"`
}

// DaemonLine is the daemon's answer for one device: what the task may do.
type DaemonLine struct {
	Gate      uint32   `c:"gate" doc:"epoch << 1 | open; 0: not answered yet, counts as open. Shared futex word"`
	Mode      uint32   `c:"mode" doc:"XM_MODE_*; stored before gate, as everything below"`
	Threshold uint32   `c:"threshold" doc:"commands outstanding a queue while bounded"`
	Batch     uint32   `c:"batch" doc:"commands between two sequence number writes while bounded"`
	Level     uint32   `c:"level" doc:"preemption level in force"`
	Watching  uint32   `c:"watching" doc:"1 while the daemon waits out an idle edge: it looks at ready and edge again before it acts, so an edge needs no bell"`
	Task      uint64   `c:"task" doc:"the daemon's id of the task"`
	Want      uint32   `c:"want" doc:"adds 1 whenever hold or slice_us changed; stored after them (release). Shared futex word"`
	Hold      uint32   `c:"hold" doc:"XM_HOLD_*: which channel groups of this process are to be disabled"`
	SliceUS   uint32   `c:"slice_us" doc:"time slice that the compute groups are to have, in us; 0: the driver's own"`
	_         [84]byte `c:"pad1"`
}

// ClientLine is the client's claim for one device.
type ClientLine struct {
	Present       uint32 `c:"present" doc:"1 once the section is claimed; the identity is written before (release)"`
	Ready         uint32 `c:"ready" doc:"1 ready, 0 idle"`
	Edge          uint32 `c:"edge" doc:"adds 1 at every ready or idle edge: store ready, store edge, full fence, then write 1 to the eventfd unless watching"`
	Acked         uint32 `c:"acked" doc:"last gate word that every launching thread has seen, or the watchdog for them"`
	Waiting       uint32 `c:"waiting" doc:"threads blocked at the gate or over the bound"`
	IdleUS        uint32 `c:"idle_us" doc:"CLOCK_MONOTONIC us of the last idle edge, the low 32 bits; 0: not told"`
	Launches      uint64 `c:"launches" doc:"commands admitted; monotone, refreshed in slow paths"`
	OpenedByLease uint32 `c:"opened_by_lease" doc:"gates the client opened itself because the lease ran out"`
	_             uint32 `c:"pad1"`
	ReadyAt       uint64 `c:"ready_at" doc:"CLOCK_MONOTONIC ns of the last ready edge; statistics only"`
	LastSubmitAt  uint64 `c:"last_submit_at" doc:"CLOCK_MONOTONIC ns of the last command; statistics only"`
	LevelMax      uint32 `c:"level_max" doc:"highest preemption level this process can do here; 0: not known yet"`
	LevelWhy      uint32 `c:"level_why" doc:"XM_LEVEL_WHY_*: why level_max is no higher; written before it"`
	Did           uint32 `c:"did" doc:"last want that was carried out or refused; stored after the fields below (release). Shared futex word"`
	Held          uint32 `c:"held" doc:"XM_HOLD_*: what is disabled now"`
	SliceNow      uint32 `c:"slice_now" doc:"time slice in us that was set last; 0: the driver's own"`
	HoldError     uint32 `c:"hold_error" doc:"0, or the driver's status that refused the last want"`
	Holds         uint32 `c:"holds" doc:"suspensions carried out"`
	HoldNS        uint32 `c:"hold_ns" doc:"how long the last suspension's calls took"`
	ReleaseNS     uint32 `c:"release_ns" doc:"how long the last resumption's calls took"`
	_             uint32 `c:"pad2"`
	WaitedFrom    uint64 `c:"waited_from" doc:"CLOCK_MONOTONIC ns at which the synchronisation began that ended in the last idle edge; what lies before it was spent launching"`
	MemStallNS    uint64 `c:"mem_stall_ns" doc:"how long this process stood still for its memory to be moved; cumulative"`
	MemWaste      uint64 `c:"mem_waste" doc:"bytes of mem_allocated that no allocation asked for: rounding, and free room in arenas"`
	MemLoading    uint64 `c:"mem_loading" doc:"of the resident bytes of client_memory: those of segments LOADING, whose host copy still counts"`
}

// DaemonMemory is the daemon's answer for the memory of one process on one device.
type DaemonMemory struct {
	Want   uint32   `c:"want" doc:"adds 1 whenever something below changed; stored after it (release). Shared futex word"`
	Flags  uint32   `c:"flags" doc:"XM_MEMORY_* of the daemon"`
	Target uint64   `c:"target" doc:"bytes of managed memory that may be on the device; a client never makes more than that"`
	Limit  uint64   `c:"limit" doc:"bytes that the process may allocate on the device; 0: the card"`
	Total  uint64   `c:"total" doc:"what the process is told the card has, in bytes; 0: what it has"`
	Host   uint64   `c:"host" doc:"bytes of host memory that this process may take for its segments on this device; 0: no bound"`
	TurnUS uint32   `c:"turn_us" doc:"how long the process's next turn is expected to be, in us; 0: nobody knows"`
	_      [20]byte `c:"pad0"`
}

// ClientMemory is the client's claim for its memory on one device, in bytes.
type ClientMemory struct {
	Did       uint32 `c:"did" doc:"last want that was carried out, as far as it could be (release). Shared futex word"`
	Flags     uint32 `c:"flags" doc:"XM_MEMORY_* of the client"`
	Allocated uint64 `c:"allocated" doc:"managed memory that exists: resident plus host"`
	Resident  uint64 `c:"resident" doc:"of it on the device, being moved included"`
	Host      uint64 `c:"host" doc:"of it in host memory, mapped or not"`
	Pinned    uint64 `c:"pinned" doc:"other memory of the process on the device, which cannot be moved"`
	In        uint64 `c:"in" doc:"moved to the device; cumulative"`
	Out       uint64 `c:"out" doc:"moved to the host; cumulative"`
	Asked     uint64 `c:"asked" doc:"room that an allocation waits for; 0: none does"`
}

// EngineMemory is what the agent's engine claims of a process's memory on one device, in
// bytes.
type EngineMemory struct {
	Working  uint64   `c:"working" doc:"of the segments that the next turn touches, as far as is foreseen; 0: nothing is"`
	Exchange uint64   `c:"exchange" doc:"that a short stop would bring in of what is used soon, for what is not; 0: none"`
	Hashed   uint64   `c:"hashed" doc:"compared with their clean copies; cumulative"`
	Spared   uint64   `c:"spared" doc:"of those that were the same, and left the device without being copied; cumulative"`
	Wrong    uint64   `c:"wrong" doc:"of those that had changed; cumulative"`
	_        [24]byte `c:"pad0"`
}

// MemoryPins is how many kinds of memory there are that cannot be moved.
const MemoryPins = 5

// LibraryMemory is what the preload library claims beyond ClientMemory, in bytes.
type LibraryMemory struct {
	Kept     uint64             `c:"kept" doc:"of slots that are clean copies of segments on the device"`
	Slots    uint64             `c:"slots" doc:"of all slots there are, free ones included"`
	PinnedBy [MemoryPins]uint64 `c:"pinned_by" doc:"client_memory.pinned by kind: pools, mapped by the program, arrays, unified, allocated under peer access"`
	_        uint64             `c:"pad0"`
}

// More is what there is of a device beyond its section.
type More struct {
	Engine  EngineMemory  `c:"engine_memory"`
	Library LibraryMemory `c:"library_memory"`
}

// Identity says which device a section stands for. Written by the client
// before Present.
type Identity struct {
	UUID    [16]byte `c:"uuid"`
	Ordinal uint32   `c:"ordinal" doc:"the device's number in this process; devices are named by UUID everywhere else"`
	Name    [64]byte `c:"name" doc:"NUL-terminated"`
	_       [44]byte `c:"pad0"`
}

// Device is one device section.
type Device struct {
	Daemon       DaemonLine   `c:"daemon"`
	Client       ClientLine   `c:"client"`
	Identity     Identity     `c:"identity"`
	DaemonMemory DaemonMemory `c:"daemon_memory"`
	ClientMemory ClientMemory `c:"client_memory"`
}

// Slot is one hardware queue, written by its process and by the GPU.
//
//	outstanding = submitted - max(synced, extend(completed))
type Slot struct {
	Handle    uint64   `c:"handle" doc:"the stream; 0: free"`
	Device    uint32   `c:"device" doc:"index of the device section"`
	Flags     uint32   `c:"flags" doc:"XM_QUEUE_*"`
	Submitted uint64   `c:"submitted" doc:"commands handed to the driver"`
	Marked    uint64   `c:"marked" doc:"last sequence number whose stream write was enqueued"`
	Synced    uint64   `c:"synced" doc:"completed as known by a synchronisation or query on the CPU"`
	_         [24]byte `c:"pad0"`
	Completed uint32   `c:"completed" doc:"written by the GPU: low 32 bits of a marked sequence number"`
	_         [60]byte `c:"pad1"`
}

// Board is the whole.
type Board struct {
	Daemon  DaemonHeader    `c:"daemon"`
	Client  ClientHeader    `c:"client"`
	Devices [Devices]Device `c:"devices"`
	More    [Devices]More   `c:"more" doc:"of the device with the same index"`
	_       [5888]byte      `c:"reserved"`
	Slots   [Slots]Slot     `c:"slots"`
}

// Constant is a named number of the layout as C sees it.
type Constant struct {
	Name  string
	Value uint64
	Doc   string
}

// Constants of the layout, in the order of the header.
func Constants() []Constant {
	return []Constant{
		{"XM_BOARD_MAGIC", Magic, ""},
		{"XM_BOARD_VERSION", Version, ""},
		{"XM_BOARD_SIZE", Size, "bytes"},
		{"XM_BOARD_DEVICES", Devices, ""},
		{"XM_BOARD_SLOTS", Slots, ""},
		{"XM_CLIENT_ATTACHED", 0, ""},
		{"XM_CLIENT_LEAVING", 1, ""},
		{"XM_MODE_FREE", 0, "no competitor"},
		{"XM_MODE_BOUNDED", 1, "a competitor exists and this task yields to it: threshold and batch hold"},
		{"XM_MODE_TOP", 2, "a competitor exists, this task is of the highest class: not bounded"},
		{"XM_MODE_LOOSE", 3, "as bounded, but nothing waits at the gate on the device"},
		{"XM_LEVEL_WHY_NONE", 0, "nothing is in the way"},
		{"XM_LEVEL_WHY_UNREGISTERED", 1, "the driver did not register the board"},
		{"XM_LEVEL_WHY_NO_WAITS", 2, "the device has no stream waits"},
		{"XM_LEVEL_WHY_ASIDE", 3, "the child of a process that had used the device: it stands aside"},
		{"XM_LEVEL_WHY_RM_LAYOUT", 4, "the driver's own objects were not recognised: no level 3"},
		{"XM_LEVEL_WHY_RM_REFUSED", 5, "the driver refused a control: no level 3"},
		{"XM_LEVEL_WHY_MPS", 6, "a client of MPS, whose channels belong to the server: no level 3"},
		{"XM_LEVEL_WHY_DEBUGGER", 7, "a debugger or profiler is on the channel group: no level 3"},
		{"XM_LEVEL_WHY_MIG", 8, "a MIG instance: no level 3"},
		{"XM_HOLD_NONE", 0, "all channel groups may run"},
		{"XM_HOLD_COMPUTE", 1, "the compute groups are disabled; the copy engines still work"},
		{"XM_HOLD_ALL", 2, "every channel group is disabled: stopped hard"},
		{"XM_MEMORY_MANAGED", 1, "daemon: allocations are to be made of segments that can be moved; as it is before a process first allocates"},
		{"XM_MEMORY_DRAINED", 2, "daemon: memory may be taken away while the gate is closed and nothing is outstanding; to open it the daemon clears this first, then waits until XM_MEMORY_GONE is not set"},
		{"XM_MEMORY_PREPARE", 4, "daemon: memory is nearly all given away: what moves it is to be made ready"},
		{"XM_MEMORY_GENTLE", 8, "daemon: somebody here must not wait: host memory is to be pinned with pauses"},
		{"XM_MEMORY_PREDICT", 16, "daemon: memory is short and planned by what commands touch: they are to be looked at"},
		{"XM_MEMORY_PINS", MemoryPins, "kinds of memory that cannot be moved"},
		{"XM_MEMORY_ACTIVE", 1, "client: its allocations are made of segments"},
		{"XM_MEMORY_LATE", 2, "client: it had allocated before it knew of a daemon that manages memory, and stays as it is"},
		{"XM_MEMORY_UNABLE", 4, "client: the driver here has no virtual memory management"},
		{"XM_MEMORY_GONE", 8, "client: a move is under way or memory is mapped to nothing"},
		{"XM_MEMORY_POOLS", 16, "client: there is pinned memory of pools"},
		{"XM_MEMORY_MAPPED", 32, "client: and such as the program mapped itself"},
		{"XM_MEMORY_ARRAYS", 64, "client: and arrays"},
		{"XM_MEMORY_UNIFIED", 128, "client: and unified (managed) memory"},
		{"XM_MEMORY_PEERS", 256, "client: other devices reach its memory, so none of it moves"},
		{"XM_QUEUE_LEGACY", 1, "the legacy default stream"},
		{"XM_QUEUE_PER_THREAD", 2, "a per-thread default stream"},
		{"XM_QUEUE_DESTROYED", 4, "the program destroyed it; commands may still be outstanding"},
	}
}

// Struct pairs a Go struct with its C name.
type Struct struct {
	Name string
	Doc  string
	Zero any
}

// Structs of the layout, each after those it contains.
func Structs() []Struct {
	return []Struct{
		{"xm_daemon_header", "Written by the daemon.", DaemonHeader{}},
		{"xm_client_header", "Written by the client.", ClientHeader{}},
		{"xm_daemon_line", "The daemon's answer for one device.", DaemonLine{}},
		{"xm_client_line", "The client's claim for one device.", ClientLine{}},
		{"xm_identity", "Which device a section stands for; written by the client before present.", Identity{}},
		{"xm_daemon_memory", "The daemon's answer for the memory of one process on one device.", DaemonMemory{}},
		{"xm_client_memory", "The client's claim for its memory on one device, in bytes.", ClientMemory{}},
		{"xm_device", "One device section.", Device{}},
		{"xm_engine_memory", "What the agent's engine claims of a process's memory on one device, in bytes.", EngineMemory{}},
		{"xm_library_memory", "What the preload library claims beyond client_memory, in bytes.", LibraryMemory{}},
		{"xm_more", "What there is of a device beyond its section.", More{}},
		{"xm_slot", "One hardware queue.", Slot{}},
		{"xm_board", "The whole board.", Board{}},
	}
}
