package conformance

import (
	"fmt"
	"io"
	"unsafe"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// testCase is a list of questions asked in one process, in order.
type testCase struct {
	name      string
	questions []question
}

// question writes lines; its label stands in for the line of a call that ended
// the process.
type question struct {
	label string
	ask   func(*transcript)
}

// story is a case with one question: calls that depend on each other.
func story(name string, ask func(*transcript)) testCase {
	return testCase{name, []question{{name, ask}}}
}

// transcript calls the driver and writes down what it answers.
type transcript struct {
	driver *cuda.Driver
	out    io.Writer
	procs  map[string]cuda.Proc
	err    error // of writing
}

func (t *transcript) line(format string, args ...any) {
	if _, err := fmt.Fprintf(t.out, format+"\n", args...); err != nil && t.err == nil {
		t.err = err
	}
}

// note writes a value that follows from the calls before it.
func (t *transcript) note(format string, args ...any) { t.line("    "+format, args...) }

// section writes a line that says what the next calls are about.
func (t *transcript) section(text string) { t.line("-- %s", text) }

func (t *transcript) proc(symbol string) (cuda.Proc, bool) {
	p, ok := t.procs[symbol]
	if !ok {
		var err error
		if p, err = t.driver.Proc(symbol); err != nil {
			return p, false
		}
		t.procs[symbol] = p
	}
	return p, true
}

// call calls an exported function and writes "symbol(text) = RESULT". text
// stands for the arguments: addresses by name, everything else by value.
//
//go:uintptrescapes
func (t *transcript) call(symbol, text string, args ...uintptr) abi.Result {
	r := t.quiet(symbol, args...)
	if r == noSymbol {
		t.line("%s(%s) = (not exported)", symbol, text)
	} else {
		t.line("%s(%s) = %s", symbol, text, r.String())
	}
	return r
}

// noSymbol is quiet's result when the driver lacks the function.
const noSymbol abi.Result = -1

// quiet calls an exported function and writes nothing.
//
//go:uintptrescapes
func (t *transcript) quiet(symbol string, args ...uintptr) abi.Result {
	p, ok := t.proc(symbol)
	if !ok {
		return noSymbol
	}
	return p.Call(args...)
}

// must calls a function that later calls need; its failure is written.
//
//go:uintptrescapes
func (t *transcript) must(symbol string, args ...uintptr) bool {
	r := t.quiet(symbol, args...)
	if r != abi.CUDA_SUCCESS {
		t.line("%s, needed by what follows = %s", symbol, r.String())
	}
	return r == abi.CUDA_SUCCESS
}

// context initialises the driver and makes device 0's primary context current.
func (t *transcript) context() bool {
	var ctx abi.Context
	return t.must("cuInit", 0) &&
		t.must("cuDevicePrimaryCtxRetain", ptr(&ctx), 0) &&
		t.must("cuCtxSetCurrent", uintptr(ctx))
}

// kept holds every object whose address a call was given: the driver may keep
// it, and a child does not live long. Questions are asked one after the other.
var kept []unsafe.Pointer

// ptr is the address of a variable, which it moves to the heap and keeps alive.
//
//go:noinline
func ptr[T any](p *T) uintptr {
	kept = append(kept, unsafe.Pointer(p))
	return uintptr(unsafe.Pointer(p))
}

// text is the address of a C string.
func text(s string) uintptr {
	b := append([]byte(s), 0)
	return ptr(&b[0])
}

// goString is the Go string at a C string's address.
func goString(p *byte) string {
	if p == nil {
		return "(NULL)"
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// address is a pointer for a field of a structure; ptr keeps its target.
func address[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }
