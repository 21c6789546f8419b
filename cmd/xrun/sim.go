package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/hal/sim/device"
)

// simCommand is the simulated device's own process.
func simCommand() *cobra.Command {
	var socket string
	var cfg device.Config
	c := &cobra.Command{
		Use:    "sim-device",
		Short:  "Be the simulated GPU, until SIGTERM or --idle-exit",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if socket == "" {
				return cli.Usagef("no socket given: --socket PATH")
			}
			cfg.Socket = socket
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			if err := device.Serve(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "`PATH` of the device's socket")
	c.Flags().Uint64Var(&cfg.HBM, "hbm", 0, "device memory, `bytes` (0: 1 GiB)")
	c.Flags().Float64Var(&cfg.Scale, "scale", 0, "wall time per simulated time (0: 1)")
	c.Flags().DurationVar(&cfg.IdleExit, "idle-exit", 10*time.Second, "end that long after the last program left (0: never)")
	return c
}

// simulated points a program at the simulated device.
func simulated(_ context.Context, env []string, lib, dir string) ([]string, error) {
	_, _, _ = env, lib, dir
	return nil, errors.New("the simulated GPU cannot be started yet")
}
