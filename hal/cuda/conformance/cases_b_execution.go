package conformance

// executionCases ask about what runs: launches of every kind, host functions,
// captures, graphs, libraries, batches of memory operations, and the contexts
// and streams that they run in.
var executionCases = []testCase{}
