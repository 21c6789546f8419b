package experiment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"xmsched/xserver/client"
)

// awaitTasks returns when the daemon has registered a device of each of these
// processes and lets them take part. Before that they run unscheduled, and what
// is measured would not be what the row says.
func (l *Lab) awaitTasks(ctx context.Context, pids ...int) error {
	c, err := client.Dial(ctx, l.RunDir())
	if err != nil {
		return fmt.Errorf("wait until the daemon knows the programs: %w", err)
	}
	defer c.Close()
	for {
		missing, err := unregistered(ctx, c, pids)
		if err != nil {
			return fmt.Errorf("wait until the daemon knows the programs: %w", err)
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the daemon never learnt of the processes %v: %w", missing, context.Cause(ctx))
		}
	}
}

func unregistered(ctx context.Context, c *client.Client, pids []int) ([]int, error) {
	tasks, err := c.ListTasks(ctx)
	if err != nil {
		return nil, err
	}
	missing := slices.Clone(pids)
	for _, t := range tasks {
		settled := len(t.Devices) > 0
		for _, d := range t.Devices {
			settled = settled && !d.Newcomer
		}
		if !settled {
			continue
		}
		for _, p := range t.Processes {
			if i := slices.Index(missing, int(p.Pid)); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
			}
		}
	}
	return missing, nil
}
