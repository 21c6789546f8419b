package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/xserver/client"
)

func configCommand(o *options) *cobra.Command {
	var target client.Target
	var level string
	var threshold, batch uint32
	c := &cobra.Command{
		Use:   "config (--task ID | --pid PID) [--level L] [--threshold N] [--batch N]",
		Short: "Change how a running program is governed",
		Long: `config changes what is named, and nothing else, of a task with all its processes,
or of one process. It works at any time, also while the program is stopped. A batch
above the threshold counts as the threshold.

Levels: 1 blocks the program's launches; 2 stops its queues on the device as well, at
the next command; 3 stops its kernels too, wherever they are; auto is the highest that
the program can do on its device. A level that is not to be had there is refused.`,
		Example: "  xcli config --task 3 --level 2\n  xcli config --pid 4711 --threshold 4",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			set := c.Flags().Changed
			if err := checkTarget(c, target); err != nil {
				return err
			}
			var s client.Settings
			if set("threshold") && (threshold < 1 || threshold > client.MaxThreshold) {
				return cli.Usagef("threshold %d is out of range: 1 to %d", threshold, client.MaxThreshold)
			}
			if set("level") {
				if level == "" {
					return cli.Usagef("%v", client.CheckLevel(level))
				}
				s.Level = level
			}
			if set("threshold") {
				s.Threshold = &threshold
			}
			if set("batch") {
				s.Batch = &batch
			}
			if s == (client.Settings{}) {
				return cli.Usagef("nothing to change: allowed are --level L, --threshold N and --batch N")
			}
			err := o.ask(c, func(ctx context.Context, conn *client.Client) error {
				return o.configure(ctx, c, conn, target, s)
			})
			// What there is no such level of is refused without the daemon as well.
			if s.Level != "" && client.Unreachable(err) {
				if wrong := client.CheckLevel(s.Level); wrong != nil {
					return cli.Usagef("%v", wrong)
				}
			}
			return err
		},
	}
	targetFlags(c, &target, "one process, by itself")
	c.Flags().StringVar(&level, "level", "", "preemption level: auto, 1, 2 or 3")
	c.Flags().Uint32Var(&threshold, "threshold", 0, "commands that may wait in a queue while others compete")
	c.Flags().Uint32Var(&batch, "batch", 0, "commands between two notes of completion, at most the threshold")
	cli.Allow(c, "threshold", fmt.Sprintf("1 to %d", client.MaxThreshold))
	cli.Allow(c, "batch", "1 to the threshold")
	return c
}

func (o *options) configure(ctx context.Context, c *cobra.Command, conn *client.Client, target client.Target, s client.Settings) error {
	task, processes, err := conn.SetConfig(ctx, target, s)
	if err != nil {
		return err
	}
	for _, p := range processes {
		now := p.GetSettings()
		if o.json {
			err = cli.JSON(c.OutOrStdout(), map[string]any{"task": task, "pid": p.Pid,
				"asked_level": now.GetLevel(), "threshold": now.GetThreshold(), "batch": now.GetBatch()})
		} else {
			_, err = fmt.Fprintf(c.OutOrStdout(), "task %d, pid %d: level %s, threshold %d, batch %d\n",
				task, p.Pid, now.GetLevel(), now.GetThreshold(), now.GetBatch())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
