// Package house checks that the project keeps to its own plan: which room may
// import which, and what may not happen in a room. It reads the source and
// what `go list` says of it, and it changes nothing; the rules are data, and
// its test applies them to the tree.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Module is the project's module path; a room is a folder right below it.
const Module = "xmsched"

// Package is what the rules need of `go list -json`.
type Package struct {
	ImportPath   string
	Dir          string
	Name         string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	CgoFiles     []string
	TestGoFiles  []string
	XTestGoFiles []string
	Error        *struct{ Err string }
}

// Violation is one breach, with the file or package it is in.
type Violation struct{ Where, What string }

func (v Violation) String() string { return v.Where + ": " + v.What }

// Load lists the packages of the module at root with all that they depend on.
func Load(root string) ([]Package, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-json", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w: %s", root, err, stderr.String())
	}
	var packages []Package
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read go list's answer: %w", err)
		}
		packages = append(packages, p)
	}
}

// Check applies every rule to the module at root.
func Check(root string) ([]Violation, error) {
	packages, err := Load(root)
	if err != nil {
		return nil, err
	}
	violations, err := checkFolders(root)
	if err != nil {
		return nil, err
	}
	violations = append(violations, checkImports(packages)...)
	for _, p := range packages {
		if !own(p.ImportPath) {
			continue
		}
		v, err := checkSource(p)
		if err != nil {
			return nil, err
		}
		violations = append(violations, v...)
	}
	return violations, nil
}

// folders are the rooms, and tools/, which pins what the build uses.
var folders = []string{
	"compute", "memory", "predictor", "shim", "hal", "preempt", "xserver", "nvx", "cmd", "bench", "tools",
}

// files are what else may lie in the root. Dotfiles may too.
var files = []string{"go.mod", "go.sum", "Makefile", "README.md", "LICENSE"}

// made are the folders of what was built or measured; git ignores them.
var made = []string{"bin", "lib", "dist", "demo-results"}

func checkFolders(root string) ([]Violation, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var violations []Violation
	for _, e := range entries {
		name, allowed := e.Name(), files
		if strings.HasPrefix(name, ".") {
			continue
		}
		if e.IsDir() {
			allowed = slices.Concat(folders, made)
		}
		if !slices.Contains(allowed, name) {
			violations = append(violations, Violation{filepath.Join(root, name), "is no room of the house"})
		}
	}
	return violations, nil
}

func own(path string) bool { return path == Module || strings.HasPrefix(path, Module+"/") }

// under says whether a package lies in a room or a part of one, both named
// without the module's path.
func under(path, room string) bool {
	path = strings.TrimPrefix(path, Module+"/")
	return path == room || strings.HasPrefix(path, room+"/")
}
