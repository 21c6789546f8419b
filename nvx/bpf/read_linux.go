package bpf

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// read takes what the maps hold. Programs go on meanwhile, so the parts are of
// slightly different moments.
func (k *kernel) read() (*reading, error) {
	r := &reading{
		processes: map[observeProcessKey]observeProcess{},
		counts:    map[observeCountKey]observeCount{},
		waiting:   map[observeProcessKey]uint64{},
	}
	var key observeProcessKey
	var value []byte
	it := k.maps.Processes.Iterate()
	for it.Next(&key, &value) {
		p, err := decodeProcess(value)
		if err != nil {
			return nil, err
		}
		r.processes[key] = p
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("read processes: %w", err)
	}
	if err := k.readCounts(r); err != nil {
		return nil, err
	}
	if k.noReturns { // nobody sees waits end
		return r, k.readLost(r)
	}
	if err := k.readWaits(r); err != nil {
		return nil, err
	}
	return r, k.readLost(r)
}

// readLost finds what there was no room for.
func (k *kernel) readLost(r *reading) error {
	if err := errors.Join(k.vars.LostHits.Get(&r.lostHits), k.vars.LostNews.Get(&r.lostNews)); err != nil {
		return fmt.Errorf("read what was lost: %w", err)
	}
	return nil
}

func (k *kernel) readCounts(r *reading) error {
	var key observeCountKey
	var each []observeCount // of every processor
	it := k.maps.Counts.Iterate()
	for it.Next(&key, &each) {
		var sum observeCount
		for _, c := range each {
			sum.Hits += c.Hits
			sum.Bytes += c.Bytes
		}
		r.counts[key] = sum
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read counts: %w", err)
	}
	return nil
}

// readWaits finds the threads that are waiting.
func (k *kernel) readWaits(r *reading) error {
	const wait = uint32(kindWait)
	var key observeCallKey
	var c observeCall
	it := k.maps.Calls.Iterate()
	for it.Next(&key, &c) {
		p := observeProcessKey{Pid: uint32(key.Thread >> 32), Ours: key.Ours}
		if first := r.waiting[p]; key.Kind == wait && c.Outstanding > 0 && (first == 0 || c.At < first) {
			r.waiting[p] = c.At
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read waits: %w", err)
	}
	return nil
}

// childrenUsing are the descendants of a process that have the driver mapped.
func childrenUsing(pid int) []int {
	var using []int
	queue := []int{pid}
	for n := 0; len(queue) > 0 && n < 4096; n++ {
		p := queue[0]
		queue = queue[1:]
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p))
		if err != nil {
			continue
		}
		for _, t := range tasks {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", p, t.Name()))
			if err != nil {
				continue
			}
			for _, f := range strings.Fields(string(text)) {
				child, err := strconv.Atoi(f)
				if err != nil {
					continue
				}
				queue = append(queue, child)
				if found, err := libraries(child); err == nil && hasDriver(found) {
					using = append(using, child)
				}
			}
		}
	}
	return using
}
