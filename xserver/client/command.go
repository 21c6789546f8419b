package client

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Command is how one of our programs is called by hand here and now, for
// sentences that say what to type: by its name where the search path has it, else
// by the path of the one beside this program, or beside the libraries.
func Command(name string) string {
	exe, _ := os.Executable()
	return command(name, exe, os.Getenv("XMSCHED_LIB"))
}

func command(name, exe, lib string) string {
	found, err := exec.LookPath(name)
	if err != nil {
		found = ""
	}
	for _, path := range beside(name, exe, lib) {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if there, err := os.Stat(found); err == nil && os.SameFile(info, there) {
			return name
		}
		return Quote(near(path))
	}
	return name
}

// beside lists where our programs lie, as make build and make install have them.
func beside(name, exe, lib string) []string {
	var paths []string
	if exe != "" {
		paths = append(paths, filepath.Join(filepath.Dir(exe), name))
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			paths = append(paths, filepath.Join(filepath.Dir(real), name))
		}
	}
	if lib != "" {
		paths = append(paths, filepath.Join(lib, "..", "bin", name), filepath.Join(lib, "..", "..", "bin", name))
	}
	return paths
}

// near is a path from the working directory, for what lies in it.
func near(path string) string {
	here, err := os.Getwd()
	if err != nil || here == "/" {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || short == ".." || strings.HasPrefix(short, "../") {
		return path
	}
	if !strings.Contains(short, "/") {
		return "./" + short
	}
	return short
}

// Quote makes a word that a shell takes as it is.
func Quote(word string) string {
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("@%+=:,./_-", r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
