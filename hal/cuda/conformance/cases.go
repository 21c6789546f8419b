package conformance

import "slices"

// cases are all cases, in the order of the transcript.
var cases = slices.Concat(firstCases, executionCases, memoryCases)

// firstCases ask what a program with kernels, streams and plain memory meets.
var firstCases = []testCase{
	story("before-init", beforeInit),
	story("init", initialise),
	story("error-names", errorNames),
	story("proc-address", procAddress),
	story("proc-address-refusals", procAddressRefusals),
	story("devices", devices),
	story("device-attributes", deviceAttributes),
	story("no-context", noContext),
	story("primary-context", primaryContext),
	story("created-contexts", createdContexts),
	story("context-threads", contextThreads),
	story("modules", modules),
	story("parameter-layout", parameterLayout),
	story("kernels", kernelResults),
	story("launch-refusals", launchRefusals),
	story("streams", streams),
	story("stream-handles", streamHandles),
	story("pending-work", pendingWork),
	story("beside-held-work", besides),
	story("streams-on-channels", folding),
	waiters,
	firstLaunches,
	madeWhileHeld,
	story("wait-values", waitValues),
	story("write-values", writeValues),
	story("value-refusals", valueRefusals),
	story("events", events),
	story("device-memory", deviceMemory),
	story("host-memory", hostMemory),
	story("registered-memory", registeredMemory),
	story("pointer-attributes", pointerAttributes),
	story("copies", copies),
	story("copy-refusals", copyRefusals),
	story("order", order),
	story("illegal-address", illegalAddress),
	nullPointers,
	staleHandles,
}
