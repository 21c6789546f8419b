package conformance

import (
	"fmt"

	"xmsched/hal/cuda/abi"
)

const mib = 1 << 20

// physical makes n bytes of pinned memory that can be mapped.
func (t *transcript) physical(where abi.MemLocationType, n uintptr) uintptr {
	var p abi.CUmemAllocationProp
	p.Type = abi.CU_MEM_ALLOCATION_TYPE_PINNED
	p.Location.Type = where
	h := uintptr(0)
	t.must("cuMemCreate", ptr(&h), n, ptr(&p), 0)
	return h
}

// mappedParts asks how much of a handle can be mapped. The documentation allows a
// size below the handle's, and no offset; for a part of the host's memory the H200
// was seen to say that it is not supported.
func mappedParts(t *transcript) {
	if !t.context() {
		return
	}
	at := uintptr(0)
	if !t.must("cuMemAddressReserve", ptr(&at), 8*mib, 0, 0, 0) {
		return
	}
	for _, of := range []struct {
		name  string
		where abi.MemLocationType
	}{{"device memory", abi.CU_MEM_LOCATION_TYPE_DEVICE}, {"host memory", abi.CU_MEM_LOCATION_TYPE_HOST_NUMA}} {
		t.section("4 MiB of " + of.name)
		h := t.physical(of.where, 4*mib)
		for _, part := range []struct{ size, offset uintptr }{{2, 0}, {2, 2}, {4, 2}, {6, 0}, {4, 0}} {
			r := t.call("cuMemMap", fmt.Sprintf("at, %d MiB, %d MiB, h, 0", part.size, part.offset), at, part.size*mib, part.offset*mib, h, 0)
			if r == abi.CUDA_SUCCESS && part.size != 4 {
				t.must("cuMemUnmap", at, part.size*mib)
			}
		}
		t.call("cuMemMap", "at, 2 MiB, 0, h, 0: where it is mapped", at, 2*mib, 0, h, 0)
		t.call("cuMemMap", "at + 4 MiB, 4 MiB, 0, h, 0: a second time", at+4*mib, 4*mib, 0, h, 0)
		t.call("cuMemUnmap", "at, 2 MiB", at, 2*mib)
		t.call("cuMemUnmap", "at, 8 MiB", at, 8*mib)
		t.call("cuMemRelease", "h", h)
	}
	t.must("cuMemAddressFree", at, 8*mib)
}
