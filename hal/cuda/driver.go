// Package cuda binds the CUDA driver API for Go programs, without cgo and
// without a vendor header: it opens libcuda.so.1 at run time and calls it
// through purego. A machine without the library gets a typed error from Open,
// nothing else.
//
// It is a thin binding: one driver call a method, the driver's own rules for
// threads, contexts and lifetimes. It caches nothing, orders nothing and hides no
// error; policy belongs to its callers. The driver of a process is one, so Open
// always gives the same Driver.
//
// Concurrency: a Driver and everything it gives may be used from any goroutine,
// as far as the driver allows. The current context belongs to an OS thread: lock
// the thread (runtime.LockOSThread) before SetCurrent and keep it locked.
//
// Errors carry the abi.Result that the driver gave: errors.Is(err,
// abi.CUDA_ERROR_OUT_OF_MEMORY).
package cuda

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"xmsched/hal/cuda/abi"
)

// Library is the file name that the loader looks for.
const Library = "libcuda.so.1"

// NotFoundError says that the driver's library could not be opened.
type NotFoundError struct {
	Library string
	Reason  error // the loader's sentence
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("open %s: no CUDA driver: %v", e.Library, e.Reason)
}

func (e *NotFoundError) Unwrap() error { return e.Reason }

// SymbolError says that the opened driver lacks a function.
type SymbolError struct{ Symbol string }

func (e *SymbolError) Error() string {
	return "the CUDA driver exports no " + e.Symbol
}

// Driver is the process's CUDA driver.
type Driver struct {
	find  func(symbol string) uintptr // 0: the driver lacks it
	procs [procCount]uintptr          // 0: the driver lacks it
}

var (
	openMu sync.Mutex
	opened *Driver // protected by openMu; written once
)

// Open opens libcuda.so.1 and resolves its functions. It does not initialise the
// driver. A failure is not remembered: a later call tries again.
func Open() (*Driver, error) {
	openMu.Lock()
	defer openMu.Unlock()
	if opened != nil {
		return opened, nil
	}
	handle, err := purego.Dlopen(Library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &NotFoundError{Library, err}
	}
	d, err := Adopt(func(symbol string) uintptr {
		address, err := purego.Dlsym(handle, symbol)
		if err != nil {
			return 0
		}
		return address
	})
	if err != nil {
		return nil, err
	}
	opened = d
	return d, nil
}

// Adopt makes a Driver of functions that the caller has found: find gives the
// address of an exported function, 0 for none. It is for those who are behind a
// library that stands in the driver's place, and must not call that. The zero
// Stream is not this driver's.
func Adopt(find func(symbol string) uintptr) (*Driver, error) {
	d := &Driver{find: find}
	for id, name := range procNames {
		d.procs[id] = find(name)
	}
	if d.procs[procInit] == 0 {
		return nil, &SymbolError{procNames[procInit]}
	}
	return d, nil
}

// Proc is one exported function of the driver, for callers that must call it
// with arguments that no method here would pass.
type Proc struct {
	Symbol  string
	address uintptr
}

// Proc finds an exported function by its exact name.
func (d *Driver) Proc(symbol string) (Proc, error) {
	address := d.find(symbol)
	if address == 0 {
		return Proc{}, &SymbolError{symbol}
	}
	return Proc{symbol, address}, nil
}

// ProcAt is the function at an address that cuGetProcAddress gave.
func ProcAt(symbol string, address uintptr) Proc { return Proc{symbol, address} }

// Address is where the function is, 0 for the zero Proc.
func (p Proc) Address() uintptr { return p.address }

// Call calls the function as it is: integer and pointer arguments, in order.
// Objects whose addresses are passed live until it returns.
//
//go:uintptrescapes
func (p Proc) Call(args ...uintptr) abi.Result {
	r, _, _ := purego.SyscallN(p.address, args...)
	return abi.Result(int32(uint32(r)))
}

// call is Proc.Call for a resolved function, with the error the API promises.
//
//go:uintptrescapes
func (d *Driver) call(id procID, args ...uintptr) error {
	if d.procs[id] == 0 {
		return &SymbolError{procNames[id]}
	}
	r, _, _ := purego.SyscallN(d.procs[id], args...)
	return failure(id, abi.Result(int32(uint32(r))))
}

func failure(id procID, r abi.Result) error {
	if r == abi.CUDA_SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %w", procNames[id], r)
}

// pending turns NOT_READY, which is an answer and no failure, into false.
func pending(err error) (bool, error) {
	if errors.Is(err, abi.CUDA_ERROR_NOT_READY) {
		return false, nil
	}
	return err == nil, err
}

// Init initialises the driver for the process. Calling it again is harmless.
func (d *Driver) Init() error { return d.call(procInit, 0) }

// Version is the newest CUDA version the driver supports, as 1000*major+10*minor.
func (d *Driver) Version() (int, error) {
	var v int32
	err := d.call(procDriverGetVersion, uintptr(unsafe.Pointer(&v)))
	return int(v), err
}

// current is the driver that the zero Stream belongs to.
func current() (*Driver, error) {
	openMu.Lock()
	defer openMu.Unlock()
	if opened == nil {
		return nil, &NotFoundError{Library, errors.New("not opened yet")}
	}
	return opened, nil
}
