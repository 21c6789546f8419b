package bpf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Options say what is observed, and what it may cost.
type Options struct {
	PID int // this process; 0: all that use the driver

	// What observing may cost the observed programs together, in percent of the
	// time; 0: whatever it does. Commands are looked at in windows that are cut
	// short so far that the mean stays below; memory and waits always are. Less
	// makes the estimates of busy and idle rest on less.
	LimitPercent float64

	// For tests.
	oneByOne bool              // as on kernels without uprobe.multi
	without  string            // why returns are not hooked
	only     func(string) bool // names that are hooked; nil: all
}

// Observer has hooks in one or all programs. Not for several goroutines at once.
type Observer struct {
	options Options
	kernel  *kernel
	table   table
	cost    Cost
	news    *ringbuf.Reader
	files   map[file]error // that were looked at; nil: they have hooks
	hooked  []*hooked
	windows windows
	users   map[int]about // processes that had the driver mapped when somebody looked
	gone    []Figures     // of processes that have ended, whose place was needed
}

// about is what is known of a process besides what it called.
type about struct {
	name    string
	command []string
	devices int
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
	k, err := load(options.oneByOne)
	if err != nil {
		return nil, err
	}
	o := &Observer{options: options, kernel: k, table: table{numbers: map[row]uint32{}}, files: map[file]error{}, users: map[int]about{}}
	if o.news, err = ringbuf.NewReader(k.maps.News); err != nil {
		return nil, errors.Join(fmt.Errorf("read news: %w", err), k.Close())
	}
	o.news.SetDeadline(time.Unix(1, 0)) // reading never waits
	if err := o.start(); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// start measures what a hook costs, and puts the hooks in.
func (o *Observer) start() error {
	var err error
	if o.cost, err = calibrate(o.kernel); err != nil {
		return fmt.Errorf("measure what a hook costs: %w", err)
	}
	if err := o.hear(); err != nil { // of ourselves
		return err
	}
	clear(o.users)
	if err := o.kernel.observe(o.options.PID); err != nil {
		return err
	}
	if why := cmp.Or(o.options.without, returnsEnd(o.options.PID)); why != "" {
		o.kernel.noReturns = true
		o.kernel.lacks(Missing{"uretprobe", why, withoutReturns})
	}
	o.windows.begin(clock())
	return o.Look()
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

// Look does what has to be done now and then, some times a second: hooks libraries
// that are new, of programs that started meanwhile; takes note of who came and
// left; and keeps within the limit of cost. Hooks of a file hold for whoever maps it.
// With one process a library that cannot be hooked is an error; with all it is
// noted (Snapshot.Failed).
func (o *Observer) Look() error {
	if err := o.hear(); err != nil {
		return err
	}
	if o.options.PID != 0 && len(o.hooked) > 0 {
		return o.balance()
	}
	pids := []int{o.options.PID}
	if o.options.PID == 0 {
		var err error
		if pids, err = Users(); err != nil {
			return err
		}
		if err := o.retire(pids); err != nil {
			return err
		}
	}
	for _, pid := range pids {
		found, err := libraries(pid)
		if pid == os.Getpid() || err != nil { // it has ended
			continue
		}
		o.meet(pid)
		if err := o.hook(pid, found); err != nil && o.options.PID != 0 {
			return err
		}
	}
	return o.balance()
}

// meet takes note of a process while it can be asked.
func (o *Observer) meet(pid int) {
	if _, known := o.users[pid]; !known {
		o.users[pid] = ask(pid)
	}
}

// hear reads who has made a first call: a process may have ended when somebody
// looks the next time, and then nobody knows how it was started.
func (o *Observer) hear() error {
	for {
		r, err := o.news.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read news: %w", err)
		}
		n, err := decodeNews(r.RawSample)
		if err != nil {
			return err
		}
		if n.what == newsCame {
			o.meet(int(n.pid))
		}
	}
}

// Snapshot reads what has been seen so far.
func (o *Observer) Snapshot() (*Snapshot, error) {
	if err := o.hear(); err != nil {
		return nil, err
	}
	r, err := o.kernel.read()
	if err != nil {
		return nil, err
	}
	now := clock()
	s := &Snapshot{
		Took: since(o.windows.first(), now), Looked: o.windows.within(o.windows.first(), now),
		Missing: o.kernel.missing, LostHits: r.lostHits, LostNews: r.lostNews, Cost: o.cost,
	}
	for _, err := range o.files {
		if err != nil {
			s.Failed = append(s.Failed, err.Error())
		}
	}
	slices.Sort(s.Failed)
	s.Processes = append(slices.Clone(o.gone), o.figures(r, now)...)
	for pid, about := range o.users {
		if !slices.ContainsFunc(s.Processes, func(f Figures) bool { return f.PID == pid }) {
			silent := Figures{PID: pid, Before: s.Took}
			about.fill(&silent)
			s.Processes = append(s.Processes, silent)
		}
	}
	slices.SortStableFunc(s.Processes, func(a, b Figures) int { return a.PID - b.PID })
	return s, nil
}

// figures are those of processes that are in the maps.
func (o *Observer) figures(r *reading, now uint64) []Figures {
	all := r.figures(o.table.rows, o.cost, &o.windows, now)
	for i := range all {
		if known, ok := o.users[all[i].PID]; ok {
			known.fill(&all[i])
		}
	}
	return all
}

// fill puts what is known of a process into its figures. The name is that of now:
// a program may have been seen first under its starter's.
func (a about) fill(f *Figures) {
	f.Command, f.Devices = a.command, a.devices
	if f.Name == "" {
		f.Name = a.name
	}
}

// Close takes the hooks away.
func (o *Observer) Close() error {
	for _, h := range o.hooked {
		h.close()
	}
	o.hooked = nil
	return errors.Join(o.news.Close(), o.kernel.Close())
}
