package bpf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Options say what is observed.
type Options struct {
	PID      int  // this process; 0: all that use the driver
	oneByOne bool // as on kernels without uprobe.multi; for tests
}

// Observer has hooks in one or all programs. Not for several goroutines at once.
type Observer struct {
	options Options
	kernel  *kernel
	rows    []row
	numbers map[row]uint32
	files   map[file]error // that were looked at; nil: they have hooks
	links   []link.Link
	began   uint64
	cost    Cost
	users   map[int]bool // processes that had the driver mapped when somebody looked
}

// row is a row of the table in the kernel, and what it is here.
type row struct {
	hook                 hook
	first                opening
	stream, value, other where
}

// NoDriverError says that a process has no driver library mapped.
type NoDriverError struct {
	PID      int
	Children []int // of it that have
}

func (e *NoDriverError) Error() string {
	text := fmt.Sprintf("process %d uses no CUDA driver (no libcuda.so is mapped in it)", e.PID)
	switch len(e.Children) {
	case 0:
		return text
	case 1:
		return fmt.Sprintf("%s; its child %d does", text, e.Children[0])
	}
	return fmt.Sprintf("%s; its children %v do", text, e.Children)
}

// Open hooks what the options say. Errors: *PermissionError, *NoDriverError,
// fs.ErrNotExist when there is no such process.
func Open(options Options) (*Observer, error) {
	if options.PID != 0 {
		if err := usable(options.PID); err != nil {
			return nil, err
		}
	}
	cost, err := calibrate(options.oneByOne)
	if err != nil {
		return nil, fmt.Errorf("measure what a hook costs: %w", err)
	}
	k, err := load(uint32(options.PID), options.oneByOne)
	if err != nil {
		return nil, err
	}
	o := &Observer{options: options, kernel: k, numbers: map[row]uint32{}, files: map[file]error{}, cost: cost, users: map[int]bool{}}
	if err := o.Look(); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.began = clock()
	return o, nil
}

// usable says why a process cannot be observed.
func usable(pid int) error {
	found, err := libraries(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return &PermissionError{err}
	case err != nil:
		return err
	case !hasDriver(found):
		return &NoDriverError{pid, childrenUsing(pid)}
	}
	return nil
}

// Look hooks libraries that are new since the last time: of programs that started
// meanwhile. Hooks of a file hold for whoever maps it. With one process a library
// that cannot be hooked is an error; with all it is noted (Snapshot.Failed).
func (o *Observer) Look() error {
	pids := []int{o.options.PID}
	if o.options.PID == 0 {
		var err error
		if pids, err = Users(); err != nil {
			return err
		}
	}
	for _, pid := range pids {
		found, err := libraries(pid)
		if pid == os.Getpid() || err != nil { // it has ended
			continue
		}
		o.users[pid] = true
		err = o.hook(pid, found)
		if err != nil && o.options.PID != 0 {
			return err
		}
	}
	return nil
}

// hook puts hooks into the files of one process. Where it runs under the preload
// library and that has sites, these are hooked and not the driver.
func (o *Observer) hook(pid int, found []library) error {
	for _, l := range found {
		if l.ours && o.hookFile(pid, l, sitesIn) == nil {
			return nil
		}
	}
	var errs []error
	for _, l := range found {
		if !l.ours {
			errs = append(errs, o.hookFile(pid, l, placesIn))
		}
	}
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}

// hookFile puts hooks into a file, once.
func (o *Observer) hookFile(pid int, l library, places func(io.ReaderAt) ([]place, error)) error {
	if err, known := o.files[l.file]; known {
		return err
	}
	err := o.hookPlaces(pid, l, places)
	if err != nil {
		err = fmt.Errorf("%s of process %d: %w", l.path, pid, err)
	}
	o.files[l.file] = err
	return err
}

func (o *Observer) hookPlaces(pid int, l library, places func(io.ReaderAt) ([]place, error)) error {
	path, err := l.reach(pid)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	at, err := places(f)
	if err != nil {
		return err
	}
	attachments := make([]attachment, 0, len(at))
	for _, p := range at {
		n, err := o.row(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.symbol, err)
		}
		attachments = append(attachments, attachment{p.offset, n, p.returns()})
	}
	links, err := o.kernel.attach(path, attachments, o.options.PID)
	if err != nil {
		return err
	}
	o.links = append(o.links, links...)
	return nil
}

// row is the number of the row in the kernel's table that says what the place is.
func (o *Observer) row(p place) (uint32, error) {
	r, err := here.row(p)
	if err != nil {
		return 0, err
	}
	if n, ok := o.numbers[r]; ok {
		return n, nil
	}
	n := uint32(len(o.rows))
	if err := o.kernel.maps.Hooks.Update(n, r.encode(), ebpf.UpdateAny); err != nil {
		return 0, fmt.Errorf("describe hook: %w", err)
	}
	o.rows = append(o.rows, r)
	o.numbers[r] = n
	return n, nil
}

// Snapshot reads what has been seen so far.
func (o *Observer) Snapshot() (*Snapshot, error) {
	r, err := o.kernel.read()
	if err != nil {
		return nil, err
	}
	now := clock()
	s := &Snapshot{Took: time.Duration(now - o.began), Missing: o.kernel.missing, LostHits: r.lostHits, LostNews: r.lostNews, Cost: o.cost}
	for _, err := range o.files {
		if err != nil {
			s.Failed = append(s.Failed, err.Error())
		}
	}
	slices.Sort(s.Failed)
	s.Processes = r.figures(o.rows, o.cost, o.began, now)
	for pid := range o.users {
		if !slices.ContainsFunc(s.Processes, func(f Figures) bool { return f.PID == pid }) {
			s.Silent = append(s.Silent, pid)
		}
	}
	slices.Sort(s.Silent)
	return s, nil
}

// Close takes the hooks away.
func (o *Observer) Close() error {
	closeAll(o.links)
	o.links = nil
	return o.kernel.Close()
}
