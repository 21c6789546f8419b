// Package journal keeps what a daemon must remember over its restart and what
// clients cannot tell again: the policy, and hints that were changed while a
// process ran. Everything else, clients say when they register again.
//
// A journal that cannot be read (cut off, of another version, not ours, written
// by somebody who means harm) is as good as none: it costs a line in the log,
// never the start.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// Version of the file's form.
const Version = 2

// Limits of what is read: far above what a daemon writes.
const (
	maxSize    = 4 << 20
	maxEntries = 16384
)

// Key names a process for good: numbers of processes are used again, and one
// process may exec into another program.
type Key struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
	Nonce uint64 `json:"nonce,string"`
}

// Entry is what was changed for one process while it ran: the hints of its task,
// and what it is governed by.
type Entry struct {
	Key
	Hints    map[string]string `json:"hints"`              // by name, as people write them
	Settings *Settings         `json:"settings,omitempty"` // nil: its own
	Later    *Settings         `json:"later,omitempty"`    // of processes that its task gets; nil: their own
	Limit    *uint64           `json:"limit,omitempty"`    // bytes that it may allocate, 0: all; nil: its own
}

// Settings are what a process is governed by; what is empty was not changed.
type Settings struct {
	Level     string `json:"level,omitempty"`
	Threshold uint32 `json:"threshold,omitempty"`
	Batch     uint32 `json:"batch,omitempty"`
}

// MemorySettings are how memory is managed; amounts in bytes.
type MemorySettings struct {
	Budget uint64 `json:"budget"`
	Host   uint64 `json:"host"`
	Policy string `json:"policy"`
}

// Memory is a change of how memory is managed.
type Memory struct {
	Started MemorySettings `json:"started"` // what the daemon was started with
	Now     MemorySettings `json:"now"`
}

// Record is the whole journal.
type Record struct {
	Version int     `json:"version"`
	Policy  string  `json:"policy,omitempty"`
	Hints   []Entry `json:"hints,omitempty"`

	Memory   *Memory `json:"memory,omitempty"`   // nil: as the daemon was started
	Attached []Key   `json:"attached,omitempty"` // who may have managed memory
}

// ErrUnusable is in every error of Read but that of a missing file.
var ErrUnusable = errors.New("journal not usable")

// Read reads a journal. A missing one gives an error that is os.ErrNotExist,
// every other trouble one that is ErrUnusable.
func Read(path string) (Record, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return Record{}, err
		}
		return Record{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return Record{}, fmt.Errorf("%w: %s is not a regular file", ErrUnusable, path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	r, err := parse(data)
	if err != nil {
		return Record{}, fmt.Errorf("%w: %s: %w", ErrUnusable, path, err)
	}
	return r, nil
}

// parse accepts all or nothing.
func parse(data []byte) (Record, error) {
	if len(data) > maxSize {
		return Record{}, fmt.Errorf("larger than %d bytes", maxSize)
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Record{}, err
	}
	if head.Version != Version {
		return Record{}, fmt.Errorf("version %d, this daemon reads %d", head.Version, Version)
	}
	var r Record
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Record{}, err
	}
	if len(r.Hints) > maxEntries {
		return Record{}, fmt.Errorf("%d entries, at most %d", len(r.Hints), maxEntries)
	}
	if len(r.Attached) > maxEntries {
		return Record{}, fmt.Errorf("%d attached, at most %d", len(r.Attached), maxEntries)
	}
	return r, nil
}

// Write replaces the journal in one step: whoever reads sees the old one or the
// new one.
func Write(path string, r Record) error {
	r.Version = Version
	if len(r.Hints) > maxEntries {
		r.Hints = r.Hints[len(r.Hints)-maxEntries:]
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := renameio.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}
