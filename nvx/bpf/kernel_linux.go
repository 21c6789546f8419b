package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// PermissionError says that the kernel does not let this user observe.
type PermissionError struct{ Err error }

func (e *PermissionError) Error() string {
	return fmt.Sprintf("observing needs root, or CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE for programs of other users): %v", e.Err)
}

func (e *PermissionError) Unwrap() error { return e.Err }

// Missing is a hook that this kernel lacks.
type Missing struct {
	Hook    string `json:"hook"`
	Why     string `json:"why"`
	Without string `json:"without"` // what is not known, or is done instead
}

// kernel is the programs and maps of one observer, loaded.
type kernel struct {
	maps         observeMaps
	vars         observeVariables
	enter, leave *ebpf.Program
	exits        link.Link // nil where there is no such hook
	multi        bool      // uprobe.multi: one call for all hooks of a library
	noReturns    bool      // returns are not hooked, for a reason that is in missing
	missing      []Missing
}

// lacks takes note of a missing hook, once.
func (k *kernel) lacks(m Missing) {
	if !slices.ContainsFunc(k.missing, func(known Missing) bool { return known.Hook == m.Hook }) {
		k.missing = append(k.missing, m)
	}
}

// withoutReturns is what cannot be said where returns are not hooked.
const withoutReturns = "what is allocated, and when the device was busy, is not known; calls are counted"

// load brings the programs into the kernel. With single the hooks are attached one
// by one, as on older kernels.
func load(single bool) (*kernel, error) {
	_ = rlimit.RemoveMemlock() // older kernels count maps as locked memory; a refusal shows below
	spec, err := loadObserve()
	if err != nil {
		return nil, fmt.Errorf("read bpf objects: %w", err)
	}
	ns, err := namespace()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[observeVarNamespace].Set(ns); err != nil {
		return nil, fmt.Errorf("set up bpf program: %w", err)
	}
	k := &kernel{}
	if why := features.HaveBPFLinkUprobeMulti(); why == nil && !single {
		k.multi = true
		spec.Programs[observeProgEnter].AttachType = ebpf.AttachTraceUprobeMulti
		spec.Programs[observeProgLeave].AttachType = ebpf.AttachTraceUprobeMulti
	} else if why != nil && !errors.Is(why, unix.EPERM) {
		k.lacks(Missing{"uprobe.multi", why.Error(), "hooks are attached one by one"})
	}
	exits := spec.Programs[observeProgLeft]
	delete(spec.Programs, observeProgLeft)
	var objects struct {
		observeMaps
		observeVariables
		Enter *ebpf.Program `ebpf:"enter"`
		Leave *ebpf.Program `ebpf:"leave"`
	}
	options := ebpf.CollectionOptions{Cache: btf.NewCache()} // the kernel's types are read once
	if err := spec.LoadAndAssign(&objects, &options); err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) && unix.Geteuid() != 0 {
			return nil, &PermissionError{err}
		}
		return nil, fmt.Errorf("load bpf programs: %w", err)
	}
	k.maps, k.vars, k.enter, k.leave = objects.observeMaps, objects.observeVariables, objects.Enter, objects.Leave
	k.watchExits(spec, exits, options)
	return k, nil
}

// watchExits attaches the program that sees processes end. It is loaded by itself,
// since a kernel without the hook refuses the program.
func (k *kernel) watchExits(spec *ebpf.CollectionSpec, exits *ebpf.ProgramSpec, options ebpf.CollectionOptions) {
	err := k.attachExits(spec, exits, options)
	if err != nil {
		k.lacks(Missing{"tp_btf/sched_process_exit", err.Error(), "the end of a process is seen when one looks, not when it is"})
	}
}

func (k *kernel) attachExits(spec *ebpf.CollectionSpec, exits *ebpf.ProgramSpec, options ebpf.CollectionOptions) error {
	alone := spec.Copy()
	alone.Programs = map[string]*ebpf.ProgramSpec{observeProgLeft: exits}
	options.MapReplacements = map[string]*ebpf.Map{
		observeMapProcesses: k.maps.Processes,
		observeMapNews:      k.maps.News,
	}
	maps.DeleteFunc(alone.Maps, func(name string, _ *ebpf.MapSpec) bool {
		return options.MapReplacements[name] == nil && name[0] != '.'
	})
	coll, err := ebpf.NewCollectionWithOptions(alone, options)
	if err != nil {
		return err
	}
	defer coll.Close()
	k.exits, err = link.AttachTracing(link.TracingOptions{Program: coll.Programs[observeProgLeft]})
	return err
}

// observe says which process counts; 0: all.
func (k *kernel) observe(pid int) error {
	if err := k.vars.Only.Set(uint32(pid)); err != nil {
		return fmt.Errorf("set up bpf program: %w", err)
	}
	return nil
}

// Close takes everything out of the kernel.
func (k *kernel) Close() error {
	var err error
	if k.exits != nil {
		err = k.exits.Close()
	}
	return errors.Join(err, k.enter.Close(), k.leave.Close(), k.maps.Close())
}

// attach hooks the places of one file, whose rows are in the table, for one process
// or, with 0, for whoever runs them.
func (k *kernel) attach(path string, at []attachment, pid int) ([]link.Link, error) {
	exe, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	var returning []attachment
	for _, a := range at {
		if a.returns && !k.noReturns {
			returning = append(returning, a)
		}
	}
	links, err := k.attachAll(at, pid, exe.UprobeMulti, exe.Uprobe, k.enter)
	if err == nil && len(returning) > 0 {
		var more []link.Link
		more, err = k.attachAll(returning, pid, exe.UretprobeMulti, exe.Uretprobe, k.leave)
		links = append(links, more...)
		if errors.Is(err, ebpf.ErrNotSupported) { // the rest goes on
			k.noReturns = true
			k.lacks(Missing{"uretprobe", err.Error(), withoutReturns})
			err = nil
		}
	}
	if err != nil {
		closeAll(links)
		return nil, err
	}
	return links, nil
}

// attachment is a hook to be attached.
type attachment struct {
	offset  uint64
	row     uint32
	returns bool
}

type (
	attachMany = func([]string, *ebpf.Program, *link.UprobeMultiOptions) (link.Link, error)
	attachOne  = func(string, *ebpf.Program, *link.UprobeOptions) (link.Link, error)
)

func (k *kernel) attachAll(at []attachment, pid int, many attachMany, one attachOne, prog *ebpf.Program) ([]link.Link, error) {
	if k.multi {
		opts := link.UprobeMultiOptions{PID: uint32(pid)}
		for _, a := range at {
			opts.Addresses = append(opts.Addresses, a.offset)
			opts.Cookies = append(opts.Cookies, uint64(a.row))
		}
		l, err := many(nil, prog, &opts)
		if err != nil {
			return nil, fmt.Errorf("attach %d hooks: %w", len(at), err)
		}
		return []link.Link{l}, nil
	}
	var links []link.Link
	for _, a := range at {
		l, err := one("", prog, &link.UprobeOptions{Address: a.offset, Cookie: uint64(a.row), PID: pid})
		if err != nil {
			closeAll(links)
			return nil, fmt.Errorf("attach hook at %#x: %w", a.offset, err)
		}
		links = append(links, l)
	}
	return links, nil
}

// closeAll takes hooks away, many at a time: the kernel waits for all processors at
// each, and waits for several at once.
func closeAll(links []link.Link) {
	var g sync.WaitGroup
	for _, l := range links {
		g.Go(func() { _ = l.Close() }) // the kernel lets go of it in any case
	}
	g.Wait()
}
