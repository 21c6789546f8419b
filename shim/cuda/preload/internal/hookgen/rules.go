package main

import "strings"

// A rule says what a hook does around the driver's function. The texts are C
// statements in which $S stands for the stream parameter (NULL where the
// function has none and so uses the default stream), $F for the flags of the
// stream variant, and any parameter stands for itself.
type rule struct {
	before  string // before the driver is entered
	command bool   // a command: admitted before, xm_done after
	success string // after the driver returned CUDA_SUCCESS
	always  string // after the driver returned, whatever it said
	hand    bool   // written by hand in hooks_*.c; only declared and listed
	names   bool   // no command, but the driver looks at addresses of memory (mem_touch.h)
}

// Commands. What a call that blocks has learnt is said as carefully as it is
// true: a copy to the host ends when the bytes are there, so all before it in
// the stream is complete; of a copy from pageable host memory the last piece may
// still be on its way, and of an unknown direction nothing is known, so the
// queues are asked; memsets and device copies return at once.
var (
	enqueue     = rule{command: true}
	copyToHost  = rule{before: "xm_wait_begins();", command: true, success: "xm_synced_stream($S, $F);"}
	copyAsk     = rule{before: "xm_wait_begins();", command: true, success: "xm_synced_event();"}
	byHand      = rule{hand: true}
	asksQueues  = rule{before: "xm_wait_begins();", success: "xm_synced_event();"}
	tellsStream = rule{before: "xm_wait_begins();", success: "xm_synced_stream($S, $F), xm_pools_synced();"}
	uncovered   = rule{before: "xm_uncovered($NAME);"}
	namesMemory = rule{names: true}
	graphMade   = rule{names: true, success: "xm_graph_made(*phGraphExec, hGraph);"}
	endsContext = rule{
		before:  "xm_pools_context_goes(ctx);\n    xm_context_gone(ctx);",
		success: "xm_door_context_ended(ctx);",
		always:  "xm_pools_context_answered(ctx);\n    xm_context_ended();",
	}
	tensorMap = rule{success: "xm_tensormap_made(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides);"}
)

// sampled is a launch that is offered as a sample before it is admitted.
func sampled(extra string) rule {
	return rule{
		command: true,
		before:  "bool sampled = xm_learns() && xm_sample_begin(" + launchOf(extra) + ");\n",
		always:  "if (sampled)\n        xm_sample_end(result);",
	}
}

// byName holds the rules of names without their version and stream variant.
var byName = map[string]rule{
	"cuInit":           byHand,
	"cuGetProcAddress": byHand,

	// Launches, which may be samples where the program learns (sample.h).
	"cuLaunchKernel":            sampled("extra"),
	"cuLaunchCooperativeKernel": sampled("NULL"),

	// Launches without a stream parameter.
	"cuLaunch":                             enqueue,
	"cuLaunchGrid":                         enqueue,
	"cuLaunchKernelEx":                     byHand,
	"cuLaunchCooperativeKernelMultiDevice": uncovered,

	// Blocking copies and memsets.
	"cuMemcpy":            copyAsk,
	"cuMemcpyPeer":        copyAsk,
	"cuMemcpy2D":          copyAsk,
	"cuMemcpy2DUnaligned": copyAsk,
	"cuMemcpy3D":          copyAsk,
	"cuMemcpy3DPeer":      copyAsk,
	"cuMemcpyHtoD":        copyAsk,
	"cuMemcpyHtoA":        copyAsk,
	"cuMemcpyDtoH":        copyToHost,
	"cuMemcpyAtoH":        copyToHost,
	"cuMemcpyDtoD":        enqueue,
	"cuMemcpyDtoA":        enqueue,
	"cuMemcpyAtoD":        enqueue,
	"cuMemcpyAtoA":        enqueue,
	"cuMemsetD8":          enqueue,
	"cuMemsetD16":         enqueue,
	"cuMemsetD32":         enqueue,
	"cuMemsetD2D8":        enqueue,
	"cuMemsetD2D16":       enqueue,
	"cuMemsetD2D32":       enqueue,

	// What waits until the device has done what uses the memory (h200.md).
	"cuMemFreeHost":       asksQueues,
	"cuMemHostUnregister": asksQueues,

	// Memory of our own making, and what is counted (hooks_memory.c, hooks_pool*.c, hooks_count.c).
	"cuMemFree":                     byHand,
	"cuMemAlloc":                    byHand,
	"cuMemAllocPitch":               byHand,
	"cuMemAllocManaged":             byHand,
	"cuMemGetAddressRange":          byHand,
	"cuMemGetInfo":                  byHand,
	"cuDeviceTotalMem":              byHand,
	"cuPointerGetAttribute":         byHand,
	"cuPointerGetAttributes":        byHand,
	"cuPointerSetAttribute":         byHand,
	"cuMemRangeGetAttribute":        byHand,
	"cuMemRangeGetAttributes":       byHand,
	"cuMemRetainAllocationHandle":   byHand,
	"cuMemGetHandleForAddressRange": byHand,
	"cuIpcGetMemHandle":             byHand,
	"cuCtxEnablePeerAccess":         byHand,
	"cuMemCreate":                   byHand,
	"cuMemRelease":                  byHand,
	"cuMemMap":                      byHand,
	"cuMemUnmap":                    byHand,
	"cuMemAllocAsync":               byHand,
	"cuMemAllocFromPoolAsync":       byHand,
	"cuMemFreeAsync":                byHand,
	"cuMemPoolCreate":               byHand,
	"cuMemPoolDestroy":              byHand,
	"cuMemPoolTrimTo":               byHand,
	"cuMemPoolSetAttribute":         byHand,
	"cuMemPoolGetAttribute":         byHand,
	"cuMemPoolSetAccess":            byHand,
	"cuDeviceSetMemPool":            byHand,
	"cuMemSetMemPool":               byHand,
	"cuArrayCreate":                 byHand,
	"cuArray3DCreate":               byHand,
	"cuArrayDestroy":                byHand,
	"cuMipmappedArrayCreate":        byHand,
	"cuMipmappedArrayDestroy":       byHand,

	// Code, and what is made of it (hooks_code.c).
	"cuModuleLoad":              byHand,
	"cuModuleLoadData":          byHand,
	"cuModuleLoadDataEx":        byHand,
	"cuModuleLoadFatBinary":     byHand,
	"cuModuleUnload":            byHand,
	"cuLibraryLoadData":         byHand,
	"cuLibraryLoadFromFile":     byHand,
	"cuLibraryUnload":           byHand,
	"cuLibraryGetKernel":        {success: "xm_code_kernel(*pKernel, library);"},
	"cuLibraryEnumerateKernels": byHand,
	"cuLibraryGetModule":        {success: "xm_code_instance(*pMod, library);"},
	"cuKernelGetFunction":       {success: "xm_code_function(*pFunc, kernel);"},

	// Tensor maps.
	"cuTensorMapEncodeTiled":      tensorMap,
	"cuTensorMapEncodeIm2col":     tensorMap,
	"cuTensorMapEncodeIm2colWide": tensorMap,
	"cuTensorMapReplaceAddress":   byHand,

	// Calls that look at addresses and put no work on a stream.
	"cuGraphAddMemcpyNode":           namesMemory,
	"cuGraphAddMemsetNode":           namesMemory,
	"cuGraphAddNode":                 namesMemory,
	"cuGraphMemcpyNodeSetParams":     namesMemory,
	"cuGraphMemsetNodeSetParams":     namesMemory,
	"cuGraphNodeSetParams":           namesMemory,
	"cuGraphExecMemcpyNodeSetParams": {names: true, success: "xm_graph_copy_set(hGraphExec, hNode, copyParams);"},
	"cuGraphExecMemsetNodeSetParams": {names: true, success: "xm_graph_fill_set(hGraphExec, hNode, memsetParams);"},
	"cuGraphExecNodeSetParams":       {names: true, success: "xm_graph_node_set(hGraphExec, hNode, nodeParams);"},
	"cuGraphExecUpdate":              {names: true, success: "xm_graph_updated(hGraphExec, hGraph);"},
	"cuGraphInstantiate":             graphMade,
	"cuGraphInstantiateWithFlags":    graphMade,
	"cuGraphInstantiateWithParams":   graphMade,
	"cuTexObjectCreate":              namesMemory,
	"cuTexRefSetAddress":             namesMemory,
	"cuTexRefSetAddress2D":           namesMemory,

	// What else changes or ends a graph (graph_record.h, hooks_graph.c).
	"cuGraphExecKernelNodeSetParams":     byHand,
	"cuGraphExecChildGraphNodeSetParams": {success: "xm_graph_child_set(hGraphExec, hNode, childGraph);"},
	"cuGraphNodeSetEnabled":              {success: "xm_graph_enabled_set(hGraphExec, hNode, isEnabled != 0);"},
	"cuGraphExecDestroy":                 {before: "xm_graph_goes(hGraphExec);"},
	"cuGraphDestroy":                     {before: "xm_graph_source_goes(hGraph);"},

	"cuStreamSynchronize": tellsStream,
	"cuStreamQuery":       {before: "xm_poll_begins();", success: "xm_query_ok($S, $F);"},
	"cuEventSynchronize":  {before: "xm_wait_begins();", success: "xm_synced_event(), xm_pools_synced();"},
	"cuEventQuery":        {before: "xm_poll_begins();", success: "xm_synced_event();"},

	// Streams and captures.
	"cuStreamCreate":              {success: "xm_stream_made(*phStream, Flags, 0);"},
	"cuStreamCreateWithPriority":  {success: "xm_stream_made(*phStream, flags, priority);"},
	"cuGreenCtxStreamCreate":      {success: "xm_stream_made(*phStream, flags, priority);"},
	"cuStreamDestroy":             {before: "xm_pools_stream_gone($S);\n    xm_stream_gone($S, $F);"},
	"cuStreamBeginCapture":        byHand,
	"cuStreamBeginCaptureToGraph": byHand,
	"cuStreamEndCapture":          byHand,

	// Contexts.
	"cuCtxSynchronize":          byHand,
	"cuCtxCreate":               byHand,
	"cuCtxDestroy":              endsContext,
	"cuCtxDetach":               endsContext,
	"cuCtxSetCurrent":           {always: "xm_door_context_set(result);"},
	"cuCtxPushCurrent":          {always: "xm_door_context_set(result);"},
	"cuCtxPopCurrent":           {always: "xm_context_changed();"},
	"cuDevicePrimaryCtxRetain":  byHand,
	"cuDevicePrimaryCtxRelease": byHand,
	"cuDevicePrimaryCtxReset":   byHand,
}

// quiet holds the names that have a stream parameter and put no work on it.
// Events and waits for them are not commands: they cost the device nothing, and
// a gate in front of them would only hold back a thread that has yet to find
// out what it waits for.
var quiet = map[string]bool{
	"cuEventRecord":                     true,
	"cuEventRecordWithFlags":            true,
	"cuStreamWaitEvent":                 true,
	"cuStreamCopyAttributes":            true,
	"cuStreamGetAttribute":              true,
	"cuStreamSetAttribute":              true,
	"cuStreamGetCaptureInfo":            true,
	"cuStreamGetCtx":                    true,
	"cuStreamGetDevice":                 true,
	"cuStreamGetFlags":                  true,
	"cuStreamGetGreenCtx":               true,
	"cuStreamGetId":                     true,
	"cuStreamGetPriority":               true,
	"cuStreamIsCapturing":               true,
	"cuStreamUpdateCaptureDependencies": true,
}

// ruleOf decides about a declared function. Every function with a stream
// parameter is a command unless a rule or quiet says otherwise: what a future
// driver brings is governed until somebody has looked at it.
func ruleOf(d declaration) (rule, bool) {
	base, _ := splitName(d.Symbol)
	if r, ok := byName[base]; ok {
		return r, true
	}
	if quiet[base] {
		return rule{}, false
	}
	if d.stream() != "" {
		return enqueue, true
	}
	return rule{}, false
}

// splitName takes an exported name apart: the name under which cuGetProcAddress
// knows it, and whether it is the variant for the per-thread default stream.
func splitName(symbol string) (base string, perThread bool) {
	base = symbol
	for _, suffix := range []string{"_ptsz", "_ptds"} {
		if s, ok := strings.CutSuffix(base, suffix); ok {
			base, perThread = s, true
		}
	}
	if i := strings.LastIndex(base, "_v"); i > 0 && strings.Trim(base[i+2:], "0123456789") == "" {
		base = base[:i]
	}
	return base, perThread
}
