package house

import (
	"fmt"
	"slices"
	"strings"
)

// mayImport says of each room which others it may import; its own packages and
// the standard library it always may. A part of a room that stands here by
// itself has its own rule. The order is the house's: cmd at the top, then
// xserver, bench and shim, then preempt and nvx, then hal, and the cores,
// which everybody may use.
var mayImport = map[string][]string{
	"cmd": {"xserver", "bench", "shim", "preempt", "nvx", "hal", "compute", "memory", "predictor"},

	// The daemon knows of a client only the page that both share.
	"xserver": {"preempt/board", "nvx", "hal", "compute", "memory", "predictor"},
	// Clients of the daemon speak to it through its client package.
	"bench": {"xserver/client", "xserver/api", "preempt", "nvx", "hal", "compute", "memory", "predictor"},
	"shim":  {"xserver/client", "xserver/api", "preempt", "nvx", "hal", "compute", "memory", "predictor"},

	"nvx":           {"preempt", "hal", "compute", "memory", "predictor"}, // implements preempt's interfaces
	"preempt":       {"hal", "compute", "memory", "predictor"},
	"preempt/board": {}, // a leaf: the daemon and the clients stand on it

	"hal": {"compute", "memory", "predictor"},

	"predictor": {"memory", "compute"},
	"memory":    {"compute"},
	"compute":   {},
}

// testsMayImport is what the tests of a room may import besides.
var testsMayImport = map[string][]string{
	"shim": {"xserver"}, // the agent is tested against the daemon itself
}

// cores are pure: nothing but the standard library and each other, and of the
// standard library nothing that reaches outside or depends on chance.
var cores = []string{"compute", "memory", "predictor"}

var impure = []string{
	"os", "net", "sync", "syscall", "log", "runtime", "unsafe", "plugin", "math/rand", "crypto/rand", "io/ioutil", "C",
}

func checkImports(packages []Package) []Violation {
	var violations []Violation
	for _, p := range packages {
		if p.Error != nil {
			violations = append(violations, Violation{p.ImportPath, "does not load: " + p.Error.Err})
		}
		if !own(p.ImportPath) {
			continue
		}
		room := roomOf(p.ImportPath)
		for _, imported := range p.Imports {
			if why := forbidden(room, imported, mayImport[room]); why != "" {
				violations = append(violations, Violation{p.ImportPath, why})
			} else if why := impureImport(room, imported); why != "" {
				violations = append(violations, Violation{p.ImportPath, why})
			}
		}
		// Tests keep to the rooms as well, but may use what they like otherwise.
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if why := forbidden(room, imported, slices.Concat(mayImport[room], testsMayImport[room])); why != "" {
				violations = append(violations, Violation{p.ImportPath, why + " (in a test)"})
			}
		}
	}
	return violations
}

// roomOf is the most special entry of mayImport that a package lies under.
func roomOf(path string) string {
	room := ""
	for r := range mayImport {
		if under(path, r) && len(r) > len(room) {
			room = r
		}
	}
	return room
}

func forbidden(room, imported string, allowed []string) string {
	if !own(imported) {
		return ""
	}
	if room != "" && under(imported, room) {
		return ""
	}
	if slices.ContainsFunc(allowed, func(room string) bool { return under(imported, room) }) {
		return ""
	}
	return fmt.Sprintf("imports %s, which %s may not", imported, room)
}

func impureImport(room, imported string) string {
	if !slices.Contains(cores, room) || own(imported) {
		return ""
	}
	if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
		return fmt.Sprintf("imports %s: a core uses the standard library alone", imported)
	}
	for _, name := range impure {
		if imported == name || strings.HasPrefix(imported, name+"/") {
			return fmt.Sprintf("imports %s: a core is pure", imported)
		}
	}
	return ""
}
