package cuda

import (
	"bytes"
	"fmt"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// Device is a GPU, or a slice of one, that the driver shows to this process.
type Device struct {
	driver *Driver
	Handle abi.Device
}

// UUID is a device's identity, the same in every process.
type UUID [16]byte

// String is the UUID as nvidia-smi prints it.
func (u UUID) String() string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// DeviceCount is the number of devices; they have the ordinals below it.
func (d *Driver) DeviceCount() (int, error) {
	var n int32
	err := d.call(procDeviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

// Device gives the device with an ordinal.
func (d *Driver) Device(ordinal int) (Device, error) {
	dev := Device{driver: d}
	err := d.call(procDeviceGet, uintptr(unsafe.Pointer(&dev.Handle)), uintptr(ordinal))
	return dev, err
}

// Name is the vendor's name of the model.
func (dev Device) Name() (string, error) {
	name := make([]byte, 256)
	err := dev.driver.call(procDeviceGetName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), uintptr(dev.Handle))
	text, _, _ := bytes.Cut(name, []byte{0})
	return string(text), err
}

// UUID is the device's identity; of a MIG slice, the slice's.
func (dev Device) UUID() (UUID, error) {
	var u UUID
	err := dev.driver.call(procDeviceGetUUID, uintptr(unsafe.Pointer(&u)), uintptr(dev.Handle))
	return u, err
}

// TotalMem is the device's memory in bytes, as the driver tells it.
func (dev Device) TotalMem() (uint64, error) {
	var n uint64
	err := dev.driver.call(procDeviceTotalMem, uintptr(unsafe.Pointer(&n)), uintptr(dev.Handle))
	return n, err
}

// Attribute is one of the device's numbers.
func (dev Device) Attribute(a abi.DeviceAttribute) (int, error) {
	var v int32
	err := dev.driver.call(procDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(dev.Handle))
	if err != nil {
		return 0, fmt.Errorf("%v: %w", a, err)
	}
	return int(v), nil
}

// Context is a context of a device: the primary one, retained once, or one of its
// own.
type Context struct {
	device Device
	Handle abi.Context
	own    bool // made by NewContext
}

// PrimaryContext retains the device's primary context; Release gives it back.
// It does not make it current.
func (d *Driver) PrimaryContext(dev Device) (*Context, error) {
	c := &Context{device: dev}
	if err := d.call(procPrimaryRetain, uintptr(unsafe.Pointer(&c.Handle)), uintptr(dev.Handle)); err != nil {
		return nil, err
	}
	return c, nil
}

// NewContext makes a further context on the device, and makes it current on the
// calling OS thread. Release destroys it.
func (d *Driver) NewContext(dev Device, flags uint32) (*Context, error) {
	c := &Context{device: dev, own: true}
	if err := d.call(procCtxCreate, uintptr(unsafe.Pointer(&c.Handle)), uintptr(flags), uintptr(dev.Handle)); err != nil {
		return nil, err
	}
	return c, nil
}

// SetCurrent makes the context current on the calling OS thread, which the
// caller has locked.
func (c *Context) SetCurrent() error {
	return c.device.driver.call(procCtxSetCurrent, uintptr(c.Handle))
}

// Synchronize waits for all work of the calling thread's current context, which
// must be c.
func (c *Context) Synchronize() error { return c.device.driver.call(procCtxSynchronize) }

// Release gives the retained reference back, or destroys a context of its own.
// Further use of c is an error.
func (c *Context) Release() error {
	if c.own {
		return c.device.driver.call(procCtxDestroy, uintptr(c.Handle))
	}
	return c.device.driver.call(procPrimaryRelease, uintptr(c.device.Handle))
}

// PriorityRange is the lowest and the highest stream priority of the current
// context; smaller numbers are higher priorities.
func (d *Driver) PriorityRange() (lowest, highest int, err error) {
	var l, h int32
	err = d.call(procCtxGetPriorityRange, uintptr(unsafe.Pointer(&l)), uintptr(unsafe.Pointer(&h)))
	return int(l), int(h), err
}
