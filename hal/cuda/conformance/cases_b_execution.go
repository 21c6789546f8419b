package conformance

// executionCases ask about what runs: launches of every kind, host functions,
// captures, graphs, libraries, batches of memory operations, and the contexts
// and streams that they run in.
var executionCases = []testCase{
	story("launch-attributes", launchAttributes),
	story("cooperative-launches", cooperativeLaunches),
	story("function-attributes", functionAttributes),
	story("occupancy", occupancy),
	story("host-functions", hostFunctions),
	callsInside,
	story("callback-of-a-failed-context", callbackOfFailure),
	story("host-function-of-a-failed-context", hostFunctionOfFailure),
	story("memory-operations", memoryOperations),
	story("wide-values", wideValues),
	story("captures", captures),
	story("captured-calls", capturedCalls),
	story("fork-and-join", forkAndJoin),
	story("capture-info", captureInfo),
	story("capture-to-graph", captureToGraph),
	nullCaptures,
	duringCapture,
	story("graphs", graphs),
	heldGraphs,
	story("graph-updates", graphUpdates),
	nullGraphs,
	story("libraries", libraries),
	nullLibraries,
	story("context-versions", contextVersions),
	story("stream-attributes", streamAttributes),
	story("primary-state", primaryState),
	legacyQueries,
}
