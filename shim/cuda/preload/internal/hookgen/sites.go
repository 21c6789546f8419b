package main

import (
	"fmt"
	"strings"
)

// site is the probe site of a command (probes.h): before it is admitted, so that
// a tracer sees when the program asked and not when it was let.
func (h hook) site() string {
	base, _ := splitName(h.Symbol)
	name, value := "other", "0"
	switch {
	case base == "cuGraphLaunch", strings.HasPrefix(base, "cuLaunch") && base != "cuLaunchHostFunc":
		name = "launch"
	case strings.HasPrefix(base, "cuMemcpy"):
		name, value = h.copied()
	case strings.HasPrefix(base, "cuMemset"):
		name, value = "fill", h.filled(strings.TrimSuffix(base, "Async"))
	}
	return "    " + h.fill(fmt.Sprintf("XM_SITE(%s, $S, $F, %s);\n", name, value))
}

// copied are the site of a copy and what tells its size: a number of bytes, or
// the structure with its shape. Batches, and structures of the old 32-bit
// interface, are copies of unknown size.
func (h hook) copied() (site, value string) {
	for _, p := range h.Params {
		switch p.Type {
		case "const CUDA_MEMCPY2D *":
			return "copy_2d", p.Name
		case "const CUDA_MEMCPY3D *", "const CUDA_MEMCPY3D_PEER *":
			return "copy_3d", p.Name
		}
		if p.Name == "ByteCount" {
			return "copy", p.Name
		}
	}
	return "copy", "0"
}

// filled is the number of bytes that a memset writes; base ends in the width of
// an element, in bits.
func (h hook) filled(base string) string {
	number := "N"
	if strings.HasPrefix(base, "cuMemsetD2D") {
		number = "Width * (uint64_t)Height"
	}
	switch {
	case strings.HasSuffix(base, "16"):
		return number + " * (uint64_t)2"
	case strings.HasSuffix(base, "32"):
		return number + " * (uint64_t)4"
	}
	return number
}
