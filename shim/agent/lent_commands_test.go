package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// lentCommands is the preload library's struct xm_commands in this process, as
// lentTable is its struct xm_memory.
type lentCommands uintptr

// Functions of struct xm_commands by their place in it; testdata/host.c checks.
const (
	fnRecord = iota
	fnTake
	fnDropped
	fnKernel
	fnGraph
	fnRanges
)

func (l lentCommands) count(fn int, args ...uintptr) (int, error) {
	n := int32(lentTable(l).call(fn, args...))
	if n < 0 {
		return 0, syscall.Errno(-n)
	}
	return int(n), nil
}

func (l lentCommands) filled(fn int, buf []byte, before, after []uintptr) (int, error) {
	args := append(append(before, uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf))), after...)
	n, err := l.count(fn, args...)
	runtime.KeepAlive(buf)
	return n, err
}

func (l lentCommands) Record(on bool) bool {
	var word uintptr
	if on {
		word = 1
	}
	was, _ := l.count(fnRecord, word)
	return was != 0
}

func (l lentCommands) Take(buf []byte) ([]byte, error) {
	n, err := l.filled(fnTake, buf, nil, nil)
	return buf[:n], err
}

func (l lentCommands) Dropped() uint64 { return uint64(lentTable(l).call(fnDropped)) }

func (l lentCommands) Kernel(id uint32) (Kernel, error) {
	buf := make([]byte, kernelBytes)
	_, err := l.count(fnKernel, uintptr(id), uintptr(unsafe.Pointer(&buf[0])))
	if err != nil {
		return Kernel{}, err
	}
	return DecodeKernel(buf)
}

func (l lentCommands) Graph(id uint64, buf []byte) (records []byte, version uint64, err error) {
	records, err = Grow(buf, func(buf []byte) (int, error) {
		return l.filled(fnGraph, buf, []uintptr{uintptr(id)}, []uintptr{uintptr(unsafe.Pointer(&version))})
	})
	return records, version, err
}

func (l lentCommands) Ranges(buf []byte) ([]byte, error) {
	return Grow(buf, func(buf []byte) (int, error) { return l.filled(fnRanges, buf, nil, nil) })
}

func TestCommandsUnderTheLibrary(t *testing.T) { underLibrary(t, "TestInnerCommandsUnderTheLibrary") }

// TestInnerCommandsUnderTheLibrary reads what a program of managed memory does.
func TestInnerCommandsUnderTheLibrary(t *testing.T) {
	g := govern(t)
	var commands Commands = lentCommands(g.commands)
	device, err := g.driver.Device(0)
	g.must(err)
	own, err := g.driver.PrimaryContext(device)
	g.must(err)
	g.must(own.SetCurrent())
	module, err := g.driver.LoadModule(kernels.PTX())
	g.must(err)
	increment, err := module.Function("xm_increment")
	g.must(err)
	stream, err := g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING))
	g.must(err)
	small, err := g.driver.MemAlloc(4096)
	g.must(err)

	if commands.Record(true) {
		t.Error("recording was on to begin with")
	}
	data, err := g.driver.MemAlloc(1 << 20)
	g.must(err)
	args, err := cuda.NewLaunchArgs(data, uint32(1<<18))
	g.must(err)
	g.must(g.driver.MemsetD32Async(data, 7, 1<<18, stream))
	g.must(g.driver.Launch(increment, [3]uint32{64, 1, 1}, [3]uint32{128, 1, 1}, 0, stream, args))
	host := make([]byte, 1<<20)
	g.must(g.driver.MemcpyDtoH(host, data))
	ranges, err := commands.Ranges(nil)
	g.must(err)
	if got := allocated(t, ranges); got[uint64(small)] != 4096 || got[uint64(data)] != 1<<20 || len(got) != 2 {
		t.Errorf("ranges %v, want %#x and %#x", got, small, data)
	}
	g.must(g.driver.MemFree(data))
	if !commands.Record(false) {
		t.Error("recording is off")
	}

	buf := make([]byte, 1<<16)
	if _, err := commands.Take(buf[:100]); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a buffer of 100 bytes: %v", err)
	}
	records, err := commands.Take(buf)
	g.must(err)
	var seen []Command
	for len(records) > 0 {
		var c Command
		c, records, err = NextCommand(records)
		g.must(err)
		if c.Section != 0 || len(seen) > 0 && c.At < seen[len(seen)-1].At {
			t.Errorf("record %+v after %+v", c, seen)
		}
		seen = append(seen, c)
	}
	if len(seen) != 5 || commands.Dropped() != 0 {
		t.Fatalf("%d records, %d dropped: %+v", len(seen), commands.Dropped(), seen)
	}
	if r, ok := seen[0].Range(); seen[0].Kind != CommandAlloc || !ok || r.Base != uint64(data) || r.Bytes != 1<<20 {
		t.Errorf("allocation %+v", seen[0])
	}
	if f, ok := seen[1].Fill(); !ok || f != (Fill{uint64(data), 1 << 20, 1, 1 << 20}) || seen[1].Sequence != 1 || seen[1].Queue < 1 {
		t.Errorf("fill %+v of %+v", f, seen[1])
	}
	launch := seen[2]
	want := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, uint64(data)), 1<<18)
	if launch.Kind != CommandKernel || launch.Grid != [3]uint32{64, 1, 1} || launch.Block != [3]uint32{128, 1, 1} || launch.Sequence != 2 ||
		launch.Queue != seen[1].Queue || !bytes.Equal(launch.Parameters(), want) || launch.AppendTensorMaps(nil) != nil {
		t.Errorf("launch %+v", launch)
	}
	k, err := commands.Kernel(launch.Kernel)
	g.must(err)
	if k.Name != "xm_increment" || k.Code == [2]uint64{} || !k.Layout || k.More || k.Bytes != 12 || len(k.Parameters) != 2 || k.Parameters[1] != (Parameter{8, 4}) {
		t.Errorf("kernel %+v", k)
	}
	if _, err := commands.Kernel(launch.Kernel + 1); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a kernel that is not: %v", err)
	}
	if _, _, err := commands.Graph(1, nil); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a graph that is not: %v", err)
	}
	if c, ok := seen[3].Copy(); !ok || c.From != uint64(data) || c.Width != 1<<20 || seen[3].Flags != CommandToHost {
		t.Errorf("copy %+v of %+v", c, seen[3])
	}
	if r, ok := seen[4].Range(); seen[4].Kind != CommandFree || !ok || r.Base != uint64(data) || r.Bytes != 1<<20 {
		t.Errorf("free %+v", seen[4])
	}
}

// allocated is the size of every range by its address.
func allocated(t *testing.T, records []byte) map[uint64]uint64 {
	t.Helper()
	all := map[uint64]uint64{}
	for len(records) > 0 {
		c, rest, err := NextCommand(records)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := c.Range()
		if c.Kind != CommandAlloc || !ok {
			t.Fatalf("range %+v", c)
		}
		all[r.Base] = r.Bytes
		records = rest
	}
	return all
}

// record is one with a payload of that many words.
func record(kind CommandKind, words ...uint64) []byte {
	b := make([]byte, commandHead)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint16(b[4:], uint16(kind))
	binary.LittleEndian.PutUint32(b[60:], uint32(8*len(words)))
	return b
}

func TestNextCommandReadsMaps(t *testing.T) {
	words := []uint64{42}
	for i := range uint64(12) {
		words = append(words, 100+i)
	}
	b := record(CommandKernel, words...)
	binary.LittleEndian.PutUint32(b[68:], 1)
	b = append(b, record(CommandGraph, 5, 6)...)
	c, rest, err := NextCommand(b)
	if err != nil {
		t.Fatal(err)
	}
	maps := c.AppendTensorMaps(nil)
	if len(c.Parameters()) != 8 || len(maps) != 1 || maps[0].Address != 100 || maps[0].Dims[4] != 105 || maps[0].Strides[3] != 109 ||
		maps[0].Offset != 110 || maps[0].Rank != 0 || maps[0].Type != 111 {
		t.Errorf("%+v of %+v", maps, c)
	}
	if c, rest, err = NextCommand(rest); err != nil || len(rest) != 0 {
		t.Fatal(err)
	}
	if id, version, ok := c.GraphLaunch(); !ok || id != 5 || version != 6 {
		t.Errorf("graph %d %d %v", id, version, ok)
	}
	if _, ok := c.Copy(); ok {
		t.Error("a graph's launch is a copy")
	}
}

func TestNextCommandRefusesNonsense(t *testing.T) {
	for what, change := range map[string]func(b []byte) []byte{
		"nothing":            func([]byte) []byte { return nil },
		"half a head":        func(b []byte) []byte { return b[:40] },
		"a short record":     func(b []byte) []byte { return b[:len(b)-1] },
		"no size":            func(b []byte) []byte { b[0] = 0; return b },
		"an odd size":        func(b []byte) []byte { b[0]++; return b },
		"a larger payload":   func(b []byte) []byte { b[60] = 17; return b },
		"maps without bytes": func(b []byte) []byte { b[68] = 1; return b },
		"many maps":          func(b []byte) []byte { copy(b[68:], "\xff\xff\xff\xff"); return b },
	} {
		if c, _, err := NextCommand(change(record(CommandKernel, 1, 2))); !errors.Is(err, errRecord) {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
	}
	if _, err := DecodeKernel(make([]byte, kernelBytes-1)); !errors.Is(err, errRecord) {
		t.Errorf("a short kernel: %v", err)
	}
	long := make([]byte, kernelBytes)
	long[29] = 4
	if _, err := DecodeKernel(long); !errors.Is(err, errRecord) || !strings.Contains(err.Error(), "1024") {
		t.Errorf("a name beyond its field: %v", err)
	}
}

func FuzzNextCommand(f *testing.F) {
	f.Add(record(CommandKernel, 1, 2, 3))
	f.Add(append(record(CommandCopy, 1, 2, 3, 4, 5, 6, 7, 8, 9), record(CommandFree, 1, 2, 3)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			c, rest, err := NextCommand(b)
			if err != nil {
				return
			}
			if len(rest) >= len(b) {
				t.Fatal("nothing was read")
			}
			c.Parameters()
			c.AppendTensorMaps(nil)
			c.Copy()
			c.Fill()
			c.Range()
			c.GraphLaunch()
			b = rest
		}
	})
}

func TestGrowGivesUp(t *testing.T) {
	if _, err := Grow(nil, func(b []byte) (int, error) { return len(b) + 1 + len(b)/2, nil }); !errors.Is(err, errGrows) {
		t.Errorf("what always grows: %v", err)
	}
	if b, err := Grow(make([]byte, 10), func(b []byte) (int, error) { return 3, nil }); err != nil || len(b) != 3 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
