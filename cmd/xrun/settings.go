package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"xmsched/cmd/internal/cli"
	"xmsched/compute"
	"xmsched/memory"
	"xmsched/xserver/client"
)

// Bounds of the settings.
const (
	maxThreshold = client.MaxThreshold
	maxName      = client.MaxName
)

// settings is what a program is started with.
type settings struct {
	hints         compute.Hints
	name          string
	level         string // one of client.Levels
	threshold     int    // commands outstanding a queue while bounded; 0: as suits the level
	batch         int    // commands between two completion marks; 0: as suits the level
	sim           bool
	requireDaemon bool
	perProcess    bool     // each process is a task by itself
	learn         bool     // its launches are learnt from
	pinMemory     bool     // its memory is not to be moved
	memoryLimit   uint64   // bytes that each process may allocate on a device; 0: no limit
	warnings      []string // about the environment, a line each
}

// flags holds the command line as it was written; what counts is decided by
// settings.
type flags struct {
	name, level, threshold, batch string
	hints                         []string // of compute.HintList
	sim, requireDaemon            bool
	perProcess, learn, pinMemory  bool
	memoryLimit, slice            string
}

func (f *flags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.SetInterspersed(false) // what follows the command's name is the command's
	fs.SortFlags = false
	fs.StringVar(&f.name, "name", "", "name `S` of the task in lists (default: the command's; $XMSCHED_NAME)")
	hints := compute.HintList()
	f.hints = make([]string, len(hints))
	for i, hint := range hints {
		usage := fmt.Sprintf("`%s`: %s; %s", hint.Value, hint.Help, hint.Allowed)
		if hint.Policies != "" {
			usage += "; for " + hint.Policies
		}
		fs.StringVar(&f.hints[i], hint.Name, "", fmt.Sprintf("%s ($%s)", usage, client.HintVariable(hint)))
	}
	fs.StringVar(&f.level, "level", "auto", "preemption level `L`: auto, 1, 2 or 3 ($XMSCHED_LEVEL)")
	fs.StringVar(&f.threshold, "threshold", "", "let at most `N` commands wait in a queue while others compete; without it 256 at levels 2 and 3, and 16 at level 1 ($XMSCHED_THRESHOLD)")
	fs.StringVar(&f.batch, "batch", "", "note completion every `N` commands, at most the threshold; without it 8, or 64 at levels 2 and 3 without --threshold ($XMSCHED_BATCH)")
	fs.StringVar(&f.memoryLimit, "memory-limit", "", "each process may allocate at most `SIZE` on a device, such as 16GiB, and is told that the device has no more; where the daemon manages memory ($XMSCHED_MEMORY_LIMIT)")
	fs.BoolVar(&f.pinMemory, "pin-memory", false, "the command's memory stays on the device and is counted there: for programs that share theirs with others by cuIpcGetMemHandle ($"+client.PinVariable+")")
	fs.StringVar(&f.slice, "slice", "", "length `D` of a turn, also where turns would be made longer to hide the moving of memory; the same as --quantum")
	fs.BoolVar(&f.sim, "sim", false, "use the simulated GPU, started if need be")
	fs.BoolVar(&f.perProcess, "per-process", false, "each process that the command starts is a task by itself ($XMSCHED_PER_PROCESS)")
	fs.BoolVar(&f.learn, "learn", false, "learn which memory the command's kernels touch; it runs slower meanwhile, on unified memory as far as there is room for it ($XMSCHED_LEARN)")
	fs.BoolVar(&f.requireDaemon, "require-daemon", false, "do not run without a daemon ($XMSCHED_REQUIRE_DAEMON)")
}

// source gives a setting's text and where it comes from.
type source struct {
	set *pflag.FlagSet
	env map[string]string
}

func (s source) text(flag, variable, xsched string) (text, from string) {
	if f := s.set.Lookup(flag); f.Changed {
		return f.Value.String(), "--" + flag
	}
	for _, name := range []string{variable, xsched} {
		if v := s.env[name]; v != "" {
			return v, name
		}
	}
	return s.set.Lookup(flag).DefValue, ""
}

// settings decides what counts: a flag before its XMSCHED_ variable before
// XSched's. The error is a *cli.UsageError with the value and what is allowed.
func (f *flags) settings(set *pflag.FlagSet, environ []string, command string) (settings, error) {
	src := source{set, variables(environ)}
	s := settings{sim: f.sim}
	var err error
	for _, w := range []struct {
		set      *bool
		variable string
		flag     bool
	}{
		{&s.requireDaemon, "XMSCHED_REQUIRE_DAEMON", f.requireDaemon}, {&s.perProcess, perProcess, f.perProcess},
		{&s.learn, client.LearnVariable, f.learn}, {&s.pinMemory, client.PinVariable, f.pinMemory},
	} {
		if *w.set, err = yes(w.variable, src.env); err != nil {
			return s, err
		}
		*w.set = *w.set || w.flag
	}
	for _, hint := range compute.HintList() {
		text, from := src.text(hint.Name, client.HintVariable(hint), hint.XSched)
		if hint.Name == "quantum" && f.slice != "" {
			if from == "--quantum" && text != f.slice {
				return s, cli.Usagef("--slice %s and --quantum %s: they are the same, give one of them", f.slice, text)
			}
			text, from = f.slice, "--slice"
		}
		if err := readHint(hint, text, from, &s.hints); err != nil {
			return s, err
		}
	}
	text, from := src.text("threshold", "XMSCHED_THRESHOLD", "XSCHED_AUTO_XQUEUE_THRESHOLD")
	if s.threshold, err = bound("threshold", text, from); err != nil {
		return s, err
	}
	text, from = src.text("batch", "XMSCHED_BATCH", "XSCHED_AUTO_XQUEUE_BATCH_SIZE")
	if s.batch, err = bound("batch", text, from); err != nil {
		return s, err
	}
	if s.threshold != 0 && s.batch > s.threshold {
		return s, cli.Usagef("batch %d%s: larger than the threshold, %d", s.batch, suffix(from), s.threshold)
	}
	text, from = src.text("level", "XMSCHED_LEVEL", "XSCHED_AUTO_XQUEUE_LEVEL")
	if s.level, err = level(text, from); err != nil {
		return s, err
	}
	text, from = src.text("memory-limit", client.MemoryLimitVariable, "")
	if s.memoryLimit, err = memoryLimit(text, from); err != nil {
		return s, err
	}
	text, from = src.text("name", "XMSCHED_NAME", "")
	if s.name, err = name(text, from, command); err != nil {
		return s, err
	}
	s.warnings = append(unknown(environ), meaningless(environ)...)
	return s, nil
}

// yes reads a variable that is 1 or 0; nothing is 0.
func yes(variable string, env map[string]string) (bool, error) {
	switch v := env[variable]; v {
	case "", "0":
		return false, nil
	case "1":
		return true, nil
	default:
		return false, cli.Usagef("%s %q: allowed are 1 and 0", variable, v)
	}
}

func number(what, text, from string, low, high int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, cli.Usagef("%s %q%s: not a number from %d to %d", what, text, suffix(from), low, high)
	}
	return n, nil
}

// bound reads a number of commands; none is 0.
func bound(what, text, from string) (int, error) {
	if text == "" {
		return 0, nil
	}
	return number(what, text, from, 1, maxThreshold)
}

// memoryLimit reads an amount of memory; none is 0.
func memoryLimit(text, from string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	b, err := memory.ParseBytes(text)
	if err != nil {
		return 0, cli.Usagef("memory-limit: %v%s", err, suffix(from))
	}
	if b < memory.Granularity {
		return 0, cli.Usagef("memory-limit %q%s: allowed are %s to %s", text, suffix(from), memory.Granularity, memory.MaxBytes)
	}
	return uint64(b), nil
}

// readHint reads a hint's text. In XSched's variables lengths of time are numbers
// of microseconds.
func readHint(hint compute.Hint, text, from string, into *compute.Hints) error {
	given := text
	if strings.HasPrefix(from, "XSCHED_") && hint.Value == "D" && text != "" {
		given += "us"
	}
	if err := hint.Parse(given, into); err != nil {
		return cli.Usagef("%s %q%s: not %s", hint.Name, text, suffix(from), hint.Allowed)
	}
	return nil
}

// level refuses what there is none of. Whether a device has it is found out by the
// program, and said by the agent.
func level(text, from string) (string, error) {
	text = strings.ToLower(text)
	if err := client.CheckLevel(text); err != nil {
		return "", cli.Usagef("%v%s", err, suffix(from))
	}
	return text, nil
}

func name(text, from, command string) (string, error) {
	if text == "" {
		text = filepath.Base(command)
		text = strings.Map(printable, strings.ToValidUTF8(text, "?"))
		if len(text) > maxName {
			text = strings.ToValidUTF8(text[:maxName], "") // less a rune that was cut
		}
		return text, nil
	}
	if len(text) > maxName {
		return "", cli.Usagef("name %q%s: it has %d bytes, allowed are 1 to %d", text, suffix(from), len(text), maxName)
	}
	if !utf8.ValidString(text) || strings.Map(printable, text) != text {
		return "", cli.Usagef("name %q%s: allowed are printable characters, 1 to %d bytes of them", text, suffix(from), maxName)
	}
	return text, nil
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// suffix names where a value comes from.
func suffix(from string) string {
	if from == "" {
		return ""
	}
	return " (" + from + ")"
}

// xschedNames are the variables of XSched that have a meaning here.
var xschedNames = append([]string{
	"XSCHED_AUTO_XQUEUE_THRESHOLD", "XSCHED_AUTO_XQUEUE_BATCH_SIZE", "XSCHED_AUTO_XQUEUE_LEVEL",
}, hintNames(func(h compute.Hint) string { return h.XSched })...)

// hintNames collects a name of each hint.
func hintNames(of func(compute.Hint) string) (names []string) {
	for _, h := range compute.HintList() {
		if name := of(h); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// instead says what to do in place of a variable of XSched.
var instead = map[string]string{
	"XSCHED_AUTO_XQUEUE": "every queue of a program under xrun is scheduled",
	"XSCHED_POLICY":      "the policy is the daemon's: xcli policy set NAME",
	"XSCHED_SCHEDULER":   "the scheduler is always xserver",
}

// known are the variables of ours that somebody may want to set.
var known = slices.Sorted(slices.Values(append([]string{
	"XMSCHED_BATCH", "XMSCHED_DIR", client.LearnVariable, client.LearnLogVariable, "XMSCHED_LEVEL", "XMSCHED_LIB", client.MemoryLimitVariable, client.MemoryLogVariable, "XMSCHED_NAME", perProcess, client.PinVariable,
	"XMSCHED_MEMORY_WAIT", "XMSCHED_REQUIRE_DAEMON", "XMSCHED_SIM_DEVICES", "XMSCHED_SIM_HBM", "XMSCHED_SIM_RM", "XMSCHED_SIM_SCALE",
	"XMSCHED_STATE", "XMSCHED_TEMPLATES", "XMSCHED_THRESHOLD",
}, hintNames(client.HintVariable)...)))

// internal are the variables by which our own parts tell each other something.
var internal = []string{"XMSCHED_SIM_SOCKET", client.MemoryVariable, taskToken, warned}

// unknown warns, in one line, of variables that look like ours and are not.
func unknown(environ []string) []string {
	var names []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		ours := slices.Contains(known, name) || slices.Contains(internal, name) ||
			strings.HasPrefix(name, "XMSCHED_TEST_") || strings.HasPrefix(name, "XMSCHED_CONFORMANCE_")
		if strings.HasPrefix(name, "XMSCHED_") && !ours && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil
	}
	slices.Sort(names)
	return []string{strings.Join(names, ", ") + ": not known, and without effect; there are " + strings.Join(known, ", ")}
}

func meaningless(environ []string) []string {
	var lines []string
	for _, entry := range environ {
		variable, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(variable, "XSCHED_") || slices.Contains(xschedNames, variable) {
			continue
		}
		line := variable + " has no meaning here"
		if why := instead[variable]; why != "" {
			line += ": " + why
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// variables reads an environment; of a name that is there twice the first
// counts, as with getenv.
func variables(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		variable, value, ok := strings.Cut(entry, "=")
		if _, there := env[variable]; ok && !there {
			env[variable] = value
		}
	}
	return env
}

// without is an environment less one variable.
func without(environ []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return strings.HasPrefix(entry, name+"=")
	})
}

// with is an environment with a variable set, at its end.
func with(environ []string, name, value string) []string {
	return append(without(environ, name), name+"="+value)
}

// libraryFolder is $XMSCHED_LIB, else ../lib/xmsched or ../lib beside this
// binary's folder, whichever has the library.
func libraryFolder() (string, error) {
	if dir := os.Getenv("XMSCHED_LIB"); dir != "" {
		return checkedFolder(dir)
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", err
	}
	lib := filepath.Join(filepath.Dir(exe), "..", "lib")
	if dir, err := checkedFolder(filepath.Join(lib, "xmsched")); err == nil {
		return dir, nil
	}
	return checkedFolder(lib)
}
