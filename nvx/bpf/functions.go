package bpf

import (
	"slices"
	"strings"
)

// Kind is what a hooked place tells of.
type Kind uint16

// Kinds, as enum kind of program/observe.h.
const (
	KindLaunch   Kind = iota + 1 // a kernel or a graph is handed to the device
	KindCopy                     // a copy is
	KindFill                     // a memset is
	KindOther                    // another command of a stream is
	kindAlloc                    // memory is made; what it is known at the return
	kindMade                     // memory has been made
	kindFree                     // memory is given back
	kindWait                     // a call waits for the device until it returns
	kindBegin                    // such a call begins
	kindComplete                 // and is over
	kindRecord                   // an event is put into a stream
	KindQuery                    // the program asks and does not wait
	kindHeld                     // a thread is held at the gate
	kindLet                      // and goes on
)

// scope is of what the return of a call tells that it is done.
type scope uint16

const (
	scopeNone scope = iota
	scopeStream
	scopeContext
	scopeEvent
)

// shape is how a number of bytes is computed from the values of a place.
type shape uint16

const (
	shapeBytes shape = iota
	shapeProduct
	shape2D
	shape3D
	shapePitched
	shapeGuarded
)

// value says where a function has one: its parameter by number from 0 on, or a
// field of the structure that the parameter points to.
type value struct {
	from   origin
	number int // parameter
	offset int // of the field
	narrow bool
}

type origin uint8

const (
	nowhere origin = iota
	parameter
	field
	constant // number
)

func arg(n int) value            { return value{from: parameter, number: n} }
func arg32(n int) value          { return value{from: parameter, number: n, narrow: true} }
func member(n, offset int) value { return value{from: field, number: n, offset: offset} }

// function is a function of the driver that is hooked, by its exported name
// without the suffix of the per-thread variant.
type function struct {
	symbol               string
	kind                 Kind
	scope                scope
	shape                shape
	unit                 uint32
	handle               bool // memory that has no address
	stream, value, other value
}

// Offsets in structures of the driver's interface (hal/cuda/abi; held by a test).
const (
	launchConfigStream = 32 // CUlaunchConfig.hStream
	locationType       = 8  // CUmemAllocationProp.location.type; 1 is the device
)

// functions are all of them. What a copy or memset of the old 32-bit interface
// means is known as well: programs that are old enough still use it.
var functions = slices.Concat(launches, copies, fills, others, allocations, waits)

var launches = []function{
	{symbol: "cuLaunchKernel", kind: KindLaunch, stream: arg(8)},
	{symbol: "cuLaunchKernelEx", kind: KindLaunch, stream: member(0, launchConfigStream)},
	{symbol: "cuLaunchCooperativeKernel", kind: KindLaunch, stream: arg(8)},
	{symbol: "cuLaunchCooperativeKernelMultiDevice", kind: KindLaunch},
	{symbol: "cuLaunch", kind: KindLaunch},
	{symbol: "cuLaunchGrid", kind: KindLaunch},
	{symbol: "cuLaunchGridAsync", kind: KindLaunch, stream: arg(3)},
	{symbol: "cuGraphLaunch", kind: KindLaunch, stream: arg(1)},
}

// blocking is a copy that comes back when it and all before it is done; of the
// host's pageable memory the last piece may still be on its way.
func blocking(symbol string, bytes value, s shape) function {
	return function{symbol: symbol, kind: KindCopy, scope: scopeContext, value: bytes, shape: s}
}

func copying(symbol string, bytes value, s shape, stream value) function {
	return function{symbol: symbol, kind: KindCopy, value: bytes, shape: s, stream: stream}
}

var copies = []function{
	blocking("cuMemcpy", arg(2), shapeBytes),
	blocking("cuMemcpyPeer", arg(4), shapeBytes),
	blocking("cuMemcpyHtoD_v2", arg(2), shapeBytes),
	blocking("cuMemcpyDtoH_v2", arg(2), shapeBytes),
	blocking("cuMemcpyHtoA_v2", arg(3), shapeBytes),
	blocking("cuMemcpyAtoH_v2", arg(3), shapeBytes),
	blocking("cuMemcpyHtoD", arg32(2), shapeBytes),
	blocking("cuMemcpyDtoH", arg32(2), shapeBytes),
	blocking("cuMemcpyHtoA", arg32(3), shapeBytes),
	blocking("cuMemcpyAtoH", arg32(3), shapeBytes),
	blocking("cuMemcpy2D_v2", arg(0), shape2D),
	blocking("cuMemcpy2DUnaligned_v2", arg(0), shape2D),
	blocking("cuMemcpy3D_v2", arg(0), shape3D),
	blocking("cuMemcpy3DPeer", arg(0), shape3D),
	blocking("cuMemcpy2D", value{}, shapeBytes),
	blocking("cuMemcpy2DUnaligned", value{}, shapeBytes),
	blocking("cuMemcpy3D", value{}, shapeBytes),

	copying("cuMemcpyDtoD_v2", arg(2), shapeBytes, value{}),
	copying("cuMemcpyDtoA_v2", arg(3), shapeBytes, value{}),
	copying("cuMemcpyAtoD_v2", arg(3), shapeBytes, value{}),
	copying("cuMemcpyAtoA_v2", arg(4), shapeBytes, value{}),
	copying("cuMemcpyDtoD", arg32(2), shapeBytes, value{}),
	copying("cuMemcpyDtoA", arg32(3), shapeBytes, value{}),
	copying("cuMemcpyAtoD", arg32(3), shapeBytes, value{}),
	copying("cuMemcpyAtoA", arg32(4), shapeBytes, value{}),

	copying("cuMemcpyAsync", arg(2), shapeBytes, arg(3)),
	copying("cuMemcpyPeerAsync", arg(4), shapeBytes, arg(5)),
	copying("cuMemcpyHtoDAsync_v2", arg(2), shapeBytes, arg(3)),
	copying("cuMemcpyDtoHAsync_v2", arg(2), shapeBytes, arg(3)),
	copying("cuMemcpyDtoDAsync_v2", arg(2), shapeBytes, arg(3)),
	copying("cuMemcpyHtoAAsync_v2", arg(3), shapeBytes, arg(4)),
	copying("cuMemcpyAtoHAsync_v2", arg(3), shapeBytes, arg(4)),
	copying("cuMemcpyHtoDAsync", arg32(2), shapeBytes, arg(3)),
	copying("cuMemcpyDtoHAsync", arg32(2), shapeBytes, arg(3)),
	copying("cuMemcpyDtoDAsync", arg32(2), shapeBytes, arg(3)),
	copying("cuMemcpyHtoAAsync", arg32(3), shapeBytes, arg(4)),
	copying("cuMemcpyAtoHAsync", arg32(3), shapeBytes, arg(4)),
	copying("cuMemcpy2DAsync_v2", arg(0), shape2D, arg(1)),
	copying("cuMemcpy3DAsync_v2", arg(0), shape3D, arg(1)),
	copying("cuMemcpy3DPeerAsync", arg(0), shape3D, arg(1)),
	copying("cuMemcpy2DAsync", value{}, shapeBytes, arg(1)),
	copying("cuMemcpy3DAsync", value{}, shapeBytes, arg(1)),
	copying("cuMemcpyBatchAsync", value{}, shapeBytes, arg(8)),
	copying("cuMemcpyBatchAsync_v2", value{}, shapeBytes, arg(7)),
	copying("cuMemcpy3DBatchAsync", value{}, shapeBytes, arg(4)),
	copying("cuMemcpy3DBatchAsync_v2", value{}, shapeBytes, arg(3)),
}

// filling is a memset of one row, or of several.
func filling(symbol string, unit uint32, rows bool, wide bool, stream value) function {
	n := arg
	if !wide {
		n = arg32
	}
	f := function{symbol: symbol, kind: KindFill, shape: shapeProduct, unit: unit, value: n(2), other: value{from: constant, number: 1}, stream: stream}
	if rows {
		f.value, f.other = n(3), n(4)
	}
	return f
}

var fills = func() (all []function) {
	for name, unit := range map[string]uint32{"8": 1, "16": 2, "32": 4} {
		all = append(all,
			filling("cuMemsetD"+name, unit, false, false, value{}),
			filling("cuMemsetD"+name+"_v2", unit, false, true, value{}),
			filling("cuMemsetD"+name+"Async", unit, false, true, arg(3)),
			filling("cuMemsetD2D"+name, unit, true, false, value{}),
			filling("cuMemsetD2D"+name+"_v2", unit, true, true, value{}),
			filling("cuMemsetD2D"+name+"Async", unit, true, true, arg(5)))
	}
	return all
}()

func command(symbol string, stream int) function {
	return function{symbol: symbol, kind: KindOther, stream: arg(stream)}
}

// others are commands that are neither; they count as outstanding like any.
var others = []function{
	command("cuLaunchHostFunc", 0),
	command("cuStreamAddCallback", 0),
	command("cuStreamWriteValue32", 0), command("cuStreamWriteValue32_v2", 0),
	command("cuStreamWriteValue64", 0), command("cuStreamWriteValue64_v2", 0),
	command("cuStreamWaitValue32", 0), command("cuStreamWaitValue32_v2", 0),
	command("cuStreamWaitValue64", 0), command("cuStreamWaitValue64_v2", 0),
	command("cuStreamBatchMemOp", 0), command("cuStreamBatchMemOp_v2", 0),
	command("cuMemPrefetchAsync", 3), command("cuMemPrefetchAsync_v2", 4),
	command("cuMemPrefetchBatchAsync", 7),
	command("cuMemDiscardAndPrefetchBatchAsync", 7),
	command("cuMemBatchDecompressAsync", 4),
	command("cuGraphUpload", 1),
}

var allocations = []function{
	{symbol: "cuMemAlloc_v2", kind: kindAlloc, stream: arg(0), value: arg(1)},
	{symbol: "cuMemAllocManaged", kind: kindAlloc, stream: arg(0), value: arg(1)},
	{symbol: "cuMemAllocPitch_v2", kind: kindAlloc, stream: arg(0), value: arg(3), other: arg(1), shape: shapePitched},
	{symbol: "cuMemAllocAsync", kind: kindAlloc, stream: arg(0), value: arg(1)},
	{symbol: "cuMemAllocFromPoolAsync", kind: kindAlloc, stream: arg(0), value: arg(1)},
	{symbol: "cuMemCreate", kind: kindAlloc, stream: arg(0), value: arg(1), other: member(2, locationType), shape: shapeGuarded, handle: true},

	// The driver's free waits for the device (h200.md).
	{symbol: "cuMemFree_v2", kind: kindFree, value: arg(0), scope: scopeContext},
	{symbol: "cuMemFreeAsync", kind: kindFree, value: arg(0)},
	{symbol: "cuMemRelease", kind: kindFree, value: arg(0), handle: true},
}

var waits = []function{
	{symbol: "cuCtxSynchronize", kind: kindWait, scope: scopeContext},
	{symbol: "cuCtxSynchronize_v2", kind: kindWait, scope: scopeContext},
	{symbol: "cuStreamSynchronize", kind: kindWait, scope: scopeStream, stream: arg(0)},
	{symbol: "cuEventSynchronize", kind: kindWait, scope: scopeEvent, stream: arg(0)},
	{symbol: "cuEventRecord", kind: kindRecord, value: arg(0), stream: arg(1)},
	{symbol: "cuEventRecordWithFlags", kind: kindRecord, value: arg(0), stream: arg(1)},
	{symbol: "cuStreamQuery", kind: KindQuery},
	{symbol: "cuEventQuery", kind: KindQuery},
}

// returns says whether the function's return is hooked too.
func (f function) returns() bool { return f.kind == kindAlloc || f.scope != scopeNone }

// Hook is a place that is hooked, with what it means.
type hook struct {
	function
	perThread bool
	ours      bool
}

// known are the functions by their name.
var known = func() map[string]function {
	all := map[string]function{}
	for _, f := range functions {
		all[f.symbol] = f
	}
	return all
}()

// hookOf is what an exported function of the driver means; false: nothing here.
func hookOf(symbol string) (hook, bool) {
	base, perThread := symbol, false
	for _, suffix := range []string{"_ptsz", "_ptds"} {
		if s, ok := strings.CutSuffix(symbol, suffix); ok {
			base, perThread = s, true
		}
	}
	f, ok := known[base]
	if !ok {
		return hook{}, false
	}
	if perThread && f.kind == KindCopy && f.scope == scopeContext {
		f.scope = scopeStream // it waits for the thread's own stream alone
	}
	f.symbol = symbol
	return hook{function: f, perThread: perThread}, true
}
