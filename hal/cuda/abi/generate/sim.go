package main

import (
	"bytes"
	"fmt"
	"strconv"

	"xmsched/hal/cuda/abi/internal/facts"
)

func stubsHeader(set *facts.Set) []byte {
	var b bytes.Buffer
	b.WriteString(comment(origin(set)))
	b.WriteString(`#ifndef XM_GEN_SIM_STUBS_H
#define XM_GEN_SIM_STUBS_H

#include <stdint.h>

/* Given by the simulator: says once for each name, on stderr, that the simulated driver
 * does not implement it, and returns CUDA_ERROR_NOT_SUPPORTED. */
int sim_unsupported(const char *symbol);

/* The driver's cuGetProcAddress_v2, answered from the recorded table: the function that the
 * simulator exports (implemented or a stub), its status by *status (may be NULL), CUresult
 * as the result. version_limit is what the simulated cuDriverGetVersion says. */
int sim_proc_address(const char *name, void **function, int version, uint64_t flags, int version_limit, int *status);

#endif
`)
	return b.Bytes()
}

// stubsSource is one exported stub for each driver function that the simulator
// does not implement, and the address table of all of them. On the ABIs we
// support a caller may pass arguments to a function that takes none.
func stubsSource(set *facts.Set, t *table, implemented map[string]bool) ([]byte, error) {
	for name := range implemented {
		if _, ok := t.index[name]; !ok {
			return nil, fmt.Errorf("%s lists %q, which the driver does not export", simDir, name)
		}
	}
	var b bytes.Buffer
	b.WriteString(comment(origin(set)))
	b.WriteString(`#include "stubs.h"
#include "proc_table.h"

#include <stddef.h>

/* Protected: the table below must hold this library's own functions, also when a preloaded
 * library defines the same names. */
#define STUB(name)                                             \
    __attribute__((visibility("protected"))) int name(void);   \
    int name(void)                                             \
    {                                                          \
        return sim_unsupported(#name);                         \
    }
#define OURS(name) extern __attribute__((visibility("protected"))) int name(void);

`)
	for _, s := range t.symbols {
		if implemented[s] {
			fmt.Fprintf(&b, "OURS(%s)\n", s)
		} else {
			fmt.Fprintf(&b, "STUB(%s)\n", s)
		}
	}
	b.WriteString("\nstatic int (*const functions[XM_SYM_COUNT])(void) = {\n")
	for _, s := range t.symbols {
		fmt.Fprintf(&b, "    %s,\n", s)
	}
	b.WriteString("};\n")
	b.WriteString(procAddress)
	return b.Bytes(), nil
}

// The order of the checks is the recorded driver's (facts/probes.json): flags
// and a version that is too new come before the name, and write nothing.
const procAddress = `
int sim_proc_address(const char *name, void **function, int version, uint64_t flags, int version_limit, int *status)
{
    int symbol = 0;

    if (!name || !function || flags > 3 || version > version_limit)
        return 1; /* CUDA_ERROR_INVALID_VALUE */
    enum xm_lookup found = xm_resolve(name, version, flags, &symbol);
    *function = NULL;
    if (found == XM_FOUND) {
        int (*f)(void) = functions[symbol];
        memcpy(function, &f, sizeof f);
    }
    if (status)
        *status = (int)found;
    return 0;
}
`

// simAnswers is what the recorded driver and device say of themselves.
func simAnswers(set *facts.Set) []byte {
	var b bytes.Buffer
	b.WriteString(comment(origin(set) + "\n\nWhat the driver calls its errors, and the device's attributes. Include it once."))
	b.WriteString("#ifndef XM_GEN_SIM_ANSWERS_H\n#define XM_GEN_SIM_ANSWERS_H\n\n")
	b.WriteString("struct sim_error {\n    int value;\n    const char *name;\n    const char *text;\n};\n\n")
	b.WriteString("/* cuGetErrorName and cuGetErrorString, by rising value. */\n")
	fmt.Fprintf(&b, "#define SIM_ERROR_COUNT %d\nstatic const struct sim_error sim_errors[SIM_ERROR_COUNT] = {\n", len(set.Errors))
	for _, e := range set.Errors {
		fmt.Fprintf(&b, "    {%d, %s, %s},\n", e.Value, strconv.Quote(e.Name), strconv.Quote(e.Text))
	}
	b.WriteString("};\n\n")
	b.WriteString("/* Values of cuDeviceGetAttribute on the device above; absent: CUDA_ERROR_INVALID_VALUE. */\n")
	b.WriteString("struct sim_attribute {\n    int attribute;\n    int value;\n};\n\n")
	n := 0
	for _, a := range set.Attributes {
		if a.Result == 0 {
			n++
		}
	}
	fmt.Fprintf(&b, "#define SIM_ATTRIBUTE_COUNT %d\nstatic const struct sim_attribute sim_attributes[SIM_ATTRIBUTE_COUNT] = {\n", n)
	for _, a := range set.Attributes {
		if a.Result == 0 {
			fmt.Fprintf(&b, "    {%d, %d}, /* %s */\n", a.Attribute, a.Value, attributeName(set, a.Attribute))
		}
	}
	b.WriteString("};\n\n#endif\n")
	return b.Bytes()
}

func attributeName(set *facts.Set, value int) string {
	for _, e := range set.Enumerators {
		if e.Enum == "CUdevice_attribute" && e.Value == int64(value) {
			return e.Name
		}
	}
	return "not in the header"
}
