package main

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	"xmsched/hal/cuda/abi/internal/facts"
)

// What the driver answers besides a pointer, as CUresult and
// CUdriverProcAddressQueryResult values.
const (
	success          = 0
	invalidValue     = 1
	statusFound      = 0
	statusNotFound   = 1
	statusTooOld     = 2
	numberOfFlagSets = 3 // 0 default, 1 legacy, 2 per-thread
)

// condense turns the replies into facts.Answer, whose comment says what shape it
// takes for granted. A reply of another shape is an error: then the store needs
// a new form, not a guess.
func condense(replies map[question][]reply, set *facts.Set) error {
	names := map[string]bool{}
	for q := range replies {
		names[q.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := condenseName(name, replies, set); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func condenseName(name string, replies map[question][]reply, set *facts.Set) error {
	var found []facts.Answer
	unknown := 0
	for flags := range uint64(numberOfFlagSets) {
		steps, known, err := condenseSteps(replies[question{name, flags}], set)
		if err != nil {
			return fmt.Errorf("flags %d: %w", flags, err)
		}
		if !known {
			unknown++
			continue
		}
		i := slices.IndexFunc(found, func(a facts.Answer) bool { return slices.Equal(a.Steps, steps) })
		if i < 0 {
			found = append(found, facts.Answer{Name: name, Flags: []uint64{flags}, Steps: steps})
			continue
		}
		found[i].Flags = append(found[i].Flags, flags)
	}
	if unknown > 0 && unknown < numberOfFlagSets {
		return fmt.Errorf("known with some flags only")
	}
	if unknown > 0 {
		set.Unknown = append(set.Unknown, name)
		return nil
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Flags[0] < found[j].Flags[0] })
	set.Answers = append(set.Answers, found...)
	return nil
}

func condenseSteps(replies []reply, set *facts.Set) (steps []facts.Step, known bool, err error) {
	for i, r := range replies {
		switch {
		case r.result == invalidValue && r.status == statusUntouched && r.symbol == "" && i == len(replies)-1:
			if set.Origin.Ceiling != 0 && set.Origin.Ceiling != r.from {
				return nil, false, fmt.Errorf("refused from version %d on, others from %d on", r.from, set.Origin.Ceiling)
			}
			set.Origin.Ceiling = r.from
		case r.result == success && r.status == statusNotFound && r.symbol == "" && i == 0:
			known = false
		case r.result == success && r.status == statusTooOld && r.symbol == "" && i == 0:
			known = true
		case r.result == success && r.status == statusFound && r.symbol != "" && r.symbol[0] != '@':
			known = true
			steps = append(steps, facts.Step{From: r.from, Symbol: r.symbol})
		default:
			return nil, false, fmt.Errorf("reply %+v has a shape that the store does not know", r)
		}
	}
	if known != (len(steps) > 0) {
		return nil, false, fmt.Errorf("no version gives a function")
	}
	return steps, known, nil
}
