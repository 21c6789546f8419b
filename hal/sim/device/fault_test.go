package device

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"xmsched/hal/kernels"
)

// faultWorld is two devices with room for a few blocks, a context on each, and one
// managed range.
type faultWorld struct {
	d  *Device
	c  *client
	on [2]*gpuContext
	sp *span
}

func newFaultWorld(t testing.TB, blocks int) *faultWorld {
	t.Helper()
	d, err := newDevice(Config{Devices: 2, HBM: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDescriptor(d.pokeFD) })
	w := &faultWorld{d: d, c: &client{space: &space{}, pid: unix.Getpid()}}
	for i := range w.on {
		w.on[i] = &gpuContext{owner: w.c, gpu: d.gpus[i]}
	}
	w.sp = &span{base: 64 * blockBytes, size: uint64(blocks) * blockBytes, kind: managedMemory, blocks: make([]block, blocks)}
	for i := range w.sp.blocks {
		w.sp.blocks[i].home = onHost
	}
	if r := w.c.space.add(w.sp); r != success {
		t.Fatal(r)
	}
	return w
}

// kernel touches part of the range on a device.
func (w *faultWorld) kernel(gpu int, from, n uint64, a kernels.Access) {
	w.d.fault(&command{ch: &channel{ctx: w.on[gpu]}}, []touch{{w.sp, w.sp.base + from, n, a}})
}

// TestBlocksAreWhereTheyAreCharged: whatever kernels, prefetches and advice do, each
// device's memory is charged for the blocks that it has, and no more; and a kernel that
// could bring its memory does not fault a second time.
func TestBlocksAreWhereTheyAreCharged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const blocks = 40 // more than a device has room for
		w := newFaultWorld(t, blocks)
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			gpu := rapid.IntRange(0, 1).Draw(rt, "gpu")
			from := rapid.Uint64Range(0, blocks*blockBytes-1).Draw(rt, "from")
			n := rapid.Uint64Range(1, blocks*blockBytes-from).Draw(rt, "bytes")
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0, 1:
				w.kernel(gpu, from, n, kernels.Access(rapid.IntRange(0, 2).Draw(rt, "access")))
			case 2:
				e := entry{Verb: uint32(verbPrefetch), A: w.sp.base + from, C: n, Kind: uint32(gpu), Flags: uint32(gpu)}
				if err := w.d.prefetch(&command{ch: &channel{ctx: w.on[gpu]}, entry: e}); err != nil {
					rt.Fatal(err)
				}
			case 3:
				if r := w.d.advise(w.c, &request{A: w.sp.base + from, B: n, C: uint64(gpu)}); r != success {
					rt.Fatal(r)
				}
			}
			for i, g := range w.d.gpus {
				have := uint64(0)
				for b := range w.sp.blocks {
					if w.sp.blocks[b].on(int8(i)) {
						have += blockBytes
					}
					if w.sp.blocks[b].copies != 0 && !w.sp.blocks[b].mostly {
						rt.Fatalf("block %d has copies and is not read mostly", b)
					}
				}
				if charged := g.capacity.Total() - g.capacity.Free(); charged != have {
					rt.Fatalf("device %d has %d bytes and is charged %d", i, have, charged)
				}
			}
		}
		w.d.refund(w.sp)
		for i, g := range w.d.gpus {
			if g.capacity.Free() != g.capacity.Total() {
				rt.Fatalf("device %d keeps %d bytes", i, g.capacity.Total()-g.capacity.Free())
			}
		}
	})
}

// TestWhoFaults: homes, copies and accesses.
func TestWhoFaults(t *testing.T) {
	for _, c := range []struct {
		name        string
		b           block
		read, write bool // faults of device 0
		after       block
	}{
		{"on the host", block{home: onHost}, true, false, block{home: 0}},
		{"at home", block{home: 0}, false, false, block{home: 0}},
		{"on another", block{home: 1}, true, false, block{home: 0}},
		{"read mostly", block{home: onHost, mostly: true}, true, true, block{home: 0, mostly: true}},
		{"a copy is here", block{home: onHost, mostly: true, copies: 1}, false, true, block{home: 0, mostly: true}},
		{"a copy is there", block{home: onHost, mostly: true, copies: 2}, true, true, block{home: 0, mostly: true}},
	} {
		w := newFaultWorld(t, 1)
		w.sp.blocks[0] = c.b
		for i := range w.d.gpus {
			if c.b.on(int8(i)) {
				w.d.gpus[i].capacity.Reserve(blockBytes)
			}
		}
		if read, write := w.d.readFault(&w.sp.blocks[0], 0), w.d.writeFault(&w.sp.blocks[0], 0); read != c.read || write != c.write || w.sp.blocks[0] != c.after {
			t.Errorf("%s: read %v, then write %v, left %+v", c.name, read, write, w.sp.blocks[0])
		}
	}
}

// watched is a tracker over memory of this process.
func watched(t *testing.T, entries int) (tr *tracker, queue, control []byte, end int) {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	at := func(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
	queue, control = make([]byte, entries*entryFaultBytes), make([]byte, pageBytes)
	return &tracker{number: 1, queue: at(queue), size: uint64(entries), control: at(control), end: ends[0], events: 1 << eventGPUFault}, queue, control, ends[1]
}

// TestTrackersQueue: entries go round, the full queue drops and counts, and the
// tracker ends with its descriptor.
func TestTrackersQueue(t *testing.T) {
	w := newFaultWorld(t, 16)
	tr, queue, control, end := watched(t, 8)
	w.c.trackers = []*tracker{tr}
	put := func() uint32 { return binary.LittleEndian.Uint32(control[offPutAhead+4:]) }
	dropped := func() uint64 { return binary.LittleEndian.Uint64(control[offDropped+8*eventGPUFault:]) }
	w.kernel(0, 0, 5*blockBytes, kernels.Read)
	if put() != 5 || dropped() != 0 || binary.LittleEndian.Uint64(queue[4*entryFaultBytes+8:]) != w.sp.base+4*blockBytes || queue[4*entryFaultBytes+37] != faultRead {
		t.Fatalf("put %d, dropped %d", put(), dropped())
	}
	binary.LittleEndian.PutUint32(control[4:], 5) // all are read
	w.kernel(0, 5*blockBytes, 9*blockBytes, kernels.Write)
	if put() != (5+7)%8 || dropped() != 2 || binary.LittleEndian.Uint64(queue[8:]) != w.sp.base+8*blockBytes {
		t.Fatalf("put %d, dropped %d", put(), dropped())
	}
	w.kernel(0, 0, 16*blockBytes, kernels.Read) // two have not come yet
	if dropped() != 4 {
		t.Errorf("dropped %d", dropped())
	}
	binary.LittleEndian.PutUint32(control[4:], ^uint32(0)) // nonsense is taken for what it is in the queue's size
	w.kernel(1, 0, blockBytes, kernels.Read)
	closeDescriptor(end)
	w.kernel(0, 0, blockBytes, kernels.Read)
	if len(w.c.trackers) != 0 {
		t.Error("a tracker outlives its descriptor")
	}
}

// TestToolsRefuse: what no driver would ask for.
func TestToolsRefuse(t *testing.T) {
	w := newFaultWorld(t, 1)
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeDescriptor(null)
	for _, q := range []request{{A: 4096, B: 3, C: 8192}, {A: 0, B: 8, C: 8192}, {A: 4096, B: 8}, {A: 4096, B: 1 << 40, C: 8192}, {A: 4096, B: 1, C: 8192}} {
		q.Op = opToolsBegin
		if r := w.d.tools(w.c, &q, []int{null}); r.Result != invalidValue {
			t.Errorf("%+v: %d", q, r.Result)
		}
	}
	ok := request{Op: opToolsBegin, A: 4096, B: 8, C: 8192}
	if r := w.d.tools(w.c, &ok, nil); r.Result != invalidValue {
		t.Errorf("without a descriptor: %d", r.Result)
	}
	for i := range mostTrackers + 1 {
		if r := w.d.tools(w.c, &ok, []int{null}); (r.Result == success) != (i < mostTrackers) {
			t.Errorf("tracker %d: %d", i, r.Result)
		}
	}
	if r := w.d.tools(w.c, &request{Op: opToolsEvents, A: 99}, nil); r.Result != invalidValue {
		t.Errorf("events of nobody: %d", r.Result)
	}
	w.c.forgetTrackers()
	if r := w.d.advise(w.c, &request{A: 4096, B: 1, C: 1}); r != invalidValue {
		t.Errorf("advice about nothing: %d", r)
	}
}
