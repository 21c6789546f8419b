package bpf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// table is the table of hooks in the kernel.
type table struct {
	rows    []row
	numbers map[row]uint32
}

// row is a row of the table in the kernel, and what it is here.
type row struct {
	hook                 hook
	first                opening
	stream, value, other where
}

// number is the row that says what the place is.
func (t *table) number(p place, k *kernel) (uint32, error) {
	r, err := here.row(p)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.symbol, err)
	}
	if n, ok := t.numbers[r]; ok {
		return n, nil
	}
	n := uint32(len(t.rows))
	if err := k.maps.Hooks.Update(n, r.encode(), ebpf.UpdateAny); err != nil {
		return 0, fmt.Errorf("%s: describe hook: %w", p.symbol, err)
	}
	t.rows = append(t.rows, r)
	t.numbers[r] = n
	return n, nil
}

// hooked is a library with hooks. It is held open, so that the hooks that are
// taken away and put back are always the same file's, whoever has ended.
type hooked struct {
	file     *os.File
	commands []attachment // hooked in windows
	rest     []link.Link  // always hooked
	links    []link.Link  // of the commands, while they are hooked
}

func (h *hooked) path() string { return fmt.Sprintf("/proc/self/fd/%d", h.file.Fd()) }

func (h *hooked) close() {
	closeAll(h.rest)
	closeAll(h.links)
	_ = h.file.Close() // it was only read
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
	h, err := o.hookPlaces(pid, l, places)
	if err != nil {
		err = fmt.Errorf("%s of process %d: %w", l.path, pid, err)
	} else {
		o.hooked = append(o.hooked, h)
	}
	o.files[l.file] = err
	return err
}

func (o *Observer) hookPlaces(pid int, l library, places func(io.ReaderAt) ([]place, error)) (_ *hooked, err error) {
	h := &hooked{}
	if h.file, err = l.open(pid); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	all, err := places(h.file)
	if err != nil {
		return nil, err
	}
	var rest []attachment
	for _, p := range all {
		if o.options.only != nil && !o.options.only(p.symbol) {
			continue
		}
		n, err := o.table.number(p, o.kernel)
		if err != nil {
			return nil, err
		}
		a := attachment{p.offset, n, p.returns()}
		if p.kind.hot() {
			h.commands = append(h.commands, a)
		} else {
			rest = append(rest, a)
		}
	}
	if h.rest, err = o.kernel.attach(h.path(), rest, o.options.PID); err != nil {
		return nil, err
	}
	if o.windows.open() {
		h.links, err = o.kernel.attach(h.path(), h.commands, o.options.PID)
	}
	return h, err
}
