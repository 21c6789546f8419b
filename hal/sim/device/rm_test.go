package device

import (
	"encoding/binary"
	"math/rand"
	"testing"
	"time"
)

// rm asks for something of the resource manager.
func (c *rawClient) rm(o op, a, b, cc, d uint64, text ...uint32) reply {
	c.t.Helper()
	q := request{Op: o, A: a, B: b, C: cc, D: d}
	for i, v := range text {
		binary.LittleEndian.PutUint32(q.Text[4*i:], v)
	}
	r, _ := c.call(q)
	return r
}

// must expects a handle.
func (c *rawClient) must(r reply) uint64 {
	c.t.Helper()
	if r.Result != success || r.A == 0 {
		c.t.Fatalf("status %#x, handle %#x", r.Result, r.A)
	}
	return r.A
}

// tree makes a client, a device, a subdevice, and a compute group of the context
// with its channels.
func (c *rawClient) tree() (root, sub, group uint64, channels []uint64) {
	c.t.Helper()
	root = c.must(c.rm(opRMAlloc, 0, 0, 0, rmClassRoot))
	dev := c.must(c.rm(opRMAlloc, root, root, 0, rmClassDevice))
	sub = c.must(c.rm(opRMAlloc, root, dev, 0, rmClassSubdevice))
	group = c.must(c.rm(opRMAlloc, root, dev, 0, rmClassGroup, uint32(c.ctx), 0, rmEngineGraphics))
	for range ringChannels {
		channels = append(channels, c.must(c.rm(opRMAlloc, root, group, 0, 0xc86f)))
	}
	return root, sub, group, channels
}

// hold takes channels off, or puts them back.
func (c *rawClient) hold(root, sub uint64, off bool, channels []uint64) rmStatus {
	c.t.Helper()
	how := uint64(0)
	if off {
		how = 1
	}
	var text []uint32
	for _, h := range channels {
		text = append(text, uint32(root), uint32(h))
	}
	return c.rm(opRMHold, root, sub, how, uint64(len(channels)), text...).Result
}

// What is taken off stands, also for the front end, until a release, or until nobody
// is left who could release it.
func TestChannelsStandUntilReleasedOrFreed(t *testing.T) {
	for name, release := range map[string]func(c *rawClient, root, sub, group uint64, channels []uint64) rmStatus{
		"released": func(c *rawClient, root, sub, _ uint64, channels []uint64) rmStatus {
			return c.hold(root, sub, false, channels)
		},
		"group freed": func(c *rawClient, root, _, group uint64, _ []uint64) rmStatus {
			return c.rm(opRMFree, root, group, 0, 0).Result
		},
		"client freed": func(c *rawClient, root, _, _ uint64, _ []uint64) rmStatus {
			return c.rm(opRMFree, root, root, 0, 0).Result
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, startDevice(t, Config{}))
			c.begin()
			root, sub, group, channels := c.tree()
			if s := c.hold(root, sub, true, channels); s != success {
				t.Fatalf("status %#x", s)
			}
			c.submit(entry{Verb: uint32(verbNop)})
			time.Sleep(20 * time.Millisecond)
			c.waitGet(0)
			if s := release(c, root, sub, group, channels); s != success {
				t.Fatalf("status %#x", s)
			}
			c.waitGet(1)
		})
	}
}

// A second name keeps a channel off when the first is freed.
func TestSecondNames(t *testing.T) {
	c := dial(t, startDevice(t, Config{}))
	c.begin()
	root, sub, _, channels := c.tree()
	second := c.must(c.rm(opRMDup, root, sub, 0, root<<32|channels[0]))
	if s := c.hold(root, sub, true, channels[:1]); s != success {
		t.Fatalf("status %#x", s)
	}
	if r := c.rm(opRMFree, root, channels[0], 0, 0); r.Result != success {
		t.Fatalf("status %#x", r.Result)
	}
	c.submit(entry{Verb: uint32(verbNop)})
	time.Sleep(20 * time.Millisecond)
	c.waitGet(0)
	if s := c.hold(root, sub, false, []uint64{second}); s != success {
		t.Fatalf("status %#x", s)
	}
	c.waitGet(1)
}

// Whatever two clients ask, with handles of their own, of each other and of nobody,
// the device answers and serves; and nothing is left of them.
func TestHostileObjects(t *testing.T) {
	socket := startDevice(t, Config{Devices: 2, Scale: 0.01})
	random := rand.New(rand.NewSource(3))
	for range 20 {
		a, b := dial(t, socket), dial(t, socket)
		a.begin()
		b.begin()
		handles := []uint64{0, 1, 1 << 40, 0xcaf00001}
		for _, c := range []*rawClient{a, b} {
			root, sub, group, channels := c.tree()
			handles = append(append(handles, root, sub, group, c.ctx), channels...)
		}
		some := func() uint64 { return handles[random.Intn(len(handles))] }
		classes := []uint64{rmClassRoot, rmClassDevice, rmClassSubdevice, rmClassGroup, 0xc86f, 0x90cc, 0}
		for range 300 {
			c := []*rawClient{a, b}[random.Intn(2)]
			o := opRMAlloc + op(random.Intn(int(opRMLook-opRMAlloc)+1))
			q := request{Op: o, Device: uint32(random.Intn(3)), A: some(), B: some(), C: some(), D: some()}
			switch o {
			case opRMAlloc:
				q.D = classes[random.Intn(len(classes))]
			case opRMDup:
				q.D |= some() << 32
			case opRMHold:
				q.C, q.D = uint64(random.Intn(3)), uint64(random.Intn(70))
			case opRMSlice:
				q.C = uint64(random.Intn(5000))
			}
			for i := range 64 {
				binary.LittleEndian.PutUint32(q.Text[8*i:], uint32(some()))
				binary.LittleEndian.PutUint32(q.Text[8*i+4:], uint32(some()))
			}
			if r, _ := c.call(q); (o == opRMAlloc || o == opRMDup) && r.Result == success {
				handles = append(handles, r.A)
			}
		}
		a.close()
		b.close()
	}
	c := dial(t, socket)
	c.well()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		root := c.must(c.rm(opRMAlloc, 0, 0, 0, rmClassRoot))
		if root == rmFirstClient { // the first is free again
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the first client is %#x: others' are left", root)
		}
		c.rm(opRMFree, root, root, 0, 0)
	}
}

// Objects below objects, as many as there may be, go at once.
func TestDeepObjects(t *testing.T) {
	c := dial(t, startDevice(t, Config{}))
	c.begin()
	root, _, _, _ := c.tree()
	parent, n := root, 0
	for ; ; n++ {
		r := c.rm(opRMAlloc, root, parent, 0, 0x90cc)
		if r.Result == rmNoResources {
			break
		}
		parent = c.must(r)
	}
	begun := time.Now()
	if r := c.rm(opRMFree, root, root, 0, 0); r.Result != success {
		t.Fatalf("status %#x", r.Result)
	}
	if took := time.Since(begun); n < 1000 || took > time.Minute {
		t.Errorf("%d objects below each other went in %v", n, took)
	}
	if r := c.rm(opRMLook, root, parent, 0, 0); r.Result != rmInvalidClient {
		t.Errorf("status %#x", r.Result)
	}
}
