package bpf

import (
	"strings"
)

// A site's three values, by number.
var (
	siteFirst  = arg(0)
	siteSecond = arg(1)
	siteThird  = arg(2)
)

// sites are the probe sites of the preload library by name, with what their
// values mean (shim/cuda/preload/probes.h).
var sites = map[string]function{
	"launch":     {symbol: "launch", kind: KindLaunch, stream: siteFirst},
	"other":      {symbol: "other", kind: KindOther, stream: siteFirst},
	"copy":       {symbol: "copy", kind: KindCopy, stream: siteFirst, value: siteThird},
	"copy_2d":    {symbol: "copy_2d", kind: KindCopy, stream: siteFirst, value: siteThird, shape: shape2D},
	"copy_3d":    {symbol: "copy_3d", kind: KindCopy, stream: siteFirst, value: siteThird, shape: shape3D},
	"fill":       {symbol: "fill", kind: KindFill, stream: siteFirst, value: siteThird},
	"alloc":      {symbol: "alloc", kind: kindMade, stream: siteFirst, value: siteSecond},
	"create":     {symbol: "create", kind: kindMade, stream: siteFirst, value: siteSecond, handle: true},
	"free":       {symbol: "free", kind: kindFree, value: siteFirst},
	"release":    {symbol: "release", kind: kindFree, value: siteFirst, handle: true},
	"wait_begin": {symbol: "wait_begin", kind: kindBegin},
	"complete":   {symbol: "complete", kind: kindComplete, stream: siteFirst, value: siteThird},
	"gate_begin": {symbol: "gate_begin", kind: kindHeld, stream: siteFirst, value: siteSecond},
	"gate_end":   {symbol: "gate_end", kind: kindLet, stream: siteFirst},
}

// siteOf is what a site of that name means.
func siteOf(name string) (hook, bool) {
	f, ok := sites[name]
	return hook{function: f, ours: true}, ok
}

// argsOf takes a site's arguments apart, "8@%rdi 8@$0 8@%rsi", and leaves of each
// where it is: "%rdi", "$0".
func argsOf(text string) []string {
	args := strings.Fields(text)
	for i, a := range args {
		if _, where, ok := strings.Cut(a, "@"); ok {
			args[i] = where
		}
	}
	return args
}
