// Command agent is libxagent.so: the Go agent behind the border that
// shim/cuda/preload/agent.h draws. Built with -buildmode=c-shared; everything
// that can be tested without C is in shim/agent.
package main

/*
#include "../preload/agent.h"

// A name for the parameter's type, as an exported signature cannot say const.
typedef const struct xm_host *xm_host_ref;
*/
import "C"

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"xmsched/shim/agent"
	"xmsched/xserver/client"
)

// A guest does not help itself to the host's processors and memory. The agent
// lives in about 15 MiB.
const (
	processors  = 2
	memoryLimit = 48 << 20 // bytes; the collector works harder beyond it
)

// errHost is returned to C for a host of another version.
const errHost = -1

// xm_agent_start is called once, on a thread of the C library's with all signals
// blocked, whose mask the runtime's threads inherit.
//
//export xm_agent_start
func xm_agent_start(h C.xm_host_ref) (code C.int) {
	defer func() {
		if recover() != nil {
			code = errHost
		}
	}()
	if h == nil || h.version != C.XM_HOST_VERSION || uintptr(h.size) < unsafe.Sizeof(*h) {
		return errHost
	}
	runtime.GOMAXPROCS(processors)
	debug.SetMemoryLimit(memoryLimit)
	debug.SetGCPercent(50)
	lib := host{h}
	cfg, err := agent.FromEnvironment()
	if err != nil {
		lib.WarnOnce(agent.WarnConfig, fmt.Sprintf("%v; the program runs unscheduled", err))
		return 0
	}
	if cfg.MovesMemory {
		cfg.Memory = memoryOf((*C.struct_xm_host)(h))
		cfg.MemoryLog = logOf(client.MemoryLogVariable)
	}
	cfg.Commands = commandsOf((*C.struct_xm_host)(h))
	cfg.Knowledge = agent.UserKnowledge(lib)
	if cfg.Learns {
		cfg.Learning = learningOf((*C.struct_xm_host)(h), cfg.Commands, cfg.Knowledge)
	}
	agent.Start(lib, cfg)
	return 0
}

// main is required by the build mode and never called.
func main() {}
