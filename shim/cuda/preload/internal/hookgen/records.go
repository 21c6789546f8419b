package main

import (
	"fmt"
	"strings"
)

// Commands tell, after the driver took them and while recording is on, what they
// touch (record.h). Which parameters say so follows from the function's name and
// from the names that the vendor gives them; as in rules, $S and $F stand for the
// stream and its flags.

// recordByName holds what names alone decide, versions and stream variants alike.
var recordByName = map[string]string{
	"cuLaunch":                          "xm_record_other($S, $F, XM_COMMAND_KERNEL);",
	"cuLaunchGrid":                      "xm_record_other($S, $F, XM_COMMAND_KERNEL);",
	"cuLaunchGridAsync":                 "xm_record_other($S, $F, XM_COMMAND_KERNEL);",
	"cuLaunchKernel":                    launchRecord("extra"),
	"cuLaunchCooperativeKernel":         launchRecord("NULL"),
	"cuMemBatchDecompressAsync":         "xm_record_other($S, $F, XM_COMMAND_OTHER);",
	"cuMemcpyBatchAsync":                "xm_record_copies($S, $F, dsts, srcs, sizes, count);",
	"cuMemcpy3DBatchAsync":              "xm_record_copies3d($S, $F, opList, numOps);",
	"cuMemPrefetchBatchAsync":           "xm_record_prefetches($S, $F, dptrs, sizes, count);",
	"cuMemDiscardAndPrefetchBatchAsync": "xm_record_prefetches($S, $F, dptrs, sizes, count);",
	"cuStreamBatchMemOp":                "xm_record_writes($S, $F, paramArray, count);",
	"cuStreamWriteValue32":              "xm_record_fill($S, $F, addr, 0, 4, 1);",
	"cuStreamWriteValue64":              "xm_record_fill($S, $F, addr, 0, 8, 1);",
}

func launchRecord(extra string) string {
	return "xm_record_launch($S, $F, " + launchOf(extra) + ");"
}

func launchOf(extra string) string {
	return "&(struct xm_launch){f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, kernelParams, " + extra + "}"
}

// recordOf is the statement that records a command; empty: it touches no memory of
// the device that anybody could move.
func recordOf(d declaration) string {
	base, _ := splitName(d.Symbol)
	if text, ok := recordByName[base]; ok {
		return text
	}
	switch {
	case strings.HasPrefix(base, "cuMemcpy"):
		return copyRecord(d)
	case strings.HasPrefix(base, "cuMemset"):
		return fillRecord(d, strings.TrimSuffix(base, "Async"))
	case base == "cuMemPrefetchAsync":
		return prefetchRecord(d)
	case base == "cuGraphLaunch":
		return fmt.Sprintf("xm_record_graph($S, $F, %s);", d.Params[0].Name)
	}
	return ""
}

// described are the forms in which a copy of rows and layers is described. Those of
// 32-bit addresses are of a driver that nobody has.
var described = map[string]string{
	"const CUDA_MEMCPY2D *":      "xm_record_copy2d($S, $F, pCopy);",
	"const CUDA_MEMCPY3D *":      "xm_record_copy3d($S, $F, pCopy);",
	"const CUDA_MEMCPY3D_PEER *": "xm_record_copy_peer($S, $F, pCopy);",
	"const CUDA_MEMCPY2D_v1 *":   "xm_record_other($S, $F, XM_COMMAND_COPY);",
	"const CUDA_MEMCPY3D_v1 *":   "xm_record_other($S, $F, XM_COMMAND_COPY);",
}

func copyRecord(d declaration) string {
	var dst, src, where []string
	for _, p := range d.Params {
		if text, ok := described[p.Type]; ok {
			return text
		}
		end := &dst
		if strings.HasPrefix(p.Name, "src") {
			end = &src
		}
		switch p.Name {
		case "dst", "src", "dstDevice", "srcDevice":
			*end = append(*end, p.Name)
		case "dstHost", "srcHost":
			*end = append(*end, "(uintptr_t)"+p.Name)
			where = append(where, "XM_COMMAND_"+strings.ToUpper(p.Name[:3])+"_HOST")
		case "dstArray", "srcArray":
			*end = append(*end, "0")
			where = append(where, "XM_COMMAND_"+strings.ToUpper(p.Name[:3])+"_ARRAY")
		}
	}
	if len(dst) != 1 || len(src) != 1 {
		return "xm_record_other($S, $F, XM_COMMAND_COPY);"
	}
	if where == nil {
		where = []string{"0"}
	}
	return fmt.Sprintf("xm_record_copy($S, $F, %s, %s, ByteCount, %s);", dst[0], src[0], strings.Join(where, " | "))
}

// fillRecord is of cuMemsetD32 and its like: the digits are an element's bits.
func fillRecord(d declaration, base string) string {
	bytes := map[string]string{"D8": "1", "16": "2", "32": "4"}[base[len(base)-2:]]
	if bytes == "" {
		return "xm_record_other($S, $F, XM_COMMAND_FILL);"
	}
	for _, p := range d.Params {
		if p.Name == "Height" {
			return fmt.Sprintf("xm_record_fill($S, $F, dstDevice, dstPitch, (size_t)Width * %s, Height);", bytes)
		}
	}
	return fmt.Sprintf("xm_record_fill($S, $F, dstDevice, 0, (size_t)N * %s, 1);", bytes)
}

func prefetchRecord(d declaration) string {
	for _, p := range d.Params {
		if p.Name == "dstDevice" {
			return "xm_record_prefetch($S, $F, devPtr, count, dstDevice);"
		}
	}
	return "xm_record_prefetch($S, $F, devPtr, count, XM_RECORD_PLACE(location));"
}
