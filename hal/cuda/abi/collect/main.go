// Command collect reads the facts of the CUDA driver's binary interface on a
// machine that has the toolkit's headers, gcc and the driver, and writes them as
// JSON (package facts).
//
// Types, sizes and offsets come from the debug information gcc writes for the
// headers; parameter names from the preprocessed declarations; what a driver
// answers from the driver itself, by a little C program (probe.c). No header
// text passes through: only names and numbers.
//
// It is run by hand when a driver or toolkit is new to us:
//
//	CGO_ENABLED=0 go build -o bin/abicollect ./hal/cuda/abi/collect
//	bin/abicollect -out facts        (on the GPU machine)
//	cp facts/*.json hal/cuda/abi/facts/ && go generate ./hal/cuda/abi
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"xmsched/hal/cuda/abi/internal/facts"
)

func main() {
	var (
		include = flag.String("include", "/usr/local/cuda/include", "folder of cuda.h and cudaTypedefs.h")
		out     = flag.String("out", ".", "folder for the facts; made when absent")
		gcc     = flag.String("gcc", "gcc", "C compiler")
		noDrv   = flag.Bool("headers-only", false, "leave the driver out")
	)
	flag.Parse()
	if err := run(*include, *out, *gcc, !*noDrv); err != nil {
		fmt.Fprintln(os.Stderr, "collect:", err)
		os.Exit(1)
	}
}

func run(include, out, gcc string, driver bool) error {
	tmp, err := os.MkdirTemp("", "abicollect")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}

	set := &facts.Set{}
	set.Origin.Date = time.Now().UTC().Format(time.DateOnly)
	set.Origin.Kernel = output("uname", "-r")
	set.Origin.Compiler = output(gcc, "-dumpfullversion")
	set.Origin.Driver = moduleVersion()

	cc := compiler{gcc: gcc, include: include, dir: tmp}
	if err := readHeaders(cc, set); err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	if driver {
		if err := askDriver(cc, set); err != nil {
			return fmt.Errorf("driver: %w", err)
		}
	}
	if err := set.Save(out); err != nil {
		return err
	}
	fmt.Printf("pointers %d, declarations %d, exports %d, answers %d, enumerators %d, macros %d, structs %d, errors %d\n",
		len(set.Pointers), len(set.Declarations), len(set.Exports), len(set.Answers), len(set.Enumerators),
		len(set.Macros), len(set.Structs), len(set.Errors))
	return nil
}

// compiler runs gcc in a scratch folder.
type compiler struct{ gcc, include, dir string }

func (c compiler) path(name string) string { return filepath.Join(c.dir, name) }

// run writes source to name and calls gcc with args on it.
func (c compiler) run(name, source string, args ...string) ([]byte, error) {
	if err := os.WriteFile(c.path(name), []byte(source), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(c.gcc, append(append([]string{"-I", c.include}, args...), name)...)
	cmd.Dir = c.dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("gcc %s %s: %w\n%s", strings.Join(args, " "), name, err, stderr.String())
	}
	return stdout, nil
}

func output(name string, args ...string) string {
	b, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// moduleVersion is the version in the first line of the kernel module's own
// report: the first word that looks like 123.45.
func moduleVersion() string {
	b, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	for _, w := range strings.Fields(first) {
		if w[0] >= '0' && w[0] <= '9' && strings.Count(w, ".") >= 1 {
			return w
		}
	}
	return ""
}
