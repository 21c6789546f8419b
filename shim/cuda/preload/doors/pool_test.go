package doors

import (
	"strconv"
	"testing"
)

// pool runs one case of pool_run: memory that is allocated in the order of streams.
func pool(t *testing.T, name string, env ...string) {
	t.Helper()
	managed(t, "pool_run", name, 1, env...)
}

func TestPoolFigures(t *testing.T)                { pool(t, "figures") }
func TestPoolStreamEnds(t *testing.T)             { pool(t, "stream_ends") }
func TestPoolMemoryFreedCrosswise(t *testing.T)   { pool(t, "crosswise") }
func TestPoolsEnd(t *testing.T)                   { pool(t, "pools_end") }
func TestPoolsOutliveContexts(t *testing.T)       { pool(t, "contexts_end") }
func TestPoolsOfDefaultStreams(t *testing.T)      { pool(t, "default_streams") }
func TestPoolsWhileCapturing(t *testing.T)        { pool(t, "captures") }
func TestCase12PoolMemoryKeepsOrder(t *testing.T) { pool(t, "order") }
func TestCase22PoolBeyondTheLimit(t *testing.T)   { pool(t, "limited", bounds()...) }
func TestCase27PoolMemoryMoves(t *testing.T)      { pool(t, "moves") }
func TestCase28ReachablePoolStays(t *testing.T)   { managed(t, "pool_run", "reachable", 2) }

// TestPoolThreads has threads with streams of their own while the memory moves.
func TestPoolThreads(t *testing.T) {
	for seed := range 2 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) { pool(t, "pool_threads", "XM_SEED="+strconv.Itoa(seed+1)) })
	}
}
