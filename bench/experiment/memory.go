package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"xmsched/memory"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// managedDaemon starts a daemon that manages memory, in place of one that does not.
func (l *Lab) managedDaemon(ctx context.Context, level Level, policy string, budget memory.Bytes, mode memory.Mode) error {
	l.StopDaemon()
	if level == 3 {
		if err := l.ensureSheet(ctx); err != nil {
			return err
		}
	}
	amount := "auto"
	if budget > 0 {
		amount = fmt.Sprint(int64(budget))
	}
	return l.startDaemon(ctx, "--policy", policy, "--hbm-budget", amount, "--memory-policy", mode.String())
}

// figures are what the daemon says of memory at one time, all tasks together.
type figures struct {
	at      time.Time
	budget  uint64
	in, out uint64 // moved so far
	pool    uint64 // host memory that was made for it
	stall   time.Duration
	most    uint64 // allocated by one process
	why     string // why something of it cannot be moved
	taken   uint64 // times that a task was stopped while it had work
}

// errNoMemory is also the answer about a device that no program uses any more.
var errNoMemory = errors.New("the daemon manages no memory")

// memoryFigures asks the daemon.
func (l *Lab) memoryFigures(ctx context.Context) (f figures, err error) {
	c, err := client.Dial(ctx, l.RunDir())
	if err != nil {
		return f, fmt.Errorf("ask for the memory: %w", err)
	}
	defer c.Close()
	m, err := c.Memory(ctx)
	if err != nil {
		return f, fmt.Errorf("ask for the memory: %w", err)
	}
	tasks, err := c.ListTasks(ctx)
	if err != nil {
		return f, fmt.Errorf("ask for the memory: %w", err)
	}
	f.at = time.Now()
	i := slices.IndexFunc(m.Devices, func(d *xserverv1.DeviceMemory) bool { return d.Uuid == l.Facts.UUID })
	if i < 0 {
		return f, fmt.Errorf("%w of %s", errNoMemory, l.Facts.UUID)
	}
	var whys []string
	d := m.Devices[i]
	f.budget, f.pool = d.Budget, m.Host.GetPool()
	for _, p := range d.Processes {
		f.in, f.out = f.in+p.Memory.MovedIn, f.out+p.Memory.MovedOut
		f.stall += time.Duration(p.Memory.StallNs)
		f.most = max(f.most, p.Memory.Allocated)
		if p.Memory.Why != "" && !slices.Contains(whys, p.Memory.Why) {
			whys = append(whys, p.Memory.Why)
		}
	}
	f.why = strings.Join(whys, "; ")
	for _, t := range tasks {
		for _, on := range t.Devices {
			for _, level := range on.Preemption {
				f.taken += level.Taken
			}
		}
	}
	return f, nil
}

// setMemory changes what the daemon plans by.
func (l *Lab) setMemory(ctx context.Context, mode memory.Mode) error {
	c, err := client.Dial(ctx, l.RunDir())
	if err != nil {
		return fmt.Errorf("set the memory policy: %w", err)
	}
	defer c.Close()
	name := mode.String()
	if _, err := c.SetMemory(ctx, client.MemoryChange{Policy: &name}); err != nil {
		return fmt.Errorf("set the memory policy: %w", err)
	}
	return nil
}

// setSlice gives each of these processes' tasks turns of a length.
func (l *Lab) setSlice(ctx context.Context, pids []int, slice time.Duration) error {
	c, err := client.Dial(ctx, l.RunDir())
	if err != nil {
		return fmt.Errorf("set the length of turns: %w", err)
	}
	defer c.Close()
	for _, pid := range pids {
		if _, _, err := c.SetHints(ctx, client.Target{PID: pid}, client.Hints{Quantum: &slice}); err != nil {
			return fmt.Errorf("set the length of turns: %w", err)
		}
	}
	return nil
}
