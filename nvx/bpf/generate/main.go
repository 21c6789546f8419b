// Command generate compiles the programs of package bpf into the object files
// that are committed, with bpf2go. It is run by go generate in nvx/bpf.
//
// Another version of clang writes other objects from the same text, so only the
// one that they were made with writes them; where it is not installed the files
// stay as they are and one line says so. Nobody needs clang to build or test.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const compiler = "14" // of clang

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate bpf objects:", err)
		os.Exit(1)
	}
}

func run() error {
	clang, strip := find("clang"), find("llvm-strip")
	if clang == "" || strip == "" {
		fmt.Printf("bpf objects not made again: needs clang and llvm-strip %s\n", compiler)
		return nil
	}
	cmd := exec.Command("go", "tool", "-modfile=../../tools/go.mod", "bpf2go",
		"-cc", clang, "-strip", strip,
		"-target", "amd64,arm64", "-go-package", "bpf",
		"observe", "program/observe.c",
		"--", "-mcpu=v3", "-Wall", "-Wextra", "-Werror")
	cmd.Stderr = os.Stderr // on success it lists the files, which nobody asked for
	// Outside of its own package's environment bpf2go takes the package's name from the flag alone.
	return cmd.Run()
}

// find is the program of that name in the version that is needed; empty: not here.
func find(name string) string {
	for _, candidate := range []string{name + "-" + compiler, name} {
		out, err := exec.Command(candidate, "--version").CombinedOutput()
		if err == nil && strings.Contains(string(out), "version "+compiler+".") {
			return candidate
		}
	}
	return ""
}
