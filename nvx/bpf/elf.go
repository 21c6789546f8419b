package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// place is a hook's place in a file.
type place struct {
	hook
	offset uint64 // in the file
	first  opening
	args   []string // of a probe site: where its values are
}

// codeBytes is how much of a function's code is read to see how it begins.
const codeBytes = 5

// errNoPlaces: a library without anything to hook.
var errNoPlaces = errors.New("it exports none of the driver's functions")

// placesIn finds the hooks' places in the driver's library. Two names of one
// function are one place.
func placesIn(r io.ReaderAt) ([]place, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("read library: %w", err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("read names of library: %w", err)
	}
	var places []place
	seen := map[uint64]bool{}
	for _, s := range symbols {
		h, ok := hookOf(s.Name)
		if !ok || s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		at, ok := fileOffset(f, s.Value)
		if !ok || seen[at] {
			continue
		}
		seen[at] = true
		places = append(places, place{hook: h, offset: at, first: beginning(r, at)})
	}
	if len(places) == 0 {
		return nil, errNoPlaces
	}
	return places, nil
}

// fileOffset is where the byte at a virtual address lies in the file; false: in no
// part of it that can run.
func fileOffset(f *elf.File, address uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && address >= p.Vaddr && address-p.Vaddr < p.Filesz {
			return address - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

func beginning(r io.ReaderAt, at uint64) opening {
	var code [codeBytes]byte
	n, err := r.ReadAt(code[:], int64(at))
	if err != nil && n == 0 {
		return stepped
	}
	return openingOf(code[:n])
}

// A note of a probe site (shim/cuda/preload/probes.h), which tracers know as
// SystemTap's: three addresses, then provider, name and arguments.
const (
	noteSection = ".note.stapsdt"
	noteOwner   = "stapsdt"
	noteType    = 3
	noteLimit   = 1 << 20
	provider    = "xmsched"
)

// note is what one says.
type note struct {
	provider, name, args string
	address              uint64
}

// notesIn reads a section of notes; it ends quietly where one makes no sense.
func notesIn(data []byte, order binary.ByteOrder) []note {
	var notes []note
	for len(data) >= 12 {
		name, size, kind := order.Uint32(data), order.Uint32(data[4:]), order.Uint32(data[8:])
		data = data[12:]
		owner, rest, ok := cut(data, name)
		if !ok {
			return notes
		}
		text, rest, ok := cut(rest, size)
		if !ok {
			return notes
		}
		data = rest
		if kind != noteType || string(bytes.TrimRight(owner, "\x00")) != noteOwner || len(text) < 24 {
			continue
		}
		fields := bytes.SplitN(text[24:], []byte{0}, 4)
		if len(fields) < 4 { // each of the three ends in a zero
			continue
		}
		notes = append(notes, note{string(fields[0]), string(fields[1]), string(fields[2]), order.Uint64(text)})
	}
	return notes
}

// cut takes n bytes off, and what fills them up to a multiple of 4.
func cut(data []byte, n uint32) (head, rest []byte, ok bool) {
	if uint64(n) > uint64(len(data)) {
		return nil, nil, false
	}
	padded := min((uint64(n)+3)&^3, uint64(len(data)))
	return data[:n], data[padded:], true
}

// sitesIn finds the probe sites of the preload library.
func sitesIn(r io.ReaderAt) ([]place, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("read library: %w", err)
	}
	section := f.Section(noteSection)
	if section == nil || section.Size > noteLimit {
		return nil, errNoSites
	}
	data, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read probe sites: %w", err)
	}
	var places []place
	for _, n := range notesIn(data, f.ByteOrder) {
		h, ok := siteOf(n.name)
		if !ok || n.provider != provider {
			continue
		}
		at, ok := fileOffset(f, n.address)
		if !ok {
			continue
		}
		places = append(places, place{hook: h, offset: at, first: beginning(r, at), args: argsOf(n.args)})
	}
	if len(places) == 0 {
		return nil, errNoSites
	}
	return places, nil
}

// errNoSites: a preload library of another build.
var errNoSites = errors.New("it has no probe sites")
