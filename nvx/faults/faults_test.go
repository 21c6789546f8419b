package faults

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is one as the driver writes it.
func entry(kind byte, address uint64, access byte) []byte {
	e := make([]byte, entryBytes)
	e[entryType], e[entryAccess] = kind, access
	binary.LittleEndian.PutUint64(e[entryAddress:], address)
	binary.LittleEndian.PutUint64(e[entryTime:], 77)
	return e
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name  string
		entry []byte
		want  Event
		ok    bool
	}{
		{"read", entry(3, 0x1000, 1), Event{0x1000, Read, 77}, true},
		{"write", entry(3, 0x1000, 2), Event{0x1000, Write, 77}, true},
		{"atomic", entry(3, 0x2000, 3), Event{0x2000, Read | Write, 77}, true},
		{"prefetch", entry(3, 0x3000, 4), Event{0x3000, Read, 77}, true},
		{"invalid access", entry(3, 0x1000, 0), Event{}, false},
		{"access of the future", entry(3, 0x1000, 5), Event{}, false},
		{"migration", entry(2, 0x1000, 1), Event{}, false},
		{"fault of the CPU", entry(1, 0x1000, 1), Event{}, false},
		{"cut", entry(3, 0x1000, 1)[:entryBytes-1], Event{}, false},
		{"nothing", nil, Event{}, false},
	} {
		if have, ok := Decode(c.entry); ok != c.ok || ok && have != c.want {
			t.Errorf("%s: %+v, %v", c.name, have, ok)
		}
	}
}

func TestFold(t *testing.T) {
	const mib = 1 << 20
	f := NewFold([]Range{{16 * mib, 5 * mib}, {3 * mib, 4 * mib}, {40 * mib, 0}, {^uint64(0) - 10, 100}})
	if want := []Range{{3 * mib, 4 * mib}, {16 * mib, 5 * mib}}; !slices.Equal(f.Ranges(), want) {
		t.Fatalf("ranges %v", f.Ranges())
	}
	for _, e := range []Event{
		{Address: 3 * mib, Access: Read}, {Address: 3*mib + 4096, Access: Read},
		{Address: 7*mib - 1, Access: Write}, {Address: 20 * mib, Access: Write}, {Address: 20*mib + 5000, Access: Read},
		{Address: 7 * mib, Access: Read}, {Address: 2 * mib, Access: Read}, {Address: 21 * mib, Access: Read}, {Address: 0, Access: Write},
	} {
		f.Add(e)
	}
	want := []Block{
		{Range: 0, Base: 3 * mib, Bytes: 1 * mib, Access: Read, Faults: 2},
		{Range: 0, Base: 6 * mib, Bytes: 1 * mib, Access: Write, Faults: 1},
		{Range: 1, Base: 20 * mib, Bytes: 1 * mib, Access: Read | Write, Faults: 2},
	}
	if !slices.Equal(f.Blocks(), want) || f.Strangers() != 4 {
		t.Errorf("%+v, %d strangers", f.Blocks(), f.Strangers())
	}
}

// TestFoldIsTheNaiveOne compares with a look at every range and block.
func TestFoldIsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ranges []Range
		at := uint64(0)
		for range rapid.IntRange(0, 6).Draw(t, "ranges") {
			at += rapid.Uint64Range(0, 3*BlockBytes).Draw(t, "gap")
			n := rapid.Uint64Range(1, 5*BlockBytes).Draw(t, "bytes")
			ranges = append(ranges, Range{at, n})
			at += n
		}
		f := NewFold(ranges)
		type part struct {
			of   int
			base uint64
		}
		want, strangers := map[part]Access{}, uint64(0)
		for range rapid.IntRange(0, 50).Draw(t, "faults") {
			e := Event{Address: rapid.Uint64Range(0, at+BlockBytes).Draw(t, "address"), Access: Access(rapid.IntRange(1, 3).Draw(t, "access"))}
			f.Add(e)
			i := slices.IndexFunc(ranges, func(r Range) bool { return e.Address >= r.Base && e.Address < r.Base+r.Bytes })
			if i < 0 {
				strangers++
				continue
			}
			want[part{i, e.Address / BlockBytes}] |= e.Access
		}
		have := map[part]Access{}
		for _, b := range f.Blocks() {
			r := ranges[b.Range]
			if b.Base < r.Base || b.Bytes == 0 || b.Bytes > BlockBytes || b.Base+b.Bytes > r.Base+r.Bytes || b.Base/BlockBytes != (b.Base+b.Bytes-1)/BlockBytes {
				t.Fatalf("block %+v of %+v", b, r)
			}
			have[part{b.Range, b.Base / BlockBytes}] = b.Access
		}
		if !maps.Equal(have, want) || f.Strangers() != strangers {
			t.Fatalf("%v and %d strangers, want %v and %d", have, f.Strangers(), want, strangers)
		}
	})
}

// driver is the other side of a queue: it writes as the kernel's driver does.
type driver struct{ q *queue }

func (d driver) tell(entry []byte) {
	put, get := d.q.word(offPutBehind).Load()&d.q.mask, d.q.word(offGetBehind).Load()&d.q.mask
	if (get-put)&d.q.mask == 1 {
		at := d.q.control[offDropped+8*UvmEventTypeGpuFault:]
		binary.LittleEndian.PutUint64(at, binary.LittleEndian.Uint64(at)+1)
		return
	}
	copy(d.q.entries[put*entryBytes:], entry)
	put = (put + 1) & d.q.mask
	d.q.word(offPutAhead).Store(put)
	d.q.word(offPutBehind).Store(put)
}

func memory(entries int) *queue {
	return newQueue(make([]byte, controlBytes), make([]byte, entries*entryBytes))
}

func TestQueueGoesRoundAndCountsDrops(t *testing.T) {
	q := memory(8)
	d := driver{q}
	told, read := uint64(0), uint64(0)
	for round := range 5 {
		for range 3*round + 1 { // from the fourth round on more than there are places for
			told++
			d.tell(entry(3, told, 1))
		}
		n := q.drain(func(e []byte) {
			event, ok := Decode(e)
			if !ok || event.Address <= read {
				t.Fatalf("after %d comes %+v, %v", read, event, ok)
			}
			read = event.Address
		})
		if n != min(3*round+1, 7) {
			t.Errorf("round %d: %d entries", round, n)
		}
	}
	if q.dropped() != 3+6 || q.drain(func([]byte) {}) != 0 {
		t.Errorf("%d dropped", q.dropped())
	}
}

// TestQueueWhileItIsFilled reads beside a writer: every fault is read, in order, or
// counted as dropped.
func TestQueueWhileItIsFilled(t *testing.T) {
	const total = 20000
	q := memory(64)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range uint64(total) {
			driver{q}.tell(entry(3, i+1, 2))
		}
	})
	ended := make(chan struct{})
	go func() { writer.Wait(); close(ended) }()
	read, last := uint64(0), uint64(0)
	take := func(e []byte) {
		event, ok := Decode(e)
		if !ok || event.Address <= last {
			t.Fatalf("after %d comes %+v", last, event)
		}
		read, last = read+1, event.Address
	}
	for done := false; !done; {
		select {
		case <-ended:
			done = true
		default:
		}
		q.drain(take)
	}
	if read+q.dropped() != total {
		t.Errorf("%d read and %d dropped of %d", read, q.dropped(), total)
	}
}

// FuzzQueue: whatever lies in the control page and the entries, a drain ends, reads
// within the queue, and leaves indices within it.
func FuzzQueue(f *testing.F) {
	f.Add(uint32(3), uint32(0), []byte{3})
	f.Add(^uint32(0), uint32(8), entry(3, 0x1000, 1))
	f.Add(uint32(5), uint32(1<<31), entry(2, 0, 0))
	f.Fuzz(func(t *testing.T, put, get uint32, bytes []byte) {
		q := memory(8)
		for i := range q.entries {
			if len(bytes) > 0 {
				q.entries[i] = bytes[i%len(bytes)]
			}
		}
		q.word(offPutBehind).Store(put)
		q.word(offGetBehind).Store(get)
		fold := NewFold([]Range{{0, 1 << 40}})
		n := q.drain(func(e []byte) {
			if event, ok := Decode(e); ok {
				fold.Add(event)
			}
		})
		if n != int(put&7) || n > 0 && q.word(offGetBehind).Load() > 7 {
			t.Fatalf("%d read of an index of %d", n, put)
		}
		for _, b := range fold.Blocks() {
			if b.Bytes == 0 || b.Access == 0 || b.Faults > 7 {
				t.Fatalf("block %+v", b)
			}
		}
	})
}

// pretend is a System: two descriptors, of which one is no address space.
type pretend struct {
	spaces  []int
	err     error
	refuse  uint32
	q       *queue
	enabled uint64
	opened  []int
	flushed int
}

func (p *pretend) Spaces() ([]int, error) { return p.spaces, p.err }

func (p *pretend) OpenTools() (int, error) {
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.opened = append(p.opened, fd)
	return fd, err
}

func (p *pretend) Ioctl(fd int, request uint64, argument unsafe.Pointer) error {
	switch request {
	case UVM_TOOLS_INIT_EVENT_TRACKER_V2:
		a := (*UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS)(argument)
		if a.UvmFd == 4 || p.refuse != 0 {
			a.RmStatus = cmp.Or(p.refuse, 0x1f)
			return nil
		}
		at := func(address, n uint64) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n) }
		p.q = newQueue(at(a.ControlBuffer, controlBytes), at(a.QueueBuffer, a.QueueBufferSize*entryBytes))
	case UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS:
		p.enabled |= (*UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS_PARAMS)(argument).EventTypeFlags
	case UVM_TOOLS_EVENT_QUEUE_DISABLE_EVENTS:
		p.enabled &^= (*UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS_PARAMS)(argument).EventTypeFlags
	case UVM_TOOLS_FLUSH_EVENTS:
		if fd != 5 {
			return unix.EINVAL
		}
		p.flushed++
	default:
		return unix.EINVAL
	}
	return nil
}

func TestFeedFindsItsSpaceAndEndsClean(t *testing.T) {
	p := &pretend{spaces: []int{4, 5}}
	f, err := Open(p, 16)
	if err != nil {
		t.Fatal(err)
	}
	if p.enabled != 1<<UvmEventTypeGpuFault {
		t.Errorf("events %#x", p.enabled)
	}
	driver{p.q}.tell(entry(2, 1, 1))
	driver{p.q}.tell(entry(3, 0x5000, 2))
	f.Flush()
	if p.flushed != 1 {
		t.Errorf("%d flushes reached the process's own file", p.flushed)
	}
	var seen []Event
	if n := f.Drain(func(e Event) { seen = append(seen, e) }); n != 2 || !slices.Equal(seen, []Event{{0x5000, Write, 77}}) || f.Dropped() != 0 {
		t.Errorf("%d: %+v", n, seen)
	}
	f.Close()
	f.Close()
	if f.Drain(func(Event) {}) != 0 || f.Dropped() != 0 || p.enabled != 0 {
		t.Error("a closed feed goes on")
	}
	for _, fd := range p.opened {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("descriptor %d is left open", fd)
		}
	}
}

func TestFeedThatIsNotToBeHad(t *testing.T) {
	var status *StatusError
	for name, c := range map[string]struct {
		p       *pretend
		entries int
		have    error
	}{
		"no driver":       {&pretend{}, 16, ErrUnavailable},
		"no look":         {&pretend{err: os.ErrPermission}, 16, os.ErrPermission},
		"refused":         {&pretend{spaces: []int{5}, refuse: 0x1b}, 16, ErrUnavailable},
		"only the second": {&pretend{spaces: []int{4}}, 16, ErrUnavailable},
	} {
		_, err := Open(c.p, c.entries)
		if !errors.Is(err, c.have) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if c.p.refuse != 0 && (!errors.As(err, &status) || status.Status != c.p.refuse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, entries := range []int{-1, 1, 3, 1 << 21} {
		if _, err := Open(&pretend{spaces: []int{5}}, entries); err == nil || errors.Is(err, ErrUnavailable) {
			t.Errorf("%d entries: %v", entries, err)
		}
	}
}

func TestKernelWithoutADriver(t *testing.T) {
	if _, err := os.Stat(toolsPath); err == nil {
		t.Skip("this machine has the driver")
	}
	if _, err := Open(SystemOf(func(string) uintptr { return 0 }), 16); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if _, err := (Kernel{}).OpenTools(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestLayoutIsTheSimulatorsHeader asks the C compiler about what the simulated driver
// answers to.
func TestLayoutIsTheSimulatorsHeader(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no C compiler on this machine")
	}
	var tracker UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS
	var events UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS_PARAMS
	var flush UVM_TOOLS_FLUSH_EVENTS_PARAMS
	const one, two, three = "struct UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS", "struct UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS_PARAMS", "struct UVM_TOOLS_FLUSH_EVENTS_PARAMS"
	var asserts strings.Builder
	asserts.WriteString("#include <stddef.h>\n#include \"uvm.h\"\n")
	for text, want := range map[string]uintptr{
		"sizeof(" + one + ")":                    unsafe.Sizeof(tracker),
		"offsetof(" + one + ", queueBufferSize)": unsafe.Offsetof(tracker.QueueBufferSize),
		"offsetof(" + one + ", controlBuffer)":   unsafe.Offsetof(tracker.ControlBuffer),
		"offsetof(" + one + ", processor)":       unsafe.Offsetof(tracker.Processor),
		"offsetof(" + one + ", allProcessors)":   unsafe.Offsetof(tracker.AllProcessors),
		"offsetof(" + one + ", uvmFd)":           unsafe.Offsetof(tracker.UvmFd),
		"offsetof(" + one + ", rmStatus)":        unsafe.Offsetof(tracker.RmStatus),
		"sizeof(" + two + ")":                    unsafe.Sizeof(events),
		"offsetof(" + two + ", rmStatus)":        unsafe.Offsetof(events.RmStatus),
		"sizeof(" + three + ")":                  unsafe.Sizeof(flush),
		"UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS":    UVM_TOOLS_EVENT_QUEUE_ENABLE_EVENTS,
		"UVM_TOOLS_EVENT_QUEUE_DISABLE_EVENTS":   UVM_TOOLS_EVENT_QUEUE_DISABLE_EVENTS,
		"UVM_TOOLS_FLUSH_EVENTS":                 UVM_TOOLS_FLUSH_EVENTS,
		"UVM_TOOLS_INIT_EVENT_TRACKER_V2":        UVM_TOOLS_INIT_EVENT_TRACKER_V2,
	} {
		asserts.WriteString("_Static_assert(" + text + " == " + fmt.Sprint(want) + ", \"" + strings.ReplaceAll(text, "\"", "") + "\");\n")
	}
	src := filepath.Join(t.TempDir(), "layout.c")
	if err := os.WriteFile(src, []byte(asserts.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-std=c11", "-I", "../../hal/sim/libcuda", "-fsyntax-only", src).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
