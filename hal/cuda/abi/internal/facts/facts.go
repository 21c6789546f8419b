// Package facts holds what is known of the CUDA driver's binary interface, as
// data: names, numbers, sizes, offsets, and the answers that a real driver gave.
//
// It is a store and nothing else: the collector (abi/collect) fills it on a
// machine with a driver and a toolkit, the generator (abi/generate) and the
// tests read it. No text of a vendor header is in it; what a driver answered is
// kept word for word, because the simulator has to answer the same.
//
// Every file is JSON with one fact a line, sorted, so that a new driver shows as
// a small diff.
package facts

// Origin says where and when the facts were read.
type Origin struct {
	Date          string // of the collection, UTC, YYYY-MM-DD
	Driver        string // of the kernel module, as /proc/driver/nvidia/version gives it
	DriverVersion int    // cuDriverGetVersion
	Header        int    // CUDA_VERSION of the toolkit's cuda.h
	Device        string // cuDeviceGetName of device 0
	Kernel        string // uname -r
	Compiler      string // gcc -dumpfullversion; sizes and offsets are its answer
	Library       string // file that libcuda.so.1 resolved to
	Ceiling       int    // lowest cudaVersion asked for that cuGetProcAddress_v2 refuses
}

// Param is a function parameter: a C type with vendor spelling, and its name.
type Param struct {
	Type string `json:"t"`
	Name string `json:"n,omitempty"`
}

// Signature is a function type.
type Signature struct {
	Result string  `json:"ret"`
	Params []Param `json:"params"`
}

// Pointer is one versioned function-pointer type of cudaTypedefs.h: what a
// program means when it asks for (Base, Version) with a stream variant.
type Pointer struct {
	Base    string `json:"base"`
	Version int    `json:"since"`
	Variant string `json:"variant,omitempty"` // "", "ptds" or "ptsz"
	Signature
}

// Declaration is one function that cuda.h declares, under its exported name.
type Declaration struct {
	Symbol string `json:"symbol"`
	Signature
}

// Export is a function symbol of libcuda.so.1. Symbols with the same Entry are
// one function under several names; Entry is the first of them in name order.
type Export struct {
	Symbol string `json:"symbol"`
	Entry  string `json:"entry,omitempty"` // empty: itself
}

// Step is an answer that holds from a cudaVersion on, up to the next step's.
type Step struct {
	From   int    `json:"from"`
	Symbol string `json:"symbol"` // exported symbol that was returned
}

// Answer is what cuGetProcAddress_v2 said for one name, with any of Flags.
//
// Below the first step's version the call succeeds with a NULL pointer and
// status VERSION_NOT_SUFFICIENT; from Origin.Ceiling on it fails with
// INVALID_VALUE and writes nothing. The collector refuses to store a driver that
// answers otherwise.
type Answer struct {
	Name  string   `json:"name"`
	Flags []uint64 `json:"flags"`
	Steps []Step   `json:"steps"`
}

// Probe is one single question to a driver call with an odd argument, and the
// answer.
type Probe struct {
	Call   string `json:"call"`
	Answer string `json:"answer"`
}

// Enumerator is a named value of an enum.
type Enumerator struct {
	Enum  string `json:"enum"`
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Macro is a CU… macro with an integer (or integer-as-pointer) value.
type Macro struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// ErrorText is what cuGetErrorName and cuGetErrorString say of a CUresult.
type ErrorText struct {
	Value int    `json:"value"`
	Name  string `json:"name"`
	Text  string `json:"text"`
}

// Attribute is a device attribute's value on the machine of the collection.
type Attribute struct {
	Attribute int `json:"attribute"`
	Result    int `json:"result"` // CUresult of cuDeviceGetAttribute
	Value     int `json:"value"`
}

// Typedef is a type name and what it stands for, one level down.
type Typedef struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Struct is the layout of a struct or union. A field whose type has no
// type name carries its own Fields, with offsets counted from its own start.
type Struct struct {
	Name   string  `json:"name"`
	Kind   string  `json:"kind"` // "struct" or "union"
	Size   int64   `json:"size"`
	Align  int64   `json:"align,omitempty"`
	Fields []Field `json:"fields"`
}

// Field is a member of a Struct.
type Field struct {
	Name   string  `json:"name,omitempty"`
	Offset int64   `json:"off"`
	Size   int64   `json:"size"`
	Type   string  `json:"t,omitempty"`     // C type; for an array the element's
	Count  int64   `json:"count,omitempty"` // array length; 0: no array
	Kind   string  `json:"kind,omitempty"`  // struct or union, when Fields are here
	Fields []Field `json:"fields,omitempty"`
}

// Set is the whole store.
type Set struct {
	Origin       Origin
	Pointers     []Pointer
	Declarations []Declaration
	Exports      []Export
	Answers      []Answer
	Unknown      []string // names asked for that got SYMBOL_NOT_FOUND at every version
	Probes       []Probe
	Enumerators  []Enumerator
	Macros       []Macro
	Errors       []ErrorText
	Attributes   []Attribute
	Typedefs     []Typedef
	Structs      []Struct
}
