package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Commands are the program's commands as the C library records them
// (shim/cuda/preload/commands.h says what a record is). All of it may be called at
// once, and costs the program nothing while recording is off.
type Commands interface {
	// Record begins or ends recording, and says whether it was on.
	Record(on bool) (was bool)
	// Take writes whole records into buf, of at least CommandBytes, oldest first, and
	// returns that part of it. An empty one: there are none now.
	Take(buf []byte) ([]byte, error)
	// Dropped is how many records were lost so far.
	Dropped() uint64
	// Kernel is the kernel of that id, ENOENT when there is none.
	Kernel(id uint32) (Kernel, error)
	// Graph gives the records of a graph's nodes as of its version, in buf or, when
	// that is too small, in another. ENOENT: it is not known any more.
	Graph(id uint64, buf []byte) (records []byte, version uint64, err error)
	// Ranges gives an Alloc record for each range that there is, in the same way. With
	// what is recorded after recording began they make the picture whole.
	Ranges(buf []byte) ([]byte, error)
}

// CommandBytes is the size of the longest record.
const CommandBytes = 8192

// CommandKind says what a command does.
type CommandKind uint16

// Kinds of commands.
const (
	CommandKernel CommandKind = 1 + iota
	CommandCopy
	CommandFill
	CommandGraph
	CommandPrefetch
	CommandAlloc
	CommandFree
	CommandOther // touches memory and does not say which
)

// CommandFlags qualify a record.
type CommandFlags uint32

// Bits of CommandFlags.
const (
	CommandUnknown   CommandFlags = 1 << iota // not all that it touches is known: any memory may be
	CommandCut                                // parameters or tensor maps beyond the bound are missing
	CommandFromHost                           // of copies: the address is the host's
	CommandToHost                             //
	CommandFromArray                          // of copies: an array, which has no address
	CommandToArray                            //
	CommandPool                               // of Alloc, Free: of a pool, in order of its stream
	CommandUnified                            // of Alloc: managed by the driver
	CommandMapped                             // of Alloc, Free: mapped by the program itself
	CommandDisabled                           // of a graph's node: does not run
)

// Command is one record. Its payload lies in the buffer that it was read from.
type Command struct {
	Kind     CommandKind
	Flags    CommandFlags
	Section  int    // of the board; -1: not known
	Queue    int    // slot of the board; -1: it has none
	Kernel   uint32 // id for Commands.Kernel; 0: not known
	Sequence uint64 // number in its queue, as the slot's counters count; 0: not counted
	At       uint64 // CLOCK_MONOTONIC, ns

	Grid, Block [3]uint32
	Shared      uint32 // bytes

	payload []byte
	maps    int
}

// whole says that a record has all that tells what its command touches: a parameter
// beyond the bound may be a pointer too.
func (c *Command) whole() bool { return c.Flags&(CommandUnknown|CommandCut) == 0 }

// errRecord is a record that contradicts itself.
var errRecord = errors.New("malformed command record")

const (
	commandHead   = 72 // sizeof(struct xm_command)
	tensorMapSize = 96 // sizeof(struct xm_command_map)
	noSection     = 1<<16 - 1
	noQueue       = 1<<32 - 1
)

// NextCommand reads the first record of buf and returns what follows it.
func NextCommand(buf []byte) (c Command, rest []byte, err error) {
	if len(buf) < commandHead {
		return Command{}, nil, fmt.Errorf("%d bytes: %w", len(buf), errRecord)
	}
	le := binary.LittleEndian
	size, payload, maps := le.Uint32(buf), le.Uint32(buf[60:]), le.Uint32(buf[68:])
	if size%8 != 0 || size < commandHead || uint64(size) > uint64(len(buf)) || payload > size-commandHead ||
		uint64(maps)*tensorMapSize > uint64(payload) {
		return Command{}, nil, fmt.Errorf("%d bytes with %d of payload and %d maps, of %d: %w", size, payload, maps, len(buf), errRecord)
	}
	c = Command{
		Kind: CommandKind(le.Uint16(buf[4:])), Section: int(le.Uint16(buf[6:])), Queue: int(le.Uint32(buf[8:])), Kernel: le.Uint32(buf[12:]),
		Sequence: le.Uint64(buf[16:]), At: le.Uint64(buf[24:]), Shared: le.Uint32(buf[56:]), Flags: CommandFlags(le.Uint32(buf[64:])),
		payload: buf[commandHead : commandHead+payload], maps: int(maps),
	}
	for i := range 3 {
		c.Grid[i], c.Block[i] = le.Uint32(buf[32+4*i:]), le.Uint32(buf[44+4*i:])
	}
	if c.Section == noSection {
		c.Section = -1
	}
	if c.Queue == noQueue {
		c.Queue = -1
	}
	return c, buf[size:], nil
}

// Parameters are those of a launch, by their offsets.
func (c *Command) Parameters() []byte {
	if c.Kind != CommandKernel {
		return nil
	}
	return c.payload[:len(c.payload)-c.maps*tensorMapSize]
}

// TensorMap is what a tensor map among a launch's parameters was encoded with.
type TensorMap struct {
	Address uint64
	Dims    [5]uint64 // elements
	Strides [4]uint64 // bytes, of dimension 1 on
	Offset  int       // in the parameters
	Rank    int       // 1 to 5
	Type    uint32    // CUtensorMapDataType
	Element int       // bits; 0: not known
}

// AppendTensorMaps adds those among a launch's parameters.
func (c *Command) AppendTensorMaps(to []TensorMap) []TensorMap {
	if c.Kind != CommandKernel {
		return to
	}
	for at := c.payload[len(c.payload)-c.maps*tensorMapSize:]; len(at) > 0; at = at[tensorMapSize:] {
		var m TensorMap
		m.Address = word64(at, 0)
		for i := range m.Dims {
			m.Dims[i] = word64(at, 1+i)
		}
		for i := range m.Strides {
			m.Strides[i] = word64(at, 6+i)
		}
		word := func(i int) uint32 { return binary.LittleEndian.Uint32(at[80+4*i:]) }
		m.Offset, m.Rank, m.Type, m.Element = int(word(0)), int(word(1)), word(2), int(word(3))
		to = append(to, m)
	}
	return to
}

func word64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }

// Copy is what a copy touches: Height rows of Width bytes, Depth times.
type Copy struct {
	To, From                               uint64
	Width, Height, Depth                   uint64
	ToPitch, ToSlice, FromPitch, FromSlice uint64 // bytes from row to row, and from layer to layer
}

// Copy reads a copy's payload; false: it has none.
func (c *Command) Copy() (Copy, bool) {
	if c.Kind != CommandCopy || len(c.payload) < 72 {
		return Copy{}, false
	}
	w := func(i int) uint64 { return word64(c.payload, i) }
	return Copy{w(0), w(1), w(2), w(3), w(4), w(5), w(6), w(7), w(8)}, true
}

// Fill is what a memset, or a write of the stream, touches: Height rows of Width bytes.
type Fill struct{ To, Width, Height, Pitch uint64 }

// Fill reads a fill's payload; false: it has none.
func (c *Command) Fill() (Fill, bool) {
	if c.Kind != CommandFill || len(c.payload) < 32 {
		return Fill{}, false
	}
	w := func(i int) uint64 { return word64(c.payload, i) }
	return Fill{w(0), w(1), w(2), w(3)}, true
}

// CommandRange is the range of an Alloc, Free or Prefetch; Device is the prefetch's
// destination, -1 for the host.
type CommandRange struct {
	Base, Bytes uint64
	Device      int
}

// Range reads the payload of an Alloc, Free or Prefetch; false: it has none.
func (c *Command) Range() (CommandRange, bool) {
	if c.Kind != CommandAlloc && c.Kind != CommandFree && c.Kind != CommandPrefetch || len(c.payload) < 24 {
		return CommandRange{}, false
	}
	return CommandRange{word64(c.payload, 0), word64(c.payload, 1), int(int64(word64(c.payload, 2)))}, true
}

// GraphLaunch reads a graph launch's payload: the executable graph and how often it
// had been updated. False: it is not known.
func (c *Command) GraphLaunch() (id, version uint64, ok bool) {
	if c.Kind != CommandGraph || len(c.payload) < 16 || word64(c.payload, 0) == 0 {
		return 0, 0, false
	}
	return word64(c.payload, 0), word64(c.payload, 1), true
}

// Kernel is what is known of a kernel.
type Kernel struct {
	Name       string    // a very long one ends in '#' and a hash of all of it
	Code       [2]uint64 // hash of the image that it came in; zeroes: not known
	Parameters []Parameter
	Bytes      int  // of all parameters
	Layout     bool // the parameters are known
	More       bool // there are more of them than are listed
}

// Parameter is where one parameter lies among all.
type Parameter struct{ Offset, Size uint32 }

// kernelBytes is sizeof(struct xm_kernel).
const kernelBytes = 32 + 1024 + 8*128

// DecodeKernel reads a struct xm_kernel.
func DecodeKernel(b []byte) (Kernel, error) {
	if len(b) < kernelBytes {
		return Kernel{}, fmt.Errorf("%d bytes of a kernel: %w", len(b), errRecord)
	}
	le := binary.LittleEndian
	flags, n, name := le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint32(b[28:])
	if n > 128 || name > 1023 {
		return Kernel{}, fmt.Errorf("a kernel with %d parameters and a name of %d: %w", n, name, errRecord)
	}
	k := Kernel{
		Name: string(b[32 : 32+name]), Code: [2]uint64{le.Uint64(b), le.Uint64(b[8:])}, Bytes: int(le.Uint32(b[24:])),
		Layout: flags&1 != 0, More: flags&2 != 0, Parameters: make([]Parameter, n),
	}
	for i := range k.Parameters {
		at := b[32+1024+8*i:]
		k.Parameters[i] = Parameter{le.Uint32(at), le.Uint32(at[4:])}
	}
	return k, nil
}

// growths bounds how often a buffer is made larger for something that grows at once.
const growths = 8

// Grow calls get, which says how many bytes it needs, with larger buffers until that
// is enough, and returns what was written.
func Grow(buf []byte, get func([]byte) (int, error)) ([]byte, error) {
	for range growths {
		n, err := get(buf)
		if err != nil {
			return nil, err
		}
		if n <= len(buf) {
			return buf[:n], nil
		}
		buf = make([]byte, n+n/4)
	}
	return nil, errGrows
}

// errGrows is something that was larger each time it was asked for.
var errGrows = errors.New("command records grow faster than they can be read")
