package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/memory"
	"xmsched/xserver"
)

// memoryFlags is what the command line says of memory.
type memoryFlags struct{ hbm, host, policy string }

func (m *memoryFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&m.hbm, "hbm-budget", "auto", "manage the memory of the devices: `SIZE` of each, such as 16GiB, is for all programs together, and what does not fit is moved to the host; auto is what the card has room for, none leaves memory alone")
	f.StringVar(&m.host, "host-budget", "", "moved memory takes at most `SIZE` of the host (default, and never more: half of what is available)")
	f.StringVar(&m.policy, "memory-policy", memory.Predict.String(), fmt.Sprintf("how memory is planned: %s; predict by what coming commands will touch (see xcli templates), allocation by all that programs have, swap and serial are for comparison", strings.Join(memory.Modes(), ", ")))
	cli.Allow(c, "hbm-budget", fmt.Sprintf("auto, none, or %s to %s", memory.Granularity, memory.MaxBytes))
	cli.Allow(c, "host-budget", fmt.Sprintf("%s to %s", memory.Granularity, memory.MaxBytes))
}

// settings reads the flags; nil: memory is not managed.
func (m *memoryFlags) settings(c *cobra.Command) (*xserver.ManagedMemory, error) {
	set := c.Flags().Changed
	if strings.EqualFold(m.hbm, "none") {
		for _, name := range []string{"host-budget", "memory-policy"} {
			if set(name) {
				return nil, cli.Usagef("--%s is without meaning where memory is not managed: leave --hbm-budget none away", name)
			}
		}
		return nil, nil
	}
	var s xserver.ManagedMemory
	var err error
	if !strings.EqualFold(m.hbm, "auto") {
		if s.Budget, err = size("hbm-budget", m.hbm); err != nil {
			return nil, err
		}
	}
	if set("host-budget") {
		if s.Host, err = size("host-budget", m.host); err != nil {
			return nil, err
		}
	}
	if s.Mode, err = memory.ModeByName(m.policy); err != nil {
		return nil, cli.Usagef("--memory-policy: %v", err)
	}
	return &s, nil
}

// size reads an amount of memory that something fits into.
func size(name, text string) (memory.Bytes, error) {
	b, err := memory.ParseBytes(text)
	switch {
	case err != nil:
		return 0, cli.Usagef("--%s: %v", name, err)
	case b < memory.Granularity:
		return 0, cli.Usagef("--%s %s: allowed are %s to %s", name, text, memory.Granularity, memory.MaxBytes)
	}
	return b, nil
}
