package workloads

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"xmsched/preempt/board"
)

// channels are the preload library's own functions that stop and resume this
// process's channels (shim/cuda/preload/channels.h). They need no daemon.
type channels struct {
	uuid        board.UUID
	hold, count uintptr
}

// openChannels finds them in this process, which must have the library preloaded.
func openChannels(uuid string) (*channels, error) {
	c := &channels{}
	var err error
	if c.uuid, err = parseUUID(uuid); err != nil {
		return nil, err
	}
	for name, into := range map[string]*uintptr{"xm_channels_hold": &c.hold, "xm_channels_count": &c.count} {
		if *into, err = purego.Dlsym(purego.RTLD_DEFAULT, name); err != nil {
			return nil, fmt.Errorf("find %s: is the library preloaded? %w", name, err)
		}
	}
	return c, nil
}

// channelCount is what the library knows of the device.
type channelCount struct {
	computeGroups, groups, channels uint32
}

func (c *channels) counts() (channelCount, error) {
	var n channelCount
	r, _, _ := purego.SyscallN(c.count, uintptr(unsafe.Pointer(&c.uuid)), uintptr(unsafe.Pointer(&n.computeGroups)),
		uintptr(unsafe.Pointer(&n.groups)), uintptr(unsafe.Pointer(&n.channels)))
	runtime.KeepAlive(c)
	if err := channelsError("count", r); err != nil {
		return n, err
	}
	if n.computeGroups == 0 {
		return n, errors.New("the library knows of no compute group on the device")
	}
	return n, nil
}

// set stops what hold names and lets the rest run; it gives how long the calls
// took as the library says.
func (c *channels) set(hold board.Hold) (time.Duration, error) {
	var ns uint64
	r, _, _ := purego.SyscallN(c.hold, uintptr(unsafe.Pointer(&c.uuid)), uintptr(hold), uintptr(unsafe.Pointer(&ns)))
	runtime.KeepAlive(c)
	return time.Duration(ns), channelsError("hold "+hold.String(), r)
}

// channelsError reads a result: 0, a negative error number, or the driver's status.
func channelsError(what string, r uintptr) error {
	switch v := int32(uint32(r)); {
	case v == 0:
		return nil
	case v < 0:
		return fmt.Errorf("xm_channels: %s: %w", what, errnoOf(-v))
	default:
		return fmt.Errorf("xm_channels: %s: the driver's status is %#x", what, v)
	}
}
