package main

import (
	"xmsched/cmd/internal/cli"
	"xmsched/memory"
)

// sizeFlag is a flag in bytes, or a list of such, whose default depends on the device.
type sizeFlag struct {
	name            string
	given           []string
	real, simulated []string // defaults
}

// read reads it for a device.
func (f sizeFlag) read(simulated bool) (out []memory.Bytes, err error) {
	list := f.given
	if len(list) == 0 {
		list = f.real
		if simulated {
			list = f.simulated
		}
	}
	for _, text := range list {
		b, err := memory.ParseBytes(text)
		if err != nil {
			return nil, cli.Usagef("--%s: %v", f.name, err)
		}
		out = append(out, b)
	}
	return out, nil
}

// oneSize reads a flag of one size.
func oneSize(name, given, real, simulated string, isSimulated bool) (memory.Bytes, error) {
	f := sizeFlag{name: name, real: []string{real}, simulated: []string{simulated}}
	if given != "" {
		f.given = []string{given}
	}
	out, err := f.read(isSimulated)
	if err != nil {
		return 0, err
	}
	return out[0], nil
}

// budgetSize is oneSize for a budget, of which auto is 0: what the card has.
func budgetSize(given, real, simulated string, isSimulated bool) (memory.Bytes, error) {
	if given == "auto" || given == "" && real == "auto" && !isSimulated {
		return 0, nil
	}
	return oneSize("budget", given, real, simulated, isSimulated)
}

// pieceSize is that of what a kernel goes over; nothing is 0: as suits.
func pieceSize(given string) (memory.Bytes, error) {
	if given == "" {
		return 0, nil
	}
	return oneSize("piece", given, "", "", false)
}

// forBoth reads settings for both kinds of device, so that what is wrong with them is
// said before one is looked for.
func forBoth(read func(simulated bool) error) error {
	for _, simulated := range []bool{true, false} {
		if err := read(simulated); err != nil {
			return err
		}
	}
	return nil
}
