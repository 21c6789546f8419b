package device

import (
	"encoding/binary"
	"math/rand"
	"os"
	"strings"
	"testing"
	"time"
)

// want expects a result of a request.
func (c *rawClient) want(r result, q request) reply {
	c.t.Helper()
	got, fd := c.call(q)
	if fd >= 0 {
		closeDescriptor(fd)
	}
	if got.Result != r {
		c.t.Fatalf("request %d: %d, want %d", q.Op, got.Result, r)
	}
	return got
}

// Pieces go, come back and change places while bodies use them: the device answers,
// serves, and in the end has all its memory.
func TestRemappedWhileInUse(t *testing.T) {
	const base, piece, pieces = 0x7f0000000000, 4 << 20, 6
	socket := startDevice(t, Config{HBM: 256 << 20})
	before := dial(t, socket)
	before.begin()
	free := before.want(success, request{Op: opMemInfo}).A
	random := rand.New(rand.NewSource(5))
	for range 6 {
		c := dial(t, socket)
		c.begin()
		c.want(success, request{Op: opReserve, A: base, B: pieces * piece})
		var handles []uint64
		for range 3 {
			handles = append(handles, c.want(success, request{Op: opPhysCreate, A: 2 * piece}).A)
		}
		there := map[uint64]uint64{} // address to bytes
		for range 200 {
			at, n := base+uint64(random.Intn(pieces))*piece, uint64(1+random.Intn(2))*piece
			switch random.Intn(4) {
			case 0:
				if r, _ := c.call(request{Op: opMap, A: at, B: n, D: handles[random.Intn(len(handles))]}); r.Result == success {
					there[at] = n
				}
			case 1:
				if n, ok := there[at]; ok {
					c.want(success, request{Op: opUnmap, A: at, B: n})
					delete(there, at)
				}
			case 2:
				q := request{Op: opMapAccess, A: at, B: there[at], C: 1, D: 1}
				binary.LittleEndian.PutUint64(q.Text[:], 1)
				_, _ = c.call(q)
			default: // large enough for a worker
				c.submit(entry{Verb: uint32(verbFill), Kind: 1, A: base + uint64(random.Intn(pieces*piece)), B: 1, C: uint64(random.Intn(3 * piece))})
				if word32(c.mem, offError).Load() != 0 { // a fault: another context
					r, fd := c.call(request{Op: opContext})
					if r.Result != success {
						t.Fatalf("context: %d", r.Result)
					}
					c.adopt(r.A, fd)
				}
			}
		}
		if random.Intn(2) == 0 {
			for at, n := range there {
				c.want(success, request{Op: opUnmap, A: at, B: n})
			}
			c.want(success, request{Op: opUnreserve, A: base})
		}
		c.close()
	}
	left := func() (free uint64, mappings int) { // bodies of the dead may run on for a while
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return before.want(success, request{Op: opMemInfo}).A, strings.Count(string(maps), "xmsched-sim-mem")
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		now, mappings := left()
		if now == free && mappings == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes of memory are lost, %d mappings are left", free-now, mappings)
		}
	}
	dial(t, socket).well()
}

// What no driver of ours asks is refused.
func TestHostileMappings(t *testing.T) {
	socket := startDevice(t, Config{HBM: 64 << 20})
	c := dial(t, socket)
	c.begin()
	h := c.want(success, request{Op: opPhysCreate, A: 4 << 20}).A
	for _, q := range []request{
		{Op: opPhysCreate, A: 0},
		{Op: opPhysCreate, A: 1 << 20},
		{Op: opPhysRelease, A: h + 1},
		{Op: opPhysExport, A: 0},
		{Op: opPhysImport, A: h + 1},
		{Op: opReserve, A: 0x200000, B: 0},
		{Op: opReserve, A: 0x1000, B: 0x1000},
		{Op: opReserve, A: 1<<64 - 0x200000, B: 0x400000},
		{Op: opUnreserve, A: 0x200000},
		{Op: opMap, A: 0x200000, B: 0x200000, D: h}, // nothing is reserved
		{Op: opUnmap, A: 0x200000, B: 0x200000},
		{Op: opMapAccess, A: 0x200000, B: 0x200000},
	} {
		c.want(invalidValue, q)
	}
	c.want(outOfMemory, request{Op: opReserve, A: 0x200000, B: 1 << 50})
	c.want(outOfMemory, request{Op: opPhysCreate, A: 1 << 62})
	c.want(outOfMemory, request{Op: opPhysCreate, A: 1 << 40, C: 1})
	c.want(success, request{Op: opReserve, A: 0x200000, B: 0x800000})
	c.want(invalidValue, request{Op: opReserve, A: 0x400000, B: 0x200000})
	for _, q := range []request{
		{Op: opMap, A: 0x200000, B: 0x600000, D: h}, // more than there is
		{Op: opMap, A: 0x200000, B: 0x200000, C: 1, D: h},
		{Op: opMap, A: 0x200000, B: 0x200000, C: 1<<64 - 0x200000, D: h},
		{Op: opMap, A: 0x800000, B: 0x400000, D: h}, // over the end
		{Op: opMap, A: 0x200000, B: 1<<64 - 0x200000, D: h},
	} {
		c.want(invalidValue, q)
	}
	c.want(success, request{Op: opMap, A: 0x200000, B: 0x400000, D: h})
	c.want(invalidValue, request{Op: opFree, A: 0x200000}) // none of the other calls takes it
	c.want(invalidValue, request{Op: opHostEnd, A: 0x200000})
	c.want(invalidValue, request{Op: opAccess, A: 0x200000, B: 1})
	c.want(invalidValue, request{Op: opUnreserve, A: 0x200000})
	thief := dial(t, socket)
	thief.begin()
	thief.want(invalidValue, request{Op: opPhysExport, A: h})
	thief.want(invalidValue, request{Op: opPhysImport, A: h})
	thief.want(invalidValue, request{Op: opPhysRelease, A: h})
	thief.want(success, request{Op: opReserve, A: 0x200000, B: 0x800000})
	thief.want(invalidValue, request{Op: opMap, A: 0x200000, B: 0x200000, D: h})
}
