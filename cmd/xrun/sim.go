package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/hal/sim/device"
	"xmsched/xserver/client"
)

// simStartTime is how long the simulated device may take to start.
const simStartTime = 10 * time.Second

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
	c.Flags().IntVar(&cfg.Devices, "devices", 0, "`number` of devices, 1 to 8 (0: 1)")
	c.Flags().Uint64Var(&cfg.HBM, "hbm", 0, "memory of each device, `bytes` (0: 1 GiB)")
	c.Flags().Float64Var(&cfg.Scale, "scale", 0, "wall time per simulated time (0: 1)")
	c.Flags().DurationVar(&cfg.IdleExit, "idle-exit", 10*time.Second, "end that long after the last program left (0: never)")
	return c
}

// makeRunDir makes the run directory as the daemon would. Another user's, as that
// of root's daemon, holds no simulated device for us.
func makeRunDir(dir string) error {
	_, err := client.MakeRunDir(dir, false)
	var foreign *client.ForeignDirError
	if !errors.As(err, &foreign) && !errors.Is(err, os.ErrPermission) {
		if err != nil {
			return fmt.Errorf("make the run directory: %w", err)
		}
		return nil
	}
	own := client.OwnDir(os.Geteuid())
	return fmt.Errorf("the simulated GPU lies in the run directory and serves its owner alone, and %w; "+
		"use a directory of your own, with a daemon of your own: export XMSCHED_DIR=%s; %s --dir %s &", err, own, client.Command("xserver"), own)
}

// simulated points a program at the simulated device of a run directory, which is
// started if it does not run.
func simulated(ctx context.Context, env []string, lib, dir string) ([]string, error) {
	if _, err := device.FromEnv(); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	driver := filepath.Join(lib, "sim")
	if _, err := os.Stat(filepath.Join(driver, "libcuda.so.1")); err != nil {
		return nil, fmt.Errorf("the simulated driver is not in %s: run `make build`, or set XMSCHED_LIB to its folder", driver)
	}
	if err := makeRunDir(dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, simStartTime)
	defer cancel()
	socket, err := device.Ensure(ctx, dir)
	if err != nil {
		return nil, err
	}
	path := driver
	if there := variables(env)["LD_LIBRARY_PATH"]; there != "" && there != driver && !strings.HasPrefix(there, driver+":") {
		path += ":" + there
	} else if there != "" {
		path = there
	}
	return with(with(env, "LD_LIBRARY_PATH", path), "XMSCHED_SIM_SOCKET", socket), nil
}
