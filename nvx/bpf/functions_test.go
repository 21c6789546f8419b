package bpf

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"xmsched/hal/cuda/abi"
)

// declaration is a function as it was recorded of the driver.
type declaration struct {
	Symbol string `json:"symbol"`
	Params []struct {
		Type string `json:"t"`
		Name string `json:"n"`
	} `json:"params"`
}

func declarations(t *testing.T) map[string]declaration {
	t.Helper()
	text, err := os.ReadFile("../../hal/cuda/abi/facts/declarations.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []declaration
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]declaration{}
	for _, d := range list {
		all[d.Symbol] = d
	}
	return all
}

// TestFunctionsAreTheDrivers holds every value of the table against the recorded
// declaration: a stream where there is one, a number of bytes by its name.
func TestFunctionsAreTheDrivers(t *testing.T) {
	bytes := []string{"ByteCount", "bytesize", "size", "N", "Width", "Height", "WidthInBytes", "pCopy", "pPitch", "prop", "dptr", "dstDevice", "handle", "hEvent"}
	wide := []string{"size_t", "const CUDA_MEMCPY2D *", "const CUDA_MEMCPY3D *", "const CUDA_MEMCPY3D_PEER *", "size_t *", "CUdeviceptr", "CUmemGenericAllocationHandle", "const CUmemAllocationProp *", "CUevent"}
	for symbol, d := range declarations(t) {
		h, ok := hookOf(symbol)
		if !ok {
			continue
		}
		kindOf := func(v value) (kind, name string) {
			if v.from != parameter && v.from != field {
				return "", ""
			}
			if v.number >= len(d.Params) {
				t.Errorf("%s has no parameter %d", symbol, v.number)
				return "", ""
			}
			return d.Params[v.number].Type, d.Params[v.number].Name
		}
		kind, _ := kindOf(h.stream)
		switch {
		case kind == "" || kind == "CUstream" || h.stream.from == field && kind == "const CUlaunchConfig *":
		case h.kind == kindAlloc && strings.HasSuffix(kind, " *"):
		case h.scope == scopeEvent && kind == "CUevent":
		default:
			t.Errorf("%s: its stream is a %s", symbol, kind)
		}
		for _, v := range []value{h.value, h.other} {
			kind, name := kindOf(v)
			switch {
			case kind == "":
			case !slices.Contains(bytes, name):
				t.Errorf("%s: %s is no size", symbol, name)
			case v.narrow != (kind == "unsigned int"):
				t.Errorf("%s: %s is a %s", symbol, name, kind)
			case !v.narrow && !slices.Contains(wide, kind):
				t.Errorf("%s: %s is a %s", symbol, name, kind)
			}
		}
	}
}

// TestEveryCommandIsHooked: what a new driver brings is looked at by somebody.
func TestEveryCommandIsHooked(t *testing.T) {
	quiet := []string{ // they have a stream parameter and hand nothing to the device, or nothing that takes time
		"cuStreamBeginCapture", "cuStreamEndCapture", "cuStreamIsCapturing", "cuStreamGet", "cuStreamSetAttribute", "cuStreamCopyAttributes",
		"cuStreamUpdateCaptureDependencies", "cuStreamDestroy", "cuStreamWaitEvent", "cuStreamAttachMemAsync", "cuGraphics",
		"cuSignalExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync", "cuMemMapArrayAsync", "cuMemDiscardBatchAsync",
	}
	declared := declarations(t)
	for symbol, d := range declared {
		_, hooked := hookOf(symbol)
		streams := slices.ContainsFunc(d.Params, func(p struct {
			Type string `json:"t"`
			Name string `json:"n"`
		}) bool {
			return p.Type == "CUstream"
		})
		silent := slices.ContainsFunc(quiet, func(prefix string) bool { return strings.HasPrefix(symbol, prefix) })
		if streams && hooked == silent {
			t.Errorf("%s: hooked %v, quiet %v", symbol, hooked, silent)
		}
	}
	for symbol := range known {
		if _, ok := declared[symbol]; !ok {
			t.Errorf("%s: no driver has it", symbol)
		}
	}
}

func TestPlacesInStructures(t *testing.T) {
	var box2 abi.CUDA_MEMCPY2D
	var box3 abi.CUDA_MEMCPY3D
	var peer abi.CUDA_MEMCPY3D_PEER
	// As in program/observe.c: width and, behind it, height and depth.
	for _, place := range []struct {
		name      string
		got, want uintptr
	}{
		{"WIDTH_2D", unsafe.Offsetof(box2.WidthInBytes), 112}, {"HEIGHT_2D", unsafe.Offsetof(box2.Height), 120},
		{"WIDTH_3D", unsafe.Offsetof(box3.WidthInBytes), 176}, {"height", unsafe.Offsetof(box3.Height), 184}, {"depth", unsafe.Offsetof(box3.Depth), 192},
		{"WIDTH_3D of peers", unsafe.Offsetof(peer.WidthInBytes), 176}, {"depth of peers", unsafe.Offsetof(peer.Depth), 192},
	} {
		if place.got != place.want {
			t.Errorf("%s is at %d, not %d", place.name, place.got, place.want)
		}
	}
	for _, f := range structFields(t) {
		if f.at != f.want {
			t.Errorf("%s is at %d, not %d", f.name, f.at, f.want)
		}
	}
}

type structField struct {
	name     string
	at, want int
}

// structFields are those that the table of functions names by their offset.
func structFields(t *testing.T) []structField {
	t.Helper()
	text, err := os.ReadFile("../../hal/cuda/abi/facts/structs.json")
	if err != nil {
		t.Fatal(err)
	}
	var structs []struct {
		Name   string
		Fields []struct {
			Name string
			Off  int
		}
	}
	if err := json.Unmarshal(text, &structs); err != nil {
		t.Fatal(err)
	}
	wanted := map[string]int{
		"CUlaunchConfig.hStream": launchConfigStream, "CUmemAllocationProp_v1.location": locationType, "CUmemLocation_v1.type": 0,
	}
	var found []structField
	for _, s := range structs {
		for _, f := range s.Fields {
			name := s.Name + "." + f.Name
			if want, ok := wanted[name]; ok {
				found = append(found, structField{name, f.Off, want})
			}
		}
	}
	if len(found) != len(wanted) {
		t.Errorf("%d of %d fields are recorded", len(found), len(wanted))
	}
	return found
}

func TestVariants(t *testing.T) {
	for symbol, want := range map[string]struct {
		kind      Kind
		perThread bool
		scope     scope
	}{
		"cuLaunchKernel":           {KindLaunch, false, scopeNone},
		"cuLaunchKernel_ptsz":      {KindLaunch, true, scopeNone},
		"cuMemcpyDtoH_v2":          {KindCopy, false, scopeContext},
		"cuMemcpyDtoH_v2_ptds":     {KindCopy, true, scopeStream},
		"cuMemcpyHtoDAsync_v2":     {KindCopy, false, scopeNone},
		"cuStreamSynchronize_ptsz": {kindWait, true, scopeStream},
		"cuMemFree_v2":             {kindFree, false, scopeContext},
	} {
		h, ok := hookOf(symbol)
		if !ok || h.kind != want.kind || h.perThread != want.perThread || h.scope != want.scope || h.symbol != symbol {
			t.Errorf("%s: %+v %v, want %+v", symbol, h, ok, want)
		}
	}
	for _, symbol := range []string{"cuMemAlloc", "cudnnCreate", "cuInit", "cuLaunchKernel_ptszz", ""} {
		if h, ok := hookOf(symbol); ok {
			t.Errorf("%s is hooked: %+v", symbol, h)
		}
	}
}
