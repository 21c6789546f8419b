package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// entry is what became of a task.
type entry struct {
	Task  uint64     `json:"task"`
	Name  string     `json:"name"`
	UID   uint32     `json:"uid"`
	Began time.Time  `json:"began"`
	Ended *time.Time `json:"ended,omitempty"`

	RunMS       float64 `json:"run_ms"`
	WaitMS      float64 `json:"wait_ms"`
	SwitchingMS float64 `json:"switching_ms"` // part of the waiting
	MemoryMS    float64 `json:"memory_ms"`    // part of the waiting
	Preempted   uint64  `json:"preempted"`
	Preempting  uint64  `json:"preempting"`

	Requests uint64   `json:"requests"`
	Latency  *latency `json:"latency,omitempty"`
	Recent   *latency `json:"latency_recent,omitempty"`

	SLOms       float64 `json:"slo_ms,omitempty"` // of now
	SLORequests uint64  `json:"slo_requests"`
	SLOMet      uint64  `json:"slo_met"`
	// SLOShare is the share of requests within the SLO; absent where none ended
	// while there was one.
	SLOShare        *float64 `json:"slo_share,omitempty"`
	DeadlinesMet    uint64   `json:"deadlines_met"`
	DeadlinesMissed uint64   `json:"deadlines_missed"`
}

// latency is how long requests took.
type latency struct {
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

func reportCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "report",
		Short: "Show what became of the tasks, those included that ended lately",
		Long: `report shows for each task how long it had work and ran (RUN) or was stopped (WAIT),
how much of the waiting was lost to switching, as nobody ran meanwhile, or to moving
its memory, how often it was stopped (TAKEN) and others were for it (GIVEN), and how
long its requests took, from turning ready to turning idle. SLO is the share of
requests that took no longer than --slo said. The last 64 tasks that ended are there
as well, without a state.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.ask(c, func(ctx context.Context, conn *client.Client) error {
				tasks, ended, err := conn.Report(ctx)
				if err != nil {
					return err
				}
				return o.printReport(c.OutOrStdout(), append(ended, tasks...))
			})
		},
	}
}

func (o *options) printReport(w io.Writer, tasks []*xserverv1.Task) error {
	if len(tasks) == 0 && !o.json {
		_, err := fmt.Fprintln(w, nobody())
		return err
	}
	t := cli.NewTable("TASK", "NAME", "STATE", "RUN", "WAIT", "SWITCH", "MEMORY", "TAKEN", "GIVEN", "REQUESTS", "P50", "P99", "MAX", "SLO", "DEADLINES")
	for _, task := range tasks {
		e := entryOf(task)
		if o.json {
			if err := cli.JSON(w, e); err != nil {
				return err
			}
			continue
		}
		t.Row(e.cells()...)
	}
	if o.json {
		return nil
	}
	return t.Write(w)
}

func entryOf(t *xserverv1.Task) entry {
	a := t.GetAccount()
	e := entry{
		Task: t.Id, Name: t.Name, UID: t.Uid, Began: time.Unix(0, int64(t.BeganUnixNs)),
		RunMS: ms(a.GetRunNs()), WaitMS: ms(a.GetWaitNs()), SwitchingMS: ms(a.GetSwitchingNs()), MemoryMS: ms(a.GetMemoryNs()),
		Preempted: a.GetPreempted(), Preempting: a.GetPreempting(), Requests: a.GetRequests(),
		Latency: latencyOf(a.GetLatency()), Recent: latencyOf(a.GetRecent()),
		SLOms: ms(t.GetHints().GetSloNs()), SLORequests: a.GetSloRequests(), SLOMet: a.GetSloMet(),
		DeadlinesMet: a.GetDeadlinesMet(), DeadlinesMissed: a.GetDeadlinesMissed(),
	}
	if t.EndedUnixNs != 0 {
		at := time.Unix(0, int64(t.EndedUnixNs))
		e.Ended = &at
	}
	if e.SLORequests > 0 {
		share := float64(e.SLOMet) / float64(e.SLORequests)
		e.SLOShare = &share
	}
	return e
}

func latencyOf(l *xserverv1.Latency) *latency {
	if l.GetRequests() == 0 {
		return nil
	}
	return &latency{ms(l.P50Ns), ms(l.P90Ns), ms(l.P99Ns), ms(l.MaxNs)}
}

// cells are the columns of the table.
func (e entry) cells() []any {
	state := cli.Cell{Text: "lives", Style: cli.Green}
	if e.Ended != nil {
		state = cli.Cell{Text: "ended", Style: cli.Dim}
	}
	p50, p99, most := "-", "-", "-"
	if l := e.Latency; l != nil {
		p50, p99, most = length(l.P50), length(l.P99), length(l.Max)
	}
	slo, deadlines := "-", "-"
	if e.SLOShare != nil {
		slo = fmt.Sprintf("%.1f%%", 100**e.SLOShare)
	}
	if n := e.DeadlinesMet + e.DeadlinesMissed; n > 0 {
		deadlines = fmt.Sprintf("%d of %d", e.DeadlinesMet, n)
	}
	return []any{e.Task, e.Name, state, length(e.RunMS), length(e.WaitMS), length(e.SwitchingMS), length(e.MemoryMS),
		e.Preempted, e.Preempting, e.Requests, p50, p99, most, slo, deadlines}
}

// ms is a length of time in JSON.
func ms(ns uint64) float64 { return float64(ns) / 1e6 }

// length writes a length of time with three digits that count.
func length(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case ms < 1:
		return fmt.Sprintf("%.0fus", ms*1e3)
	case ms < 1e3:
		return fmt.Sprintf("%.3gms", ms)
	case ms < 1e5:
		return fmt.Sprintf("%.3gs", ms/1e3)
	}
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}
