package bpf

import (
	"fmt"
	"strconv"
	"strings"
)

// machine says where values are on one kind of processor: registers by their
// place in the context that a bpf program gets (struct pt_regs on amd64, struct
// user_pt_regs on arm64), and how functions get their parameters.
type machine struct {
	names      map[string]uint16
	parameters []string // registers of the first parameters
	stack      int32    // where the stack has the next one at a function's entry
	openings   func(code []byte) opening
	stubs      map[opening][]byte // code that begins so, and returns
}

// where is where the bpf program finds a value.
type where struct {
	how    uint8
	size   uint8
	reg    uint16
	offset int32
}

// As enum how of program/observe.h.
const (
	howNone uint8 = iota
	howNumber
	howRegister
	howStack
	howField
)

// at is where a function's value is when it begins.
func (m machine) at(v value) (where, error) {
	w := where{size: 8, offset: int32(v.offset)}
	if v.narrow {
		w.size = 4
	}
	switch v.from {
	case nowhere:
		return where{}, nil
	case constant:
		return where{how: howNumber, size: 8, offset: int32(v.number)}, nil
	}
	switch {
	case v.number < len(m.parameters):
		w.reg = m.names[m.parameters[v.number]]
		w.how = howRegister
		if v.from == field {
			w.how = howField
		}
		return w, nil
	case v.from == field:
		return where{}, fmt.Errorf("a field of parameter %d, which is on the stack", v.number)
	}
	w.how, w.offset = howStack, m.stack+8*int32(v.number-len(m.parameters))
	return w, nil
}

// atSite is where a site's value is, as its note says.
func (m machine) atSite(v value, args []string) (where, error) {
	if v.from == nowhere {
		return where{}, nil
	}
	if v.number >= len(args) {
		return where{}, fmt.Errorf("a site with %d values", len(args))
	}
	text := args[v.number]
	if number, ok := strings.CutPrefix(text, "$"); ok {
		n, err := strconv.ParseInt(number, 0, 32)
		if err != nil {
			return where{}, fmt.Errorf("a site's value %q: %w", text, err)
		}
		return where{how: howNumber, size: 8, offset: int32(n)}, nil
	}
	reg, ok := m.names[strings.TrimPrefix(text, "%")]
	if !ok {
		return where{}, fmt.Errorf("a site's value %q: no register of that name", text)
	}
	return where{how: howRegister, size: 8, reg: reg}, nil
}

// opening is how a hooked place begins: that decides what a hit costs.
type opening uint8

const (
	stepped  opening = iota // an instruction that the kernel has to step
	emulated                // one that it knows how to do itself
	nop5                    // 5 bytes of nothing, which it exchanges by a call
	openings
)

// String is how it is called in reports.
func (o opening) String() string {
	return [...]string{"stepped instruction", "emulated instruction", "probe site"}[o%openings]
}

func openingOf(code []byte) opening { return here.openings(code) }
