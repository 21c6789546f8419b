package main

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"xmsched/hal/cuda/abi/internal/facts"
)

const statusUntouched = 77 // as probe.c has it

// parseProbe turns the probe's lines into facts.
func parseProbe(out string, table *symbols, set *facts.Set) error {
	early := map[question][]reply{}
	late := map[question][]reply{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		var err error
		switch f[0] {
		case "library":
			set.Origin.Library = f[1]
		case "version":
			set.Origin.DriverVersion, err = strconv.Atoi(f[1])
		case "device":
			set.Origin.Device = f[1]
		case "early":
			err = addReply(early, f[1:], table)
		case "answer":
			err = addReply(late, f[1:], table)
		case "edge":
			set.Probes = append(set.Probes, facts.Probe{Call: f[1], Answer: f[2]})
		case "error":
			var v int
			v, err = strconv.Atoi(f[1])
			set.Errors = append(set.Errors, facts.ErrorText{Value: v, Name: f[2], Text: f[3]})
		case "attribute":
			err = addAttribute(set, f[1:])
		case "count":
			set.Probes = append(set.Probes, facts.Probe{
				Call:   "cuGetProcAddress against cuGetProcAddress_v2, " + f[1],
				Answer: f[2] + " questions, " + f[3] + " answers differ",
			})
		case "early-v1", "answer-v1":
			set.Probes = append(set.Probes, facts.Probe{
				Call:   fmt.Sprintf("cuGetProcAddress and _v2 differ (%s, %s, %s), %s", f[1], f[2], f[3], f[0]),
				Answer: fmt.Sprintf("_v2: result %s at %s; first version: result %s at %s", f[4], symbolText(f[5], f[1], table), f[6], symbolText(f[7], f[1], table)),
			})
		default:
			err = fmt.Errorf("unknown kind")
		}
		if err != nil {
			return fmt.Errorf("probe line %q: %w", line, err)
		}
	}
	if err := condense(late, set); err != nil {
		return err
	}
	sort.Slice(set.Errors, func(i, j int) bool { return set.Errors[i].Value < set.Errors[j].Value })
	differ := 0
	for key, a := range early {
		if !slices.Equal(a, late[key]) {
			differ++
		}
	}
	set.Probes = append(set.Probes, facts.Probe{
		Call:   "cuGetProcAddress_v2 before cuInit against after",
		Answer: fmt.Sprintf("%d of %d (name, flags) differ", differ, len(early)),
	})
	return nil
}

// question and reply are one line of the probe's answers, uncondensed. A reply
// holds from its version on.
type question struct {
	name  string
	flags uint64
}

type reply struct {
	from, result, status int
	symbol               string
}

// addReply takes name, flags, version, address, result, status.
func addReply(into map[question][]reply, f []string, table *symbols) error {
	flags, err1 := strconv.ParseUint(f[1], 10, 64)
	from, err2 := strconv.Atoi(f[2])
	address, err3 := strconv.ParseUint(strings.TrimPrefix(f[3], "0x"), 16, 64)
	result, err4 := strconv.Atoi(f[4])
	status, err5 := strconv.Atoi(f[5])
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	q := question{f[0], flags}
	into[q] = append(into[q], reply{from, result, status, table.name(address, f[0])})
	return nil
}

func addAttribute(set *facts.Set, f []string) error {
	var a facts.Attribute
	if _, err := fmt.Sscan(strings.Join(f, " "), &a.Attribute, &a.Result, &a.Value); err != nil {
		return err
	}
	set.Attributes = append(set.Attributes, a)
	return nil
}

func symbolText(hex, asked string, table *symbols) string {
	address, err := strconv.ParseUint(strings.TrimPrefix(hex, "0x"), 16, 64)
	if err != nil {
		return hex
	}
	if address == 1 { // as probe.c has it
		return "an untouched pointer"
	}
	if n := table.name(address, asked); n != "" {
		return n
	}
	return "NULL"
}
