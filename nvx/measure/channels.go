package measure

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"xmsched/hal/cuda"
	"xmsched/nvx/rm"
)

// What xm_channels_hold takes.
const (
	holdNone    = 0
	holdCompute = 1
)

// sliceBefore, as a length, restores what the compute groups had before.
const sliceBefore = 0

// channels are the preload library's functions over this process's own channels
// on one device.
type channels struct {
	uuid               cuda.UUID
	hold, slice, count uintptr
}

// statusError is a refusal by the driver.
type statusError struct {
	what   string
	status uint32
}

func (e *statusError) Error() string {
	name := rm.StatusName(e.status)
	if name == "" {
		name = "an unknown status"
	}
	return fmt.Sprintf("%s: the driver refused with %s (%#x)", e.what, name, e.status)
}

// bindChannels finds the functions in the process.
func bindChannels(uuid cuda.UUID) (*channels, error) {
	c := &channels{uuid: uuid}
	for name, f := range map[string]*uintptr{"xm_channels_hold": &c.hold, "xm_channels_slice": &c.slice, "xm_channels_count": &c.count} {
		address, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
		if err != nil {
			return nil, fmt.Errorf("the preload library is not in this process, or is too old: no %s", name)
		}
		*f = address
	}
	return c, nil
}

// result reads what the functions return: 0, a negative errno, or the driver's
// status.
func result(what string, r uintptr) error {
	switch n := int32(uint32(r)); {
	case n == 0:
		return nil
	case n < 0:
		return fmt.Errorf("%s: %w", what, unix.Errno(-n))
	default:
		return &statusError{what, uint32(n)}
	}
}

// set suspends or resumes.
func (c *channels) set(hold uint32) error {
	what := "suspend the process's channels"
	if hold == holdNone {
		what = "resume the process's channels"
	}
	var ns uint64
	r, _, _ := purego.SyscallN(c.hold, uintptr(unsafe.Pointer(&c.uuid)), uintptr(hold), uintptr(unsafe.Pointer(&ns)))
	return result(what, r)
}

// setSlice sets the time slice of the compute groups, in microseconds.
func (c *channels) setSlice(us uint32) error {
	var ns uint64
	r, _, _ := purego.SyscallN(c.slice, uintptr(unsafe.Pointer(&c.uuid)), uintptr(us), uintptr(unsafe.Pointer(&ns)))
	if us == sliceBefore {
		return result("restore the time slice", r)
	}
	return result(fmt.Sprintf("set a time slice of %d us", us), r)
}

// known counts what the library knows of the process's objects on the device.
func (c *channels) known() (computeGroups, groups, channels int, err error) {
	var n [3]uint32
	r, _, _ := purego.SyscallN(c.count, uintptr(unsafe.Pointer(&c.uuid)),
		uintptr(unsafe.Pointer(&n[0])), uintptr(unsafe.Pointer(&n[1])), uintptr(unsafe.Pointer(&n[2])))
	if err := result("count the process's channels", r); err != nil {
		return 0, 0, 0, err
	}
	return int(n[0]), int(n[1]), int(n[2]), nil
}

// refusal is the name of the status in an error, for a field of the sheet.
func refusal(err error) string {
	var s *statusError
	if errors.As(err, &s) {
		if name := rm.StatusName(s.status); name != "" {
			return name
		}
		return fmt.Sprintf("%#x", s.status)
	}
	return err.Error()
}
