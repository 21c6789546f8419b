package device

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

// TestWireIsTheHeader compares every offset with protocol.h, as gcc sees it.
func TestWireIsTheHeader(t *testing.T) {
	var e entry
	var q request
	var r reply
	want := []struct {
		c string
		n uintptr
	}{
		{"sizeof(struct sim_entry)", entryBytes},
		{"sizeof(struct sim_entry)", unsafe.Sizeof(e)},
		{"offsetof(struct sim_entry, kind)", unsafe.Offsetof(e.Kind)},
		{"offsetof(struct sim_entry, flags)", unsafe.Offsetof(e.Flags)},
		{"offsetof(struct sim_entry, kernel)", unsafe.Offsetof(e.Kernel)},
		{"offsetof(struct sim_entry, a)", unsafe.Offsetof(e.A)},
		{"offsetof(struct sim_entry, b)", unsafe.Offsetof(e.B)},
		{"offsetof(struct sim_entry, c)", unsafe.Offsetof(e.C)},
		{"offsetof(struct sim_entry, submitted)", unsafe.Offsetof(e.Submitted)},
		{"offsetof(struct sim_entry, grid)", unsafe.Offsetof(e.Grid)},
		{"offsetof(struct sim_entry, block)", unsafe.Offsetof(e.Block)},
		{"offsetof(struct sim_entry, shared)", unsafe.Offsetof(e.Shared)},
		{"offsetof(struct sim_entry, arg_bytes)", unsafe.Offsetof(e.ArgBytes)},
		{"offsetof(struct sim_entry, args)", unsafe.Offsetof(e.Args)},
		{"SIM_ARGS", ringArgs},
		{"sizeof(struct sim_request)", unsafe.Sizeof(q)},
		{"offsetof(struct sim_request, a)", unsafe.Offsetof(q.A)},
		{"offsetof(struct sim_request, d)", unsafe.Offsetof(q.D)},
		{"offsetof(struct sim_request, text)", unsafe.Offsetof(q.Text)},
		{"sizeof(struct sim_reply)", unsafe.Sizeof(r)},
		{"offsetof(struct sim_reply, a)", unsafe.Offsetof(r.A)},
		{"offsetof(struct sim_reply, uuid)", unsafe.Offsetof(r.UUID)},
		{"offsetof(struct sim_reply, text)", unsafe.Offsetof(r.Text)},
		{"sizeof(struct sim_context)", sharedBytes},
		{"offsetof(struct sim_context, error)", offError},
		{"offsetof(struct sim_context, asleep)", offAsleep},
		{"offsetof(struct sim_context, rings)", offRings},
		{"offsetof(struct sim_context, stamps)", offStamps},
		{"offsetof(struct sim_context, entries)", offEntries},
		{"sizeof(struct sim_ring)", ringBytes},
		{"offsetof(struct sim_ring, waiting)", ringWaiting},
		{"offsetof(struct sim_ring, get)", ringGet},
		{"SIM_MAGIC", wireMagic},
		{"SIM_VERSION", wireVersion},
		{"SIM_CHANNELS", ringChannels},
		{"SIM_ENTRIES", ringEntries},
		{"SIM_EVENTS", eventSlots},
		{"SIM_NAME", nameBytes},
		{"SIM_TEXT", textBytes},
		{"SIM_DEVICES", mostDevices},
		{"SIM_ACCESS", uintptr(opAccess)},
		{"SIM_RM_ALLOC", uintptr(opRMAlloc)},
		{"SIM_RM_HOLD", uintptr(opRMHold)},
		{"SIM_RM_LOOK", uintptr(opRMLook)},
		{"SIM_PHYS_CREATE", uintptr(opPhysCreate)},
		{"SIM_MAP_ACCESS", uintptr(opMapAccess)},
		{"sizeof(struct sim_phys)", unsafe.Sizeof(physical{}.props)},
		{"sizeof(struct sim_rm_for)", 16},
		{"offsetof(struct sim_rm_for, engine)", 8},
		{"offsetof(struct sim_rm_for, device)", 12},
		{"offsetof(struct sim_request, device)", unsafe.Offsetof(q.Device)},
		{"SIM_HELLO", uintptr(opHello)},
		{"SIM_MEM_INFO", uintptr(opMemInfo)},
		{"SIM_LAUNCH", uintptr(verbLaunch)},
		{"SIM_EVENT", uintptr(verbEvent)},
		{"SIM_LOOSE", copyLoose},
		{"SIM_COPY_ROWS", uintptr(verbCopyRows)},
		{"SIM_FILL_ROWS", uintptr(verbFillRows)},
		{"SIM_PREFETCH", uintptr(verbPrefetch)},
		{"SIM_MANAGED_ALLOC", uintptr(opManagedAlloc)},
		{"SIM_MANAGED_ADVISE", uintptr(opManagedAdvise)},
		{"SIM_TOOLS_BEGIN", uintptr(opToolsBegin)},
		{"SIM_TOOLS_EVENTS", uintptr(opToolsEvents)},
		{"SIM_TOOLS_FLUSH", uintptr(opToolsFlush)},
		{"sizeof(struct sim_rows)", unsafe.Sizeof(rows{})},
		{"offsetof(struct sim_rows, dst_slice)", unsafe.Offsetof(rows{}.DstSlice)},
		{"offsetof(struct sim_rows, src_pitch)", unsafe.Offsetof(rows{}.SrcPitch)},
	}
	var src strings.Builder
	src.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include \"protocol.h\"\nint main(void){\n")
	var expect strings.Builder
	for _, w := range want {
		fmt.Fprintf(&src, "printf(\"%%s %%zu\\n\", %q, (size_t)(%s));\n", w.c, w.c)
		fmt.Fprintf(&expect, "%s %d\n", w.c, w.n)
	}
	src.WriteString("return 0;}\n")
	dir := t.TempDir()
	file, bin := filepath.Join(dir, "w.c"), filepath.Join(dir, "w")
	if err := os.WriteFile(file, []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-I../libcuda", "-o", bin, file).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	got, err := exec.Command(bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != expect.String() {
		t.Errorf("header and Go differ:\n%s\nwant\n%s", got, expect.String())
	}
}

func TestSatisfied(t *testing.T) {
	for _, c := range []struct {
		how         uint32
		word, value uint64
		bits        uint
		want        bool
	}{
		{waitGeq, 5, 5, 32, true},
		{waitGeq, 4, 5, 32, false},
		{waitGeq, 1, 0xffffffff, 32, true}, // cyclic
		{waitGeq, 0x7fffffff, 0xffffffff, 32, false},
		{waitGeq, 1, 1<<64 - 1, 64, true},
		{waitEq, 7, 7, 32, true},
		{waitEq, 7, 6, 32, false},
		{waitAnd, 6, 2, 32, true},
		{waitAnd, 6, 1, 32, false},
		{waitNor, 0, 1, 32, true},
		{waitNor, 0xfffffff0, 0xf, 32, false},
		{waitNor, 1<<64 - 1, 0, 64, false},
		{waitNor, 1<<64 - 2, 0, 64, true},
	} {
		if got := satisfied(c.how, c.word, c.value, c.bits); got != c.want {
			t.Errorf("satisfied(%d, %#x, %#x, %d) = %v", c.how, c.word, c.value, c.bits, got)
		}
	}
}

// FuzzEntry: whatever a ring holds is refused, or can be costed and run against
// an address space where nothing is mapped.
func FuzzEntry(f *testing.F) {
	seed := entry{Verb: uint32(verbLaunch), Kernel: 1, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, ArgBytes: 16}
	f.Add((*[entryBytes]byte)(unsafe.Pointer(&seed))[:])
	seed = entry{Verb: uint32(verbCopy), A: 1, B: 2, C: 1 << 63}
	f.Add((*[entryBytes]byte)(unsafe.Pointer(&seed))[:])
	seed = entry{Verb: uint32(verbFill), Kind: 4, A: ^uint64(0), C: 1 << 47}
	f.Add((*[entryBytes]byte)(unsafe.Pointer(&seed))[:])
	seed = entry{Verb: uint32(verbWait), Kind: 8, Flags: 3, A: 8}
	f.Add((*[entryBytes]byte)(unsafe.Pointer(&seed))[:])
	seed = rowsEntry(verbCopyRows, 100, rows{3, 2, 128, 512, 100, 300})
	f.Add((*[entryBytes]byte)(unsafe.Pointer(&seed))[:])
	seed = rowsEntry(verbFillRows, 1<<40, rows{Height: 1 << 60, Depth: 16, DstPitch: 1 << 42})
	seed.Kind = 4
	f.Add((*[entryBytes]byte)(unsafe.Pointer(&seed))[:])
	d, err := newDevice(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { closeDescriptor(d.pokeFD) })
	ch := &channel{ctx: &gpuContext{owner: &client{space: &space{}}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		raw := make([]byte, entryBytes)
		copy(raw, b)
		cmd := &command{ch: ch, entry: readEntry(raw, 0)}
		if cmd.entry.check() != nil {
			return
		}
		if mc := d.modelCommand(cmd); mc.Work < 0 {
			t.Fatalf("command of %v", mc.Work)
		}
		_ = cmd.size()
		if err := cmd.run(); err == nil && touches(cmd) {
			t.Fatalf("ran where nothing is mapped: %+v", cmd.entry)
		}
	})
}

// touches tells whether a command must look at memory.
func touches(cmd *command) bool {
	switch verb(cmd.entry.Verb) {
	case verbCopy, verbFill, verbCopyRows, verbFillRows:
		return cmd.size() > 0
	case verbWrite:
		return true
	}
	return false
}
