package device

import (
	"fmt"

	"xmsched/hal/kernels"
)

// The protocol of hal/sim/libcuda/protocol.h; wire_test.go compares the two.
const (
	wireVersion = 2
	wireMagic   = 0x53584d58

	ringChannels = 8
	ringEntries  = 1024
	ringArgs     = 176
	eventSlots   = 65536
	nameBytes    = 64
	textBytes    = 512

	offError    = 8
	offAsleep   = 12
	offRings    = 4096
	ringBytes   = 128
	ringWaiting = 8
	ringGet     = 64
	offStamps   = 8192
	offEntries  = offStamps + 8*eventSlots
	entryBytes  = 256
	sharedBytes = offEntries + ringChannels*ringEntries*entryBytes
)

type op uint32

const (
	opHello op = iota + 1
	opContext
	opContextEnd
	opAlloc
	opFree
	opHostAlloc
	opHostRegister
	opHostEnd
	opKernel
	opMemInfo
	opDevice
	opPeer
	opAccess
)

// Of managed memory, and of who watches its page faults.
const (
	opManagedAlloc op = iota + 16
	opManagedAdvise
	opToolsBegin
	opToolsEvents
	opToolsFlush
)

// Of the resource manager; the results are its statuses.
const (
	opRMAlloc op = iota + 32
	opRMFree
	opRMDup
	opRMSlice
	opRMGetSlice
	opRMHold
	opRMLook
)

// Of memory that is mapped by hand.
const (
	opPhysCreate op = iota + 48
	opPhysRelease
	opPhysExport
	opPhysImport
	opReserve
	opUnreserve
	opMap
	opUnmap
	opMapAccess
)

// request and reply are the control messages.
type request struct {
	Op         op
	Device     uint32
	A, B, C, D uint64
	Text       [textBytes]byte
}

type reply struct {
	Result result
	_      uint32
	A, B   uint64
	UUID   [16]byte
	Text   [nameBytes]byte
}

// result is a CUresult.
type result int32

const (
	success         result = 0
	invalidValue    result = 1
	outOfMemory     result = 2
	illegalAddress  result = 700
	launchFailed    result = 719
	notSupported    result = 801
	systemMismatch  result = 803
	alreadyMapped   result = 712
	invalidDevice   result = 101
	peerEnabled     result = 704
	peerNotEnabled  result = 705
	invalidContext  result = 201
	operatingSystem result = 304
)

type verb uint32

const (
	verbNop verb = iota
	verbLaunch
	verbCopy
	verbFill
	verbWait
	verbWrite
	verbAfter
	verbEvent
)

const (
	verbCopyRows verb = iota + 16
	verbFillRows
	verbPrefetch
)

// copyLoose is a copy's flag: an end may be any memory of the client's process.
const copyLoose = 1

// How a wait compares; CUstreamWaitValue_flags.
const (
	waitGeq = iota
	waitEq
	waitAnd
	waitNor
)

// entry is one command as it lies in a ring.
type entry struct {
	Verb, Kind, Flags, Kernel uint32
	A, B, C                   uint64
	Submitted                 uint64
	Grid, Block               [3]uint32
	Shared, ArgBytes          uint32
	Args                      [ringArgs]byte
}

// Limits of a launch, those of the compute capability that the device claims.
const (
	maxBlockThreads = 1024
	maxGridX        = 1<<31 - 1
	maxGridYZ       = 1<<16 - 1
)

// check refuses what the driver would never have written.
func (e *entry) check() error {
	switch verb(e.Verb) {
	case verbNop, verbCopy, verbAfter:
		return nil
	case verbLaunch:
		return e.checkLaunch()
	case verbFill:
		if e.Kind != 1 && e.Kind != 2 && e.Kind != 4 {
			return fmt.Errorf("fill of %d-byte elements", e.Kind)
		}
		if e.C > 1<<48 {
			return fmt.Errorf("fill of %d elements", e.C)
		}
		return nil
	case verbWait, verbWrite:
		if e.Kind != 4 && e.Kind != 8 || e.A%uint64(e.Kind) != 0 {
			return fmt.Errorf("word of %d bytes at %#x", e.Kind, e.A)
		}
		if e.Flags > waitNor {
			return fmt.Errorf("comparison %d", e.Flags)
		}
		return nil
	case verbCopyRows, verbFillRows:
		return e.checkRows()
	case verbPrefetch:
		if e.C > largest || e.Kind > 1 {
			return fmt.Errorf("prefetch of %d bytes to %d", e.C, e.Kind)
		}
		return nil
	case verbEvent:
		if e.A >= eventSlots {
			return fmt.Errorf("event slot %d", e.A)
		}
		return nil
	}
	return fmt.Errorf("command %d", e.Verb)
}

func (e *entry) checkLaunch() error {
	if int64(e.Kernel) >= int64(len(kernelTable)) {
		return fmt.Errorf("kernel %d", e.Kernel)
	}
	threads := uint64(1)
	for _, n := range e.Block {
		if n == 0 || n > maxBlockThreads {
			return fmt.Errorf("block %v", e.Block)
		}
		threads *= uint64(n)
	}
	if threads > maxBlockThreads {
		return fmt.Errorf("block %v", e.Block)
	}
	for i, n := range e.Grid {
		if n == 0 || n > maxGridX || i > 0 && n > maxGridYZ {
			return fmt.Errorf("grid %v", e.Grid)
		}
	}
	if e.ArgBytes > ringArgs {
		return fmt.Errorf("%d bytes of arguments", e.ArgBytes)
	}
	return kernelTable[e.Kernel].Check(e.launch())
}

// launch is valid as long as e is.
func (e *entry) launch() kernels.Launch {
	return kernels.Launch{Grid: e.Grid, Block: e.Block, Args: e.Args[:e.ArgBytes]}
}

var kernelTable = kernels.Every()
