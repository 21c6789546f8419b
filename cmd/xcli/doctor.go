package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"xmsched/cmd/internal/cli"
	"xmsched/hal/cuda"
	"xmsched/xserver/client"
)

// check is one thing that has to be right.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Note   bool   `json:"note,omitempty"` // not right, and one can do without
	GPU    bool   `json:"-"`              // needed for a real GPU only
	Detail string `json:"detail"`
	next   string // what to type if it is not right
}

func doctorCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check driver, library, sockets and permissions, and say what to do next",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			checks := o.examine(c.Context())
			next, failed := prescribe(checks)
			if err := o.report(c.OutOrStdout(), checks, next); err != nil {
				return err
			}
			if failed {
				return &cli.ExitError{Code: cli.ExitFailure}
			}
			return nil
		},
	}
}

func (o *options) examine(ctx context.Context) []check {
	lib, libCheck := checkLibrary()
	checks := []check{checkDriver(), checkDeviceFiles(), libCheck}
	if libCheck.OK {
		checks = append(checks, checkGlibc(lib))
	}
	dir, err := o.runDir()
	if err != nil {
		return append(checks, check{Name: "run directory", Detail: err.Error(), next: "export XMSCHED_DIR=" + client.OwnDir(os.Geteuid())})
	}
	return append(checks, checkDir(dir), checkDaemon(ctx, dir))
}

// prescribe gives the next command to type.
func prescribe(checks []check) (next string, failed bool) {
	gpu := true
	for _, c := range checks {
		if c.OK {
			continue
		}
		if c.Note {
			gpu = gpu && !c.GPU
			continue
		}
		failed = true
		if next == "" {
			next = c.next
		}
	}
	switch {
	case failed:
		return next, true
	case gpu:
		return client.Command("xbench") + " demo", false
	}
	return client.Command("xbench") + " demo --sim", false
}

func (o *options) report(w io.Writer, checks []check, next string) error {
	if o.json {
		for _, c := range checks {
			if err := cli.JSON(w, c); err != nil {
				return err
			}
		}
		return cli.JSON(w, map[string]string{"next": next})
	}
	for _, c := range checks {
		mark := cli.Paint(w, cli.Green, "ok  ")
		switch {
		case c.Note && !c.OK:
			mark = cli.Paint(w, cli.Yellow, "note")
		case !c.OK:
			mark = cli.Paint(w, cli.Red, "FAIL")
		}
		if _, err := fmt.Fprintf(w, "%s  %-14s %s\n", mark, c.Name, c.Detail); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "next: %s\n", next)
	return err
}

func checkDriver() check {
	c := check{Name: "driver", Note: true, GPU: true}
	d, err := cuda.Open()
	if err != nil {
		c.Detail = fmt.Sprintf("%v (programs run on the simulated GPU)", err)
		return c
	}
	v, err := d.Version()
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	c.OK, c.Detail = true, fmt.Sprintf("%s, CUDA %d.%d", cuda.Library, v/1000, v%1000/10)
	return c
}

func checkDeviceFiles() check {
	const path = "/dev/nvidiactl"
	c := check{Name: "device files", Note: true, GPU: true}
	switch err := unix.Access(path, unix.R_OK|unix.W_OK); {
	case err == nil:
		c.OK, c.Detail = true, path+" can be opened"
	case errors.Is(err, unix.ENOENT):
		c.Detail = path + " is not there: no NVIDIA GPU, or its kernel module is not loaded"
	default:
		c.Detail = fmt.Sprintf("%s: %v for uid %d", path, err, os.Geteuid())
	}
	return c
}

// checkLibrary finds the folder that xrun would use.
func checkLibrary() (string, check) {
	c := check{Name: "library", next: "make build"}
	var missing []string
	for _, dir := range libraryFolders() {
		missing = missing[:0]
		for _, name := range []string{"libxmsched.so", "libxagent.so"} {
			if err := unix.Access(filepath.Join(dir, name), unix.R_OK); err != nil {
				missing = append(missing, fmt.Sprintf("%s: %v", filepath.Join(dir, name), err))
			}
		}
		if len(missing) == 0 {
			c.OK, c.Detail = true, "libxmsched.so and libxagent.so in "+dir
			return dir, c
		}
	}
	c.Detail = strings.Join(missing, "; ")
	return "", c
}

func libraryFolders() []string {
	if dir := os.Getenv("XMSCHED_LIB"); dir != "" {
		return []string{dir}
	}
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	lib := filepath.Join(filepath.Dir(exe), "..", "lib")
	return []string{filepath.Join(lib, "xmsched"), lib}
}

// checkGlibc compares this system's glibc with what the libraries need.
func checkGlibc(lib string) check {
	c := check{Name: "glibc", next: "make build    # on this machine, so that the libraries need no newer glibc"}
	have, err := glibcVersion()
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	var needs []string
	c.OK = true
	for _, name := range []string{"libxmsched.so", "libxagent.so"} {
		need, err := neededGlibc(filepath.Join(lib, name))
		if err != nil {
			c.OK, c.Detail = false, err.Error()
			return c
		}
		needs = append(needs, fmt.Sprintf("%s needs %s", name, need))
		c.OK = c.OK && !have.less(need)
	}
	c.Detail = fmt.Sprintf("%s; %s", have, strings.Join(needs, ", "))
	return c
}

// version is a glibc version.
type version struct{ major, minor int }

func (v version) less(o version) bool {
	return v.major < o.major || v.major == o.major && v.minor < o.minor
}

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func parseVersion(text string) (version, bool) {
	major, minor, ok := strings.Cut(text, ".")
	if !ok {
		return version{}, false
	}
	minor, _, _ = strings.Cut(minor, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return version{a, b}, err1 == nil && err2 == nil
}

// glibcVersion asks the C library that this process runs on.
func glibcVersion() (version, error) {
	f, err := purego.Dlsym(purego.RTLD_DEFAULT, "gnu_get_libc_version")
	if err != nil {
		return version{}, errors.New("the C library here is not glibc: programs cannot be scheduled")
	}
	p, _, _ := purego.SyscallN(f)
	text := cString(p)
	v, ok := parseVersion(text)
	if !ok {
		return version{}, fmt.Errorf("glibc calls itself %q", text)
	}
	return v, nil
}

// cString copies a static string of the C library.
func cString(p uintptr) string {
	if p == 0 {
		return ""
	}
	return unix.BytePtrToString(*(**byte)(unsafe.Pointer(&p)))
}

// neededGlibc is the highest version of glibc that a library imports from.
func neededGlibc(path string) (version, error) {
	f, err := elf.Open(path)
	if err != nil {
		return version{}, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return version{}, fmt.Errorf("read %s: %w", path, err)
	}
	var need version
	for _, s := range symbols {
		text, ok := strings.CutPrefix(s.Version, "GLIBC_")
		if !ok {
			continue
		}
		if v, ok := parseVersion(text); ok && need.less(v) {
			need = v
		}
	}
	return need, nil
}

func checkDir(dir string) check {
	c := check{Name: "run directory", next: startDaemon(dir)}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		c.OK, c.Detail = true, dir+" (the daemon makes it)"
	case err != nil:
		c.Detail = err.Error()
	case !info.IsDir():
		c.Detail, c.next = dir+" is not a directory", "rm "+client.Quote(dir)
	case info.Mode().Perm()&0o022 != 0:
		c.Detail, c.next = fmt.Sprintf("%s may be written by others (%v)", dir, info.Mode().Perm()), "chmod go-w "+client.Quote(dir)
	case client.Enterable(dir) != nil:
		c.Detail, c.next = client.Enterable(dir).Error(), "export XMSCHED_DIR="+client.OwnDir(os.Geteuid())
	default:
		c.OK, c.Detail = true, fmt.Sprintf("%s (%v)", dir, info.Mode().Perm())
	}
	return c
}

// startDaemon is the line that starts a daemon and leaves the shell free.
func startDaemon(dir string) string {
	return fmt.Sprintf("%s --dir %s &", client.Command("xserver"), client.Quote(dir))
}

// remedy is what to type about a daemon that cannot be asked.
func remedy(err error, dir string) string {
	var silent *client.SilentError
	var stranded *client.StrandedError
	var crowded *client.CrowdedError
	var denied *client.DeniedError
	switch {
	case errors.As(err, &silent) && silent.Stopped:
		return fmt.Sprintf("kill -CONT %d", silent.PID)
	case errors.As(err, &silent) && silent.PID != 0:
		return fmt.Sprintf("kill -9 %d; %s", silent.PID, startDaemon(dir))
	case errors.As(err, &stranded) && stranded.PID != 0:
		return fmt.Sprintf("kill %d; sleep 1; %s", stranded.PID, startDaemon(dir))
	case errors.As(err, &crowded):
		return "ps -u $(id -u)    # and end some of the programs that use the daemon"
	case errors.As(err, &denied):
		own := client.OwnDir(os.Geteuid())
		return fmt.Sprintf("export XMSCHED_DIR=%s; %s", own, startDaemon(own))
	}
	return startDaemon(dir)
}

func checkDaemon(ctx context.Context, dir string) check {
	c := check{Name: "daemon", next: startDaemon(dir)}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := client.Dial(ctx, dir)
	if err != nil {
		c.Detail = err.Error()
		c.next = remedy(err, dir)
		return c
	}
	defer conn.Close()
	s, err := conn.Status(ctx)
	if err != nil {
		c.Detail = err.Error()
		c.next = remedy(err, dir)
		return c
	}
	if err := unix.Access(filepath.Join(dir, client.BoardSocket), unix.W_OK); err != nil {
		c.Detail = fmt.Sprintf("%s: %v", client.BoardSocket, err)
		return c
	}
	c.OK, c.Detail = true, fmt.Sprintf("pid %d, version %s, policy %s", s.Pid, s.Version, s.Policy)
	if s.Version != cli.Version {
		c.OK, c.Note = false, true
		c.Detail += fmt.Sprintf("; this xcli is version %s", cli.Version)
	}
	return c
}
