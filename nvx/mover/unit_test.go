package mover

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"xmsched/hal/cuda/abi"
	"xmsched/memory"
)

func TestWhatIsNeeded(t *testing.T) {
	const gib = memory.GiB
	for _, c := range []struct {
		resident, host, target memory.Bytes
		want                   need
	}{
		{4 * gib, 0, 8 * gib, nothing},
		{4 * gib, 0, 4 * gib, nothing},
		{4 * gib, 0, 4*gib - 1, goOut},
		{4 * gib, gib, 4*gib + 64*memory.MiB, nothing}, // not worth a batch
		{4 * gib, gib, 4*gib + 128*memory.MiB, comeIn},
		{4 * gib, 2 * memory.MiB, 4*gib + 2*memory.MiB, comeIn}, // all the rest
		{0, gib, memory.MaxBytes, comeIn},
	} {
		if have := needs(Figures{c.resident, c.host}, c.target); have != c.want {
			t.Errorf("%+v: %d", c, have)
		}
	}
}

// TestFirstMadeStaysLongest holds the order in which memory goes: never used by a
// copy and made last first, used last last.
func TestFirstMadeStaysLongest(t *testing.T) {
	var o byUse
	o.reset([]memory.Segment{
		{ID: 1, Allocation: 1, Address: 0}, {ID: 2, Allocation: 1, Address: 32}, {ID: 3, Allocation: 2, Address: 64},
		{ID: 4, Allocation: 3, Address: 96, Used: 7}, {ID: 5, Allocation: 4, Address: 128, Used: 5},
	})
	if have := slices.Collect(o.Victims(0)); !slices.Equal(have, []memory.ID{3, 2, 1, 5, 4}) {
		t.Errorf("%v", have)
	}
}

func TestMeaningOfFailures(t *testing.T) {
	for _, c := range []struct {
		act  memory.Act
		err  error
		want error
	}{
		{memory.Reserve, abi.CUDA_ERROR_OUT_OF_MEMORY, memory.ErrHostMemory},
		{memory.Reserve, syscall.ENOMEM, memory.ErrHostMemory},
		{memory.Unmap, syscall.EBUSY, memory.ErrHostMemory},
		{memory.Map, syscall.ENOSPC, memory.ErrDeviceMemory},
		{memory.Map, abi.CUDA_ERROR_OUT_OF_MEMORY, memory.ErrDeviceMemory},
		{memory.Map, abi.CUDA_ERROR_INVALID_VALUE, memory.ErrMap},
		{memory.CopyIn, abi.CUDA_ERROR_OUT_OF_MEMORY, memory.ErrCopy},
		{memory.Commit, syscall.EINVAL, memory.ErrMap},
		{memory.Unmap, syscall.EPERM, errLost},
		{memory.CopyOut, syscall.EPERM, errLost}, // its slot was asked for
		{memory.Reserve, syscall.ENODEV, errLost},
	} {
		if have := meaning(c.act, c.err); !errors.Is(have, c.want) || c.want != errLost && !errors.Is(have, c.err) {
			t.Errorf("%s, %v: %v, want %v", c.act, c.err, have, c.want)
		}
	}
}

// TestGroupsBoundHostMemory reads the limits of a tree of control groups.
func TestGroupsBoundHostMemory(t *testing.T) {
	root := t.TempDir()
	write := func(at, limit, used string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Join(root, at), 0o755),
			os.WriteFile(filepath.Join(root, at, "memory.max"), []byte(limit+"\n"), 0o644),
			os.WriteFile(filepath.Join(root, at, "memory.current"), []byte(used+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "1000", "900")
	write("a/b", "max", "500")
	write("a/b/c", "400", "100")
	for at, want := range map[string][2]memory.Bytes{
		"/":      {0, 0},
		"/a":     {1000, 900},
		"/a/b/c": {1000, 900}, // 100 are left above, 300 here
	} {
		if limit, used := group(root, at); limit != want[0] || used != want[1] {
			t.Errorf("%s: %d, %d", at, limit, used)
		}
	}
	if at := own([]byte("1:cpu:/x\n0::/a/../b\n")); at != "/b" {
		t.Errorf("own group %q", at)
	}
	if b := available([]byte("MemTotal: 9 kB\nMemAvailable:   12345 kB\n")); b != 12345*memory.KiB {
		t.Errorf("available %s", b)
	}
	if f := HostMemory(); f.Available <= 0 {
		t.Errorf("this machine: %+v", f)
	}
}

// slotMaker is a Memory of which only what makes slots is used.
type slotMaker struct {
	Memory
	list  []memory.Segment
	made  map[memory.Bytes]int
	all   memory.Bytes
	kept  memory.Bytes // of all: clean copies
	taken time.Duration
	clock *time.Duration
}

func (m *slotMaker) List(int, []memory.Segment) ([]memory.Segment, error) { return m.list, nil }
func (m *slotMaker) Pool(int) (memory.Bytes, memory.Bytes, error)         { return m.all, m.all - m.kept, nil }

func (m *slotMaker) Forgo(_ int, keep memory.Bytes) (memory.Bytes, error) {
	m.kept = min(m.kept, keep)
	return m.kept, nil
}

func (m *slotMaker) Slots(_, count int, size memory.Bytes) error {
	for ; m.made[size] < count; m.made[size]++ {
		m.all += size
		*m.clock += m.taken
	}
	return nil
}

func (m *slotMaker) Trim(_ int, keep memory.Bytes) error {
	m.all = m.kept + keep
	return nil
}

// TestHostMemoryAhead makes slots for what is on the device and may move, one at a
// time, the large ones first; with pauses when it is to be gentle; and gives back
// what is more than allowed.
func TestHostMemoryAhead(t *testing.T) {
	const mib = memory.MiB
	var now time.Duration
	m := &slotMaker{
		list: []memory.Segment{
			{ID: 1, Bytes: 2 * mib}, {ID: 2, Bytes: 32 * mib}, {ID: 3, Bytes: 32 * mib},
			{ID: 4, Bytes: 32 * mib, State: memory.Host}, {ID: 5, Bytes: 8 * mib, Pin: memory.Asked},
			{ID: 6, Bytes: 32 * mib, Kept: true}, // has one
		},
		made: map[memory.Bytes]int{}, taken: 7 * time.Millisecond, clock: &now,
	}
	k := stock{
		host: func() memory.HostFigures { return memory.HostFigures{Available: 8 * memory.GiB} },
		now:  func() time.Duration { return now },
	}
	p, f := newPlanner(), Figures{Resident: 74 * mib, Host: 32 * mib}
	steps := 0
	for ; ; steps++ {
		gentle := steps%2 == 1
		before := m.all
		d, err := k.step(m, 0, Orders{Gentle: gentle}, f, p)
		if err != nil || steps > 10 {
			t.Fatal(steps, err)
		}
		if d < 0 {
			break
		}
		if m.all-before > 32*mib || gentle != (d == gentleness*7*time.Millisecond) {
			t.Errorf("step %d: %s more, pause %v", steps, m.all-before, d)
		}
	}
	if steps != 3 || m.made[32*mib] != 2 || m.made[2*mib] != 1 || m.made[8*mib] != 0 {
		t.Errorf("%d steps, made %v", steps, m.made)
	}
	if _, err := k.step(m, 0, Orders{Host: 40 * mib}, f, p); err != nil || m.all != 40*mib {
		t.Errorf("%s kept of 40 MiB allowed: %v", m.all, err)
	}
	if err := k.room(m, 0, 48*mib, Orders{Host: 40 * mib}); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("8 MiB beyond what is allowed: %v", err)
	}
	if err := k.room(m, 0, 40*mib, Orders{Host: 40 * mib}); err != nil {
		t.Errorf("what is there: %v", err)
	}
	m.kept = 24 * mib
	if err := k.room(m, 0, 32*mib, Orders{Host: 40 * mib}); err != nil || m.kept != 8*mib {
		t.Errorf("16 MiB are free, for 32 clean copies are given up: %v, %s kept", err, m.kept)
	}
	m.kept = 24 * mib
	if err := k.room(m, 0, 32*mib, Orders{Host: 80 * mib, Gentle: true}); err != nil || m.kept != 8*mib {
		t.Errorf("clean copies are not given up before more is made, where somebody must not wait: %v, %s kept", err, m.kept)
	}
	if err := k.room(m, 0, 48*mib, Orders{Host: 80 * mib, Gentle: true}); err != nil || m.kept != 0 {
		t.Errorf("more than there is, of what may be: %v, %s kept", err, m.kept)
	}
	m.kept = 24 * mib
	if _, err := k.step(m, 0, Orders{Host: 20 * mib}, f, p); err != nil || m.all != 20*mib || m.kept != 20*mib {
		t.Errorf("%s, %s of clean copies kept of 20 MiB allowed: %v", m.all, m.kept, err)
	}
}
