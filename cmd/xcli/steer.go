package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/compute"
	"xmsched/xserver/client"
)

// asUsage makes a value that the daemon refused a usage error: nothing was
// changed, and the sentence says what is allowed.
func asUsage(err error) error {
	var rejected *client.RejectedError
	if errors.As(err, &rejected) {
		return cli.Usagef("%s", rejected.Message)
	}
	return err
}

func policyCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Show or change the policy",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use: "get", Short: "Show the policy and those that there are", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.ask(c, func(ctx context.Context, conn *client.Client) error {
				name, allowed, err := conn.Policy(ctx)
				if err != nil {
					return err
				}
				if o.json {
					return cli.JSON(c.OutOrStdout(), map[string]any{"policy": name, "allowed": allowed})
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s (there are: %s)\n", name, strings.Join(allowed, ", "))
				return err
			})
		},
	}, &cobra.Command{
		Use: "set NAME", Short: "Change the policy of all devices; hints stay", Args: onePolicy,
		RunE: func(c *cobra.Command, args []string) error {
			err := o.ask(c, func(ctx context.Context, conn *client.Client) error {
				name, err := conn.SetPolicy(ctx, args[0])
				if err != nil {
					return err
				}
				if o.json {
					return cli.JSON(c.OutOrStdout(), map[string]any{"policy": name})
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "policy is %s\n", name)
				return err
			})
			// The daemon's word counts, which may know more policies than we do.
			if _, unknown := compute.PolicyByName(args[0]); unknown != nil && client.Unreachable(err) {
				return cli.Usagef("unknown policy %q; %s", args[0], client.Allowed(compute.PolicyNames()))
			}
			return err
		},
	})
	return c
}

func onePolicy(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("name one policy; %s", client.Allowed(compute.PolicyNames()))
	}
	return nil
}

// hintFlags are the hints as the command line has them.
type hintFlags struct {
	priority           int
	quantum, idleAfter time.Duration
}

func hintCommand(o *options) *cobra.Command {
	var target client.Target
	var f hintFlags
	c := &cobra.Command{
		Use:     "hint (--task ID | --pid PID) [--priority N] [--quantum D] [--idle-after D]",
		Short:   "Change what the policy knows of a task",
		Long:    "hint changes the hints that are named, of the whole task; the others stay.",
		Example: "  xcli hint --task 3 --priority 20\n  xcli hint --pid 4711 --quantum 10ms",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkTarget(c, target); err != nil {
				return err
			}
			h, err := f.changes(c)
			if err != nil {
				return err
			}
			return o.ask(c, func(ctx context.Context, conn *client.Client) error {
				task, now, err := conn.SetHints(ctx, target, h)
				if err != nil {
					return err
				}
				if o.json {
					return cli.JSON(c.OutOrStdout(), map[string]any{"task": task, "priority": now.Priority,
						"quantum_us": us(now.QuantumNs), "idle_after_us": us(now.IdleAfterNs)})
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "task %d has priority %d%s%s\n", task, now.Priority,
					spell("quantum", now.QuantumNs), spell("idle-after", now.IdleAfterNs))
				return err
			})
		},
	}
	targetFlags(c, &target, "a process of the task")
	c.Flags().IntVar(&f.priority, "priority", 0, fmt.Sprintf("%d to %d, larger wins", compute.MinPriority, compute.MaxPriority))
	c.Flags().DurationVar(&f.quantum, "quantum", 0, fmt.Sprintf("length of a turn under RR, %v to %v; 0: the policy's", compute.MinQuantum, compute.MaxQuantum))
	c.Flags().DurationVar(&f.idleAfter, "idle-after", 0, fmt.Sprintf("keep lower ones out for so long after the last work, %v to %v; 0: the daemon's", compute.MinIdleAfter, compute.MaxIdleAfter))
	cli.Allow(c, "priority", fmt.Sprintf("%d to %d", compute.MinPriority, compute.MaxPriority))
	cli.Allow(c, "quantum", fmt.Sprintf("%v to %v, or 0", compute.MinQuantum, compute.MaxQuantum))
	cli.Allow(c, "idle-after", fmt.Sprintf("%v to %v, or 0", compute.MinIdleAfter, compute.MaxIdleAfter))
	return c
}

func targetFlags(c *cobra.Command, target *client.Target, process string) {
	c.Flags().Uint64Var(&target.Task, "task", 0, "the task's number in xcli list")
	c.Flags().IntVar(&target.PID, "pid", 0, process)
	cli.Allow(c, "task", "the tasks of "+client.Command("xcli")+" list")
	cli.Allow(c, "pid", "the pids of "+client.Command("xcli")+" list")
}

// us is a length of time in JSON.
func us(ns uint64) float64 { return float64(ns) / 1e3 }

// spell words a hint that was given; one that was not is left out.
func spell(hint string, ns uint64) string {
	if ns == 0 {
		return ""
	}
	return fmt.Sprintf(", %s %v", hint, time.Duration(ns))
}

// checkTarget refuses what can be seen to be wrong without the daemon.
func checkTarget(c *cobra.Command, target client.Target) error {
	set := c.Flags().Changed
	switch {
	case set("task") == set("pid"):
		return cli.Usagef("name one task: --task ID or --pid PID, see xcli list")
	case set("pid") && (target.PID <= 0 || int64(target.PID) > 1<<31-1):
		return cli.Usagef("pid %d: allowed are the pids of xcli list", target.PID)
	case set("task") && target.Task == 0:
		return cli.Usagef("task 0: allowed are the tasks of xcli list")
	}
	return nil
}

// changes are the hints that the command line names.
func (f *hintFlags) changes(c *cobra.Command) (h client.Hints, err error) {
	set := c.Flags().Changed
	if set("priority") {
		h.Priority = &f.priority
	}
	if set("quantum") {
		h.Quantum = &f.quantum
	}
	if set("idle-after") {
		h.IdleAfter = &f.idleAfter
	}
	if h == (client.Hints{}) {
		return h, cli.Usagef("no hint given: allowed are --priority N, %d to %d, --quantum D, %v to %v, and --idle-after D, %v to %v",
			compute.MinPriority, compute.MaxPriority, compute.MinQuantum, compute.MaxQuantum, compute.MinIdleAfter, compute.MaxIdleAfter)
	}
	all := compute.Hints{Priority: f.priority, Quantum: f.quantum, IdleAfter: f.idleAfter}
	if err := all.Validate(); err != nil {
		return h, cli.Usagef("%v", err)
	}
	return h, nil
}

func statusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how the daemon is", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.ask(c, func(ctx context.Context, conn *client.Client) error {
				s, err := conn.Status(ctx)
				if err != nil {
					return err
				}
				if o.json {
					return cli.JSON(c.OutOrStdout(), map[string]any{
						"version": s.Version, "pid": s.Pid, "uid": s.Uid, "directory": s.Directory, "policy": s.Policy,
						"uptime_s": float64(s.UptimeNs) / 1e9, "tasks": s.Tasks, "processes": s.Processes, "devices": s.Devices,
						"idle_after_us": us(s.IdleAfterNs), "edges": s.Edges, "grants": s.Grants,
						"decision_p50_us": us(s.DecisionP50Ns), "decision_p99_us": us(s.DecisionP99Ns), "decision_max_us": us(s.DecisionMaxNs),
					})
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), `xserver %s, pid %d of uid %d, up %s
directory  %s
policy     %s, idle after %v
serving    %d tasks, %d processes, %d devices
edges      %d seen, %d gate words stored
turn       p50 %.0f us, p99 %.0f us, max %.0f us (wake-up to gate words stored)
`,
					s.Version, s.Pid, s.Uid, time.Duration(s.UptimeNs).Round(time.Second), s.Directory, s.Policy, time.Duration(s.IdleAfterNs),
					s.Tasks, s.Processes, s.Devices, s.Edges, s.Grants,
					us(s.DecisionP50Ns), us(s.DecisionP99Ns), us(s.DecisionMaxNs))
				return err
			})
		},
	}
}
