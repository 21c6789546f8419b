// Package rm holds the facts of the NVIDIA resource manager's ioctl interface
// that channel control rests on, as data: numbers, classes, statuses and struct
// layouts, each with its origin.
//
// It is no code that talks to a driver: the C library does that in the process
// whose objects they are, with the header that this package generates. Nothing
// else in the tree spells these numbers. Names keep the vendor's spelling, so
// that they can be looked up; the words of the comments are ours.
//
// Origin of the data: the public open kernel modules, read at 580.105.08 and
// compared with the branches in Branches, where every layout here is the same.
// That is no promise about other versions. Whoever uses the interface checks
// sizes as they pass, takes a status other than NV_OK for a refusal, and offers
// nothing before a probe on the device has passed (see nvx/measure).
package rm

//go:generate go run ./generate -out ../../shim/cuda/preload/gen/rm.h

// Branches are the driver branches whose public headers were compared.
var Branches = []string{"535", "550", "570", "580", "595"}

// The folders that origins name files of, below the source of the modules.
const (
	Escape   = "src/nvidia/arch/nvalloc/unix/include/nv_escape.h"
	Numbers  = "kernel-open/common/inc/nv-ioctl-numbers.h"
	Calls    = "src/common/sdk/nvidia/inc/nvos.h"
	Statuses = "src/common/sdk/nvidia/inc/nvstatuscodes.h"
	Classes  = "src/common/sdk/nvidia/inc/class/"
	Controls = "src/common/sdk/nvidia/inc/ctrl/"
)

// Constant is one number of the interface.
type Constant struct {
	Name   string // the vendor's, or XM_RM_… where it is derived
	Value  uint64
	Origin string // file that defines it, or how it was found
	Doc    string
}

// Struct is one parameter block. The Go type has the layout of C on the 64-bit
// platforms; its field tags carry the vendor's names.
type Struct struct {
	Name   string
	Zero   any
	Origin string
	Doc    string
}

// Handle names an object of the resource manager within a client.
type Handle = uint32
