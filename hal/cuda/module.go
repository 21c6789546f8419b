package cuda

import (
	"fmt"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// Module is loaded device code.
type Module struct {
	driver *Driver
	Handle abi.Module
}

// Function is a kernel of a module. It is valid until the module is unloaded.
type Function struct {
	Handle abi.Function
}

// LoadModule loads PTX text or a binary image into the current context.
func (d *Driver) LoadModule(image []byte) (*Module, error) {
	m := &Module{driver: d}
	// The driver takes PTX text as a C string.
	text := make([]byte, len(image)+1)
	copy(text, image)
	err := d.call(procModuleLoadData, uintptr(unsafe.Pointer(&m.Handle)), uintptr(unsafe.Pointer(&text[0])))
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Function finds a kernel by its exact name.
func (m *Module) Function(name string) (Function, error) {
	var f Function
	text := cString(name)
	err := m.driver.call(procModuleGetFunction, uintptr(unsafe.Pointer(&f.Handle)), uintptr(m.Handle), uintptr(unsafe.Pointer(&text[0])))
	if err != nil {
		return f, fmt.Errorf("function %q: %w", name, err)
	}
	return f, nil
}

// Unload unloads the module from the current context.
func (m *Module) Unload() error { return m.driver.call(procModuleUnload, uintptr(m.Handle)) }

func cString(s string) []byte { return append([]byte(s), 0) }
