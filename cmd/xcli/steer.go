package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/compute"
	xserverv1 "xmsched/xserver/api/v1"
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
	c.AddCommand(policyListCommand(o), &cobra.Command{
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

func policyListCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the policies, what each does, and the hints that it heeds", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.ask(c, func(ctx context.Context, conn *client.Client) error {
				present, list, err := conn.Policies(ctx)
				if err != nil {
					return err
				}
				return o.printPolicies(c.OutOrStdout(), present, list)
			})
		},
	}
}

// printPolicies lists policies, the present one marked.
func (o *options) printPolicies(out io.Writer, present string, list []*xserverv1.PolicyInfo) error {
	if o.json {
		rows := []map[string]any{}
		for _, p := range list {
			rows = append(rows, map[string]any{"name": p.Name, "summary": p.Summary, "hints": append([]string{}, p.Hints...), "present": p.Name == present})
		}
		return cli.JSON(out, rows)
	}
	for _, p := range list {
		mark, hints := " ", ""
		if p.Name == present {
			mark = "*"
		}
		if len(p.Hints) > 0 {
			hints = " [" + strings.Join(p.Hints, ", ") + "]"
		}
		if _, err := fmt.Fprintf(out, "%s %-5s %s%s\n", mark, p.Name, p.Summary, hints); err != nil {
			return err
		}
	}
	return nil
}

func onePolicy(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("name one policy; %s", client.Allowed(compute.PolicyNames()))
	}
	return nil
}

func hintCommand(o *options) *cobra.Command {
	var target client.Target
	hints := compute.HintList()
	texts := make([]string, len(hints))
	c := &cobra.Command{
		Use:     "hint (--task ID | --pid PID) [--priority N] [--utilization N] ...",
		Short:   "Change what the policy knows of a task",
		Long:    "hint changes the hints that are named, of the whole task; the others stay. An empty value takes a hint back.",
		Example: "  xcli hint --task 3 --priority 20\n  xcli hint --pid 4711 --quantum 10ms\n  xcli hint --task 3 --utilization 75 --gang \"\"",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkTarget(c, target); err != nil {
				return err
			}
			h, err := hintChanges(c, hints, texts)
			if err != nil {
				return err
			}
			return o.ask(c, func(ctx context.Context, conn *client.Client) error {
				task, now, err := conn.SetHints(ctx, target, h)
				if err != nil {
					return err
				}
				return o.printHints(c, task, client.HintsOf(now))
			})
		},
	}
	targetFlags(c, &target, "a process of the task")
	c.Flags().SortFlags = false
	for i, hint := range hints {
		usage := fmt.Sprintf("`%s`: %s; %s", hint.Value, hint.Help, hint.Allowed)
		if hint.Policies != "" {
			usage += "; for " + hint.Policies
		}
		c.Flags().StringVar(&texts[i], hint.Name, "", usage)
	}
	return c
}

// hintChanges are the hints that the command line names.
func hintChanges(c *cobra.Command, hints []compute.Hint, texts []string) (client.Hints, error) {
	var all compute.Hints
	var names, flags []string
	for i, hint := range hints {
		flags = append(flags, "--"+hint.Name)
		if !c.Flags().Changed(hint.Name) {
			continue
		}
		if err := hint.Parse(texts[i], &all); err != nil {
			return client.Hints{}, cli.Usagef("--%s %q: not %s", hint.Name, texts[i], hint.Allowed)
		}
		names = append(names, hint.Name)
	}
	if names == nil {
		return client.Hints{}, cli.Usagef("no hint given: allowed are %s", strings.Join(flags, ", "))
	}
	return client.Change(all, names...), nil
}

// printHints shows all hints of a task that were given.
func (o *options) printHints(c *cobra.Command, task uint64, h compute.Hints) error {
	if o.json {
		values := map[string]any{"task": task, "priority": h.Priority, "no_execute": h.NoExecute,
			"quantum_us": us(uint64(h.Quantum)), "idle_after_us": us(uint64(h.IdleAfter)),
			"utilization": h.Utilization, "weight": h.Weight, "deadline_us": us(uint64(h.Deadline)), "k_deadline": h.K,
			"laxity_us": us(uint64(h.Laxity.After)), "laxity_low": h.Laxity.Low, "laxity_high": h.Laxity.High,
			"window": h.Window, "gang": h.Gang, "min_share": h.MinShare, "slo_us": us(uint64(h.SLO))}
		return cli.JSON(c.OutOrStdout(), values)
	}
	var words []string
	for _, hint := range compute.HintList() {
		if text := hint.Format(h); text != "" {
			words = append(words, hint.Name+" "+text)
		}
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "task %d has %s\n", task, strings.Join(words, ", "))
	return err
}

func targetFlags(c *cobra.Command, target *client.Target, process string) {
	c.Flags().Uint64Var(&target.Task, "task", 0, "the task's number in xcli list")
	c.Flags().IntVar(&target.PID, "pid", 0, process)
	cli.Allow(c, "task", "the tasks of "+client.Command("xcli")+" list")
	cli.Allow(c, "pid", "the pids of "+client.Command("xcli")+" list")
}

// us is a length of time in JSON.
func us(ns uint64) float64 { return float64(ns) / 1e3 }

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
						"wishes": s.Wishes, "level3": offers(s.Offers),
					})
				}
				if _, err = fmt.Fprintf(c.OutOrStdout(), `xserver %s, pid %d of uid %d, up %s
directory  %s
policy     %s, idle after %v
serving    %d tasks, %d processes, %d devices
edges      %d seen, %d gate words stored
turn       p50 %.0f us, p99 %.0f us, max %.0f us (wake-up to gate words stored)
`,
					s.Version, s.Pid, s.Uid, time.Duration(s.UptimeNs).Round(time.Second), s.Directory, s.Policy, time.Duration(s.IdleAfterNs),
					s.Tasks, s.Processes, s.Devices, s.Edges, s.Grants,
					us(s.DecisionP50Ns), us(s.DecisionP99Ns), us(s.DecisionMaxNs)); err != nil {
					return err
				}
				for _, f := range offers(s.Offers) {
					if _, err := fmt.Fprintf(c.OutOrStdout(), "level 3    %s\n", f); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// offer says whether level 3 is to be had on a device.
type offer struct {
	Device string `json:"device"`
	Model  string `json:"model,omitempty"`
	Level3 bool   `json:"offered"`
	Why    string `json:"why,omitempty"`
}

func (f offer) String() string {
	name := f.Device
	if f.Model != "" {
		name += " (" + f.Model + ")"
	}
	if f.Level3 {
		return "on " + name
	}
	return "not on " + name + ": " + f.Why
}

func offers(list []*xserverv1.DeviceOffer) []offer {
	out := []offer{}
	for _, o := range list {
		out = append(out, offer{Device: o.Uuid, Model: o.Name, Level3: o.Level3, Why: o.Why})
	}
	return out
}
