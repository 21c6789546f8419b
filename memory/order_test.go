package memory

import (
	"iter"
	"math"
	"slices"
	"testing"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"pgregory.net/rapid"
)

// cache is a device that holds so many segments, by an order.
type cache struct {
	order Order
	size  int
	in    map[ID]bool
}

func newCache(o Order, size int) *cache { return &cache{o, size, map[ID]bool{}} }

// use uses a segment and says who had to go for it; 0: nobody.
func (c *cache) use(id ID) (gone ID) {
	if !c.in[id] && len(c.in) == c.size {
		for v := range c.order.Victims(id) {
			gone = v
			break
		}
		delete(c.in, gone)
		c.order.Evict(gone)
	}
	c.in[id] = true
	c.order.Use(id)
	return gone
}

func drawUses(t *rapid.T) (size int, uses []ID) {
	size = rapid.IntRange(1, 12).Draw(t, "size")
	id := rapid.Custom(func(t *rapid.T) ID { return ID(rapid.IntRange(1, 2*size+4).Draw(t, "id")) })
	return size, rapid.SliceOfN(id, 0, 120).Draw(t, "uses")
}

// checkVictims wants an order to name all that is on the device, once.
func checkVictims(t rapid.TB, c *cache, coming ID) {
	seen := map[ID]bool{}
	for id := range c.order.Victims(coming) {
		if seen[id] || !c.in[id] {
			t.Fatalf("%s names %d, named before %v, on the device %v", c.order.Name(), id, seen[id], c.in[id])
		}
		seen[id] = true
	}
	if len(seen) != len(c.in) {
		t.Fatalf("%s names %d of %d", c.order.Name(), len(seen), len(c.in))
	}
}

func TestLRUAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, uses := drawUses(t)
		var want ID
		oracle, err := simplelru.NewLRU(size, func(id ID, _ bool) { want = id })
		if err != nil {
			t.Fatal(err)
		}
		c := newCache(NewLRU(), size)
		for i, id := range uses {
			want = 0
			oracle.Add(id, true)
			if got := c.use(id); got != want {
				t.Fatalf("use %d, of %d: %d goes, want %d", i, id, got, want)
			}
			checkVictims(t, c, 0)
			if rapid.IntRange(0, 20).Draw(t, "freed") == 20 {
				oracle.Remove(id)
				c.order.Forget(id)
				delete(c.in, id)
			}
		}
	})
}

func TestTwoQueueAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, uses := drawUses(t)
		compareTwoQueue(t, max(size, 2), uses) // the oracle's list of ghosts has at least one
	})
}

// TestTwoQueueKeepsAShortFirstQueue has a segment come back while the first queue
// is below its share: what goes is the second queue's oldest.
func TestTwoQueueKeepsAShortFirstQueue(t *testing.T) {
	compareTwoQueue(t, 9, []ID{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 9, 22, 22, 8})
}

// compareTwoQueue wants of each use the victim that another implementation has.
func compareTwoQueue(t rapid.TB, size int, uses []ID) {
	oracle, err := lru.New2Q[ID, bool](size)
	if err != nil {
		t.Fatal(err)
	}
	c := newCache(NewTwoQueue(size), size)
	for i, id := range uses {
		before := oracle.Keys()
		if oracle.Contains(id) {
			oracle.Get(id)
		} else {
			oracle.Add(id, true)
		}
		after, want := oracle.Keys(), ID(0)
		for _, k := range before {
			if !slices.Contains(after, k) {
				want = k
			}
		}
		checkVictims(t, c, id)
		if got := c.use(id); got != want {
			t.Fatalf("use %d, of %d: %d goes, want %d", i, id, got, want)
		}
	}
}

func TestFIFOLetsGoWhatCameFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, uses := drawUses(t)
		c := newCache(NewFIFO(), size)
		var queue []ID
		for i, id := range uses {
			want := ID(0)
			if !slices.Contains(queue, id) {
				if len(queue) == size {
					want, queue = queue[0], queue[1:]
				}
				queue = append(queue, id)
			}
			if got := c.use(id); got != want {
				t.Fatalf("use %d, of %d: %d goes, want %d", i, id, got, want)
			}
		}
	})
}

// misses counts what has to come in over a history.
func misses(c *cache, uses []ID, before func(i int)) (n int) {
	for i, id := range uses {
		if before != nil {
			before(i)
		}
		if !c.in[id] {
			n++
		}
		c.use(id)
	}
	return n
}

// fewest is the least number of misses that any choice of victims gives, by
// trying them all.
func fewest(size int, uses []ID) int {
	memo := map[string]int{}
	var best func(i int, in string) int
	best = func(i int, in string) int {
		if i == len(uses) {
			return 0
		}
		key := string(rune(i)) + in
		if n, ok := memo[key]; ok {
			return n
		}
		id := byte(uses[i])
		n := math.MaxInt
		switch {
		case slices.Contains([]byte(in), id):
			n = best(i+1, in)
		case len(in) < size:
			n = 1 + best(i+1, sorted(in+string(rune(id))))
		default:
			for v := range in {
				n = min(n, 1+best(i+1, sorted(in[:v]+in[v+1:]+string(rune(id)))))
			}
		}
		memo[key] = n
		return n
	}
	return best(0, "")
}

func sorted(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}

// TestBeladyIsTheLowerBound compares with the best of all choices, and wants no
// other order to do better.
func TestBeladyIsTheLowerBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(t, "size")
		id := rapid.Custom(func(t *rapid.T) ID { return ID(rapid.IntRange(1, 7).Draw(t, "id")) })
		uses := rapid.SliceOfN(id, 0, 30).Draw(t, "uses")
		b := NewBelady()
		got := misses(newCache(b, size), uses, func(i int) { b.Plan(slices.Values(uses[i:])) })
		if want := fewest(size, uses); got != want {
			t.Fatalf("%d misses, %d would do", got, want)
		}
		for _, o := range []Order{NewLRU(), NewTwoQueue(size), NewFIFO()} {
			if n := misses(newCache(o, size), uses, nil); n < got {
				t.Fatalf("%s misses %d, Belady %d", o.Name(), n, got)
			}
		}
	})
}

// TestSweepOverMoreThanFits is what the orders are for: a task that reads all of
// its memory again and again. By use every read is a miss, by next use only as
// many as cannot be had for less: (n-k) of n-1, for k of n.
func TestSweepOverMoreThanFits(t *testing.T) {
	const n, k, rounds = 12, 8, 23
	var uses []ID
	for range rounds {
		for id := ID(1); id <= n; id++ {
			uses = append(uses, id)
		}
	}
	if got := misses(newCache(NewLRU(), k), uses, nil); got != len(uses) {
		t.Errorf("LRU: %d misses, want %d", got, len(uses))
	}
	b := NewBelady()
	got := misses(newCache(b, k), uses, func(i int) { b.Plan(slices.Values(uses[i:])) })
	least := n + (rounds-1)*n*(n-k)/(n-1)
	if got < least-n || got > least+n {
		t.Errorf("Belady: %d misses, want about %d", got, least)
	}
}

func TestBeladySaysWhenItIsNext(t *testing.T) {
	b := NewBelady()
	var uses iter.Seq[ID] = slices.Values([]ID{4, 2, 4, 7})
	b.Plan(uses)
	for id, want := range map[ID]int{4: 1, 2: 2, 7: 4, 9: 0} {
		if got := b.Next(id); got != want {
			t.Errorf("next use of %d: %d, want %d", id, got, want)
		}
	}
	b.Forget(4)
	if b.Next(4) != 0 {
		t.Error("a segment that was freed is used again")
	}
}
