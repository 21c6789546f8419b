package kernels

import (
	_ "embed"
	"encoding/binary"
	"slices"
	"time"
)

//go:embed stress.ptx
var stressPTX []byte

//go:embed cluster.ptx
var clusterPTX []byte

// StressPTX is the text of the second module: kernels whose results depend on
// every step of a long way, so that a suspension that lost one would show. Its
// kernels are Stress. It is as PTX's.
func StressPTX() []byte { return append([]byte(nil), stressPTX...) }

// ClusterPTX is the text of the third module, for sm_90 and later: xm_cluster
// alone, which has no CPU body.
func ClusterPTX() []byte { return append([]byte(nil), clusterPTX...) }

// Stress returns the kernels of the second module in the order of its text.
func Stress() []Kernel { return append([]Kernel(nil), stressTable...) }

// Every returns the kernels of all modules that have a CPU body.
func Every() []Kernel {
	return slices.Concat(table, stressTable, probeTable, scienceTable, digestTable)
}

var stressTable = []Kernel{
	{
		Name: "xm_churn", Params: params(u64("data"), u32("n"), u32("rounds")),
		Body: churn, Cost: churnCost, Touched: touched(2, words32(8)),
		Spans: spans(pointed(0, Update, words32(8))),
	},
	{
		Name: "xm_atomics", Params: params(u64("out"), u32("n"), u32("rounds")),
		Body: atomics, Cost: atomicsCost, Touched: touched(2, words32(8)),
		Spans: spans(pointed(0, Update, atomicsReach)),
	},
	{
		Name: "xm_ring", Params: params(u64("a"), u64("b"), u64("barrier"), u32("rounds")),
		Body: ring, Cost: ringCost, Touched: func(l Launch) uint64 { return 16 * l.Threads() }, Spans: ringSpans,
	},
}

// ClusterBlocks is the number of blocks of a cluster of xm_cluster, whose grid is
// a multiple of it; ClusterThreads the largest block.
const (
	ClusterBlocks  = 4
	ClusterThreads = 256
)

// RoundResult is a word of xm_churn after the given number of rounds.
func RoundResult(word uint32, rounds uint64) uint32 { return SpinResult(word, rounds) }

// AtomicsResult is what so many threads of xm_atomics, in so many rounds, add to
// each of n words.
func AtomicsResult(threads uint64, n, rounds uint32) []uint32 {
	out := make([]uint32, n)
	if n == 0 {
		return out
	}
	left, whole, part := uint32(threads%uint64(n)), rounds/n, rounds%n
	each := uint32(threads/uint64(n)*uint64(rounds)) + left*whole
	// The threads that are left over begin one word further on each, and reach `part`
	// words: what a word gets is what its neighbour got, and one who begins here, less
	// one who ended there. Round the ring, twice, so that the beginning has its due.
	var running uint32
	for i := range 2 * n {
		if i < left {
			running++
		}
		if i >= part && i-part < left {
			running--
		}
		out[i%n] += running
	}
	for i := range out {
		out[i] += each
	}
	return out
}

// RingResult is what the thread with this index of xm_ring writes in its last
// round: the word that lies that many blocks further on in a, and the rounds.
func RingResult(a []uint32, index, block int, rounds uint32) uint32 {
	from := (uint64(index) + uint64(rounds)%uint64(len(a))*uint64(block)) % uint64(len(a))
	return a[from] + rounds
}

// ClusterResult is the word that the thread with this index of xm_cluster writes.
func ClusterResult(index, block int, rounds uint32) uint32 {
	inGrid, thread := index/block, index%block
	cluster, rank := inGrid/ClusterBlocks, inGrid%ClusterBlocks
	from := cluster*ClusterBlocks + (rank+int(rounds%ClusterBlocks))%ClusterBlocks
	return uint32(from*block+thread) + rounds
}

func churn(m Memory, l Launch) error {
	n := uint64(arg32(l, 8))
	b, err := viewWords(m, arg64(l, 0), n, Update)
	if err != nil {
		return err
	}
	mul, add := lcgPower(uint64(arg32(l, 12)))
	for i := uint64(0); i < 4*n; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], mul*binary.LittleEndian.Uint32(b[i:])+add)
	}
	return nil
}

// atomicsReach is how many of its words a launch of xm_atomics touches: each thread
// begins one word further on, and goes one further each round.
func atomicsReach(l Launch) uint64 {
	n, threads, rounds := uint64(arg32(l, 8)), l.Threads(), uint64(arg32(l, 12))
	if threads == 0 || rounds == 0 {
		return 0
	}
	return min(n, threads+rounds-1)
}

func atomics(m Memory, l Launch) error {
	reach := atomicsReach(l)
	b, err := viewWords(m, arg64(l, 0), reach, Update)
	if err != nil {
		return err
	}
	for i, v := range AtomicsResult(l.Threads(), arg32(l, 8), arg32(l, 12))[:reach] {
		binary.LittleEndian.PutUint32(b[4*i:], binary.LittleEndian.Uint32(b[4*i:])+v)
	}
	return nil
}

// ringAccess is what is done to a: its words are read, and written from the second
// round on. Those of b are written before anything is read there.
func ringAccess(rounds uint32) Access {
	if rounds == 1 {
		return Read
	}
	return Update
}

func ringSpans(l Launch) []Span {
	rounds := arg32(l, 24)
	if rounds == 0 || l.Threads() == 0 {
		return nil
	}
	return spans(pointed(16, Update, fixed(1)), pointed(0, ringAccess(rounds), Launch.Threads), pointed(8, Write, Launch.Threads))(l)
}

func ring(m Memory, l Launch) error {
	rounds, n := arg32(l, 24), l.Threads()
	if rounds == 0 || n == 0 {
		return nil
	}
	barrier, err := m.View(arg64(l, 16), 4, Update)
	if err != nil {
		return err
	}
	a, err := viewWords(m, arg64(l, 0), n, ringAccess(rounds))
	if err != nil {
		return err
	}
	b, err := viewWords(m, arg64(l, 8), n, Write)
	if err != nil {
		return err
	}
	begun := make([]uint32, n)
	for i := range begun {
		begun[i] = binary.LittleEndian.Uint32(a[4*i:])
	}
	last, before := b, a // the last of an odd number of rounds writes b
	if rounds%2 == 0 {
		last, before = a, b
	}
	for i := range begun {
		binary.LittleEndian.PutUint32(last[4*i:], RingResult(begun, i, int(l.Block[0]), rounds))
		if rounds > 1 {
			binary.LittleEndian.PutUint32(before[4*i:], RingResult(begun, i, int(l.Block[0]), rounds-1))
		}
	}
	binary.LittleEndian.PutUint32(barrier, binary.LittleEndian.Uint32(barrier)+rounds*l.Grid[0])
	return nil
}

// Costs, of the machine that cost.go describes.
const (
	barrierNanos  = 2000 // of all blocks of a grid, through memory
	atomicPicos   = 500  // each, spread over many words
	atomicsPerUS  = 1_000_000 / atomicPicos
	microsInNanos = 1000
)

func churnCost(l Launch) time.Duration {
	return repeated(streamCost(2, words32(8))(l), uint64(arg32(l, 12)))
}

func atomicsCost(l Launch) time.Duration {
	return repeated(clampedNanos(l.allThreads(), microsInNanos, atomicsPerUS), uint64(arg32(l, 12)))
}

func ringCost(l Launch) time.Duration { return repeated(barrierNanos, uint64(arg32(l, 24))) }

// repeated is n times d, at most longest.
func repeated(d time.Duration, n uint64) time.Duration { return clampedNanos(n, uint64(d), 1) }
