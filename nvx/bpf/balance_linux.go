package bpf

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"
)

// balance takes the hooks on commands away when they have cost too much, and puts
// them back when the mean is below the limit again.
func (o *Observer) balance() error {
	if o.options.LimitPercent <= 0 {
		return nil
	}
	r := &reading{counts: map[observeCountKey]observeCount{}}
	if err := o.kernel.readCounts(r); err != nil {
		return err
	}
	now := clock()
	spent := r.spent(o.table.rows, o.cost)
	for _, f := range o.gone {
		spent += f.Cost
	}
	due := o.windows.due(spent, since(o.windows.first(), now), o.options.LimitPercent, now)
	switch {
	case due && !o.windows.open():
		return o.resume()
	case !due && o.windows.open():
		return o.pause()
	}
	return nil
}

func (o *Observer) pause() error {
	now := clock()
	slot := uint32(o.windows.number() / 2 % uint64(o.kernel.maps.Ends.MaxEntries()))
	if err := o.kernel.maps.Ends.Update(slot, now, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("end window: %w", err)
	}
	o.windows.end(now)
	if err := o.tellWindow(); err != nil {
		return err
	}
	for _, h := range o.hooked {
		closeAll(h.links)
		h.links = nil
	}
	return nil
}

func (o *Observer) resume() error {
	for _, h := range o.hooked {
		var err error
		if h.links, err = o.kernel.attach(h.path(), h.commands, o.options.PID); err != nil {
			return fmt.Errorf("put hooks back: %w", err)
		}
	}
	o.windows.begin(clock())
	return o.tellWindow()
}

func (o *Observer) tellWindow() error {
	if err := o.kernel.vars.Window.Set(o.windows.number()); err != nil {
		return fmt.Errorf("tell of window: %w", err)
	}
	return nil
}

// retire takes processes that have ended out of the maps, which have an end, and
// keeps their figures. Their numbers may be another's soon.
func (o *Observer) retire(alive []int) error {
	var gone []int
	for pid := range o.users {
		if !slices.Contains(alive, pid) && syscall.Kill(pid, 0) == syscall.ESRCH {
			gone = append(gone, pid)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	r, err := o.kernel.read()
	if err != nil {
		return err
	}
	for _, f := range o.figures(r, clock()) {
		if slices.Contains(gone, f.PID) {
			f.Left = true
			o.gone = append(o.gone, f)
		}
	}
	for _, pid := range gone {
		delete(o.users, pid)
	}
	return o.kernel.forget(gone)
}

// forget takes everything of some processes out of the maps.
func (k *kernel) forget(pids []int) error {
	ended := func(pid uint32) bool { return slices.Contains(pids, int(pid)) }
	return errors.Join(
		deleteKeys(k.maps.Processes, func(key observeProcessKey) bool { return ended(key.Pid) }),
		deleteKeys(k.maps.Counts, func(key observeCountKey) bool { return ended(key.Pid) }),
		deleteKeys(k.maps.Streams, func(key observeStreamKey) bool { return ended(key.Pid) }),
		deleteKeys(k.maps.Events, func(key observeEventKey) bool { return ended(key.Pid) }),
		deleteKeys(k.maps.Memory, func(key observeMemoryKey) bool { return ended(key.Pid) }),
	)
}

// deleteKeys takes out what condition holds for. Going through a map while it
// changes may begin again or miss some; those stay.
func deleteKeys[K any](m *ebpf.Map, condition func(K) bool) error {
	var keys []K
	var key K
	var next *K
	for range m.MaxEntries() {
		var err error
		if next == nil {
			err = m.NextKey(nil, &key)
		} else {
			err = m.NextKey(*next, &key)
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			break
		}
		if err != nil {
			return fmt.Errorf("go through %v: %w", m, err)
		}
		if condition(key) {
			keys = append(keys, key)
		}
		last := key
		next = &last
	}
	for _, key := range keys {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete from %v: %w", m, err)
		}
	}
	return nil
}
