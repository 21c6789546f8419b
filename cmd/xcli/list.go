package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// row is a process on a device, or one that is not scheduled.
type row struct {
	Task      uint64   `json:"task,omitempty"` // 0: not scheduled
	PID       int      `json:"pid"`
	Name      string   `json:"name"`
	UID       uint32   `json:"uid"`
	Device    string   `json:"device,omitempty"` // UUID
	Model     string   `json:"model,omitempty"`
	Priority  int      `json:"priority"`
	NoExecute bool     `json:"no_execute,omitempty"` // it is not to run, whatever its priority
	QuantumUS float64  `json:"quantum_us,omitempty"`
	IdleUS    float64  `json:"idle_after_us,omitempty"`
	Level     uint32   `json:"level,omitempty"` // in force; 0: on no device yet
	Asked     string   `json:"asked_level,omitempty"`
	Threshold uint32   `json:"threshold,omitempty"`
	Batch     uint32   `json:"batch,omitempty"`
	Mode      string   `json:"mode,omitempty"`
	State     string   `json:"state"`
	Waiting   uint32   `json:"waiting_threads"`
	Launches  uint64   `json:"launches"`
	RunTimeMS float64  `json:"run_time_ms"`
	Uncovered []string `json:"uncovered,omitempty"`
	Why       string   `json:"why,omitempty"`

	MaxLevel uint32  `json:"max_level,omitempty"` // that is to be had there; 0: not known yet
	LevelWhy string  `json:"level_why,omitempty"` // why no more is
	Reason   string  `json:"reason,omitempty"`    // why it runs, or is stopped in the way it is
	Regime   string  `json:"regime,omitempty"`    // plain, armed, beside
	Held     bool    `json:"held,omitempty"`      // suspended, or about to be
	SliceUS  float64 `json:"time_slice_us,omitempty"`

	// What preemption was to the task on the device.
	Preemption []levelCost `json:"preemption,omitempty"`
	StoppedMS  float64     `json:"stopped_ms"`
	LostMS     float64     `json:"lost_ms"`

	// What the driver took, of this process.
	Holds     uint32  `json:"holds,omitempty"`
	HoldUS    float64 `json:"hold_us,omitempty"`
	ReleaseUS float64 `json:"release_us,omitempty"`
}

// levelCost is what preemption at one level was to a task.
type levelCost struct {
	Level uint32 `json:"level"`
	Taken uint64 `json:"taken"` // times that it was stopped while it had work
	Given uint64 `json:"given"` // times that others were stopped for it
}

func listCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List tasks, and programs that use a GPU without being scheduled",
		Long: `list shows one line for each process and device. WHY says what is not scheduled and
why: programs that use a GPU without the preload library, and calls that are not
covered. Libraries that a program opens with RTLD_DEEPBIND pass the preload by.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var rows []row
			err := o.ask(c, func(ctx context.Context, conn *client.Client) error {
				tasks, err := conn.ListTasks(ctx)
				rows = scheduled(tasks)
				return err
			})
			if err != nil && !client.Unreachable(err) {
				return err
			}
			dir, derr := o.runDir()
			if derr != nil {
				return derr
			}
			rows = append(rows, unscheduled(rows, dir, err)...)
			if err != nil && len(rows) == 0 {
				return err // whether anything is scheduled is not known
			}
			if werr := o.print(c.OutOrStdout(), rows); werr != nil {
				return werr
			}
			return err
		},
	}
}

// print writes rows as a table or as JSON.
func (o *options) print(w io.Writer, rows []row) error {
	if o.json {
		for _, r := range rows {
			if err := cli.JSON(w, r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, nobody())
		return err
	}
	return table(rows).Write(w)
}

func nobody() string {
	return "no task is scheduled; start one with: " + client.Command("xrun") + " -- COMMAND"
}

func table(rows []row) *cli.Table {
	t := cli.NewTable("TASK", "PID", "NAME", "DEV", "PRIO", "LEVEL", "MODE", "STATE", "WAIT", "LAUNCHES", "RUN", "WHY")
	for _, r := range rows {
		if r.Task == 0 {
			t.Row("-", r.PID, r.Name, "-", "-", "-", "-", cli.Cell{Text: r.State, Style: cli.Yellow}, "-", "-", "-", r.Why)
			continue
		}
		t.Row(r.Task, r.PID, r.Name, short(r.Device), r.priority(), r.level(), dash(r.Mode),
			cli.Cell{Text: r.State, Style: stateStyle[r.State]}, r.Waiting, r.Launches, fmt.Sprintf("%.1fs", r.RunTimeMS/1e3), r.Why)
	}
	return t
}

func (r row) priority() string {
	if r.NoExecute {
		return "off"
	}
	return strconv.Itoa(r.Priority)
}

// level is the one in force, or what is asked for while there is no device.
func (r row) level() string {
	if r.Level == 0 {
		return dash(r.Asked)
	}
	return strconv.Itoa(int(r.Level))
}

var stateStyle = map[string]cli.Style{
	"running": cli.Green, "gated": cli.Yellow, "suspended": cli.Yellow, "newcomer": cli.Yellow, "stopped": cli.Red, "idle": cli.Dim,
}

// short is the head of a UUID: enough to tell the devices of one machine apart.
func short(uuid string) string {
	const head = len("GPU-00000000")
	if len(uuid) > head {
		return uuid[:head]
	}
	return dash(uuid)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// scheduled makes a row of every process and device of the tasks.
func scheduled(tasks []*xserverv1.Task) []row {
	var rows []row
	for _, t := range tasks {
		for _, p := range t.Processes {
			r := row{
				Task: t.Id, PID: int(p.Pid), Name: t.Name, UID: t.Uid, Priority: int(t.GetHints().GetPriority()),
				NoExecute: t.GetHints().GetNoExecute(),
				QuantumUS: us(t.GetHints().GetQuantumNs()), IdleUS: us(t.GetHints().GetIdleAfterNs()),
				Asked: p.GetSettings().GetLevel(), Threshold: p.GetSettings().GetThreshold(), Batch: p.GetSettings().GetBatch(),
				Uncovered: p.Uncovered, Why: processWhy(p), State: "idle",
			}
			if p.Stopped {
				r.State = "stopped"
			}
			if len(t.Devices) == 0 {
				rows = append(rows, r)
			}
			for _, d := range t.Devices {
				rows = append(rows, r.on(d, p))
			}
		}
	}
	return rows
}

func (r row) on(d *xserverv1.Device, p *xserverv1.Process) row {
	r.Device, r.Model, r.Mode = d.Uuid, d.Name, d.Mode
	for _, pd := range p.Devices {
		if pd.Uuid == d.Uuid {
			r.Level, r.MaxLevel, r.LevelWhy = pd.Level, pd.LevelMax, pd.LevelWhy
			r.Holds, r.HoldUS, r.ReleaseUS = pd.Holds, us(pd.HoldNs), us(pd.ReleaseNs)
			if why := levelWhy(pd, r.Asked); why != "" {
				r.Why = strings.Join(append([]string{why}, nonEmpty(r.Why)...), "; ")
			}
		}
	}
	r.Waiting, r.Launches, r.RunTimeMS = d.WaitingThreads, d.Launches, float64(d.RunTimeNs)/1e6
	r.Reason, r.Regime, r.Held, r.SliceUS = d.Reason, d.Regime, d.Held, us(d.SliceNs)
	r.StoppedMS, r.LostMS = float64(d.StoppedNs)/1e6, float64(d.LostNs)/1e6
	for _, c := range d.Preemption {
		r.Preemption = append(r.Preemption, levelCost{c.Level, c.Taken, c.Given})
	}
	switch {
	case p.Stopped:
	case d.Newcomer:
		r.State = "newcomer"
	case d.Ready && d.Open:
		r.State = "running"
	case d.Ready && d.Held:
		r.State = "suspended"
	case d.Ready || !d.Open && d.WaitingThreads > 0:
		r.State = "gated"
	}
	return r
}

// processWhy says what of a scheduled process is not as it should be. No reason
// begins with a digit: a column of numbers would be set flush right.
func processWhy(p *xserverv1.Process) string {
	var why []string
	if n := p.UncoveredCount; n > 0 {
		why = append(why, fmt.Sprintf("calls not covered (%d)%s", n, some(p.Uncovered)))
	}
	if n := p.QueuesOver; n > 0 {
		why = append(why, fmt.Sprintf("slot 0 shared by %d queues", n))
	}
	if n := p.OpenedByLease; n > 0 {
		why = append(why, fmt.Sprintf("gate opened %d times without the daemon", n))
	}
	if p.Throttled {
		why = append(why, "too many edges, polled")
	}
	return strings.Join(why, "; ")
}

// levelWhy says why a process is governed at a lower level than it asked for. With
// auto, level 2 is nothing to speak of.
func levelWhy(d *xserverv1.ProcessDevice, asked string) string {
	wanted := uint32(2)
	n, err := strconv.ParseUint(asked, 10, 32)
	if err == nil {
		wanted = uint32(n)
	}
	text := fmt.Sprintf("level %d is not to be had", wanted)
	switch {
	case d.Level >= wanted:
		return ""
	case d.LevelMax == 0 && err != nil:
		return ""
	case d.LevelMax == 0 || d.LevelMax >= wanted:
		return fmt.Sprintf("level %d: not known yet whether it is to be had", wanted)
	case d.LevelWhy == "":
		return text
	}
	return text + ": " + d.LevelWhy
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// some names the first few.
func some(names []string) string {
	const few = 3
	switch {
	case len(names) == 0:
		return ""
	case len(names) > few:
		return ": " + strings.Join(names[:few], ", ") + ", …"
	}
	return ": " + strings.Join(names, ", ")
}

// unscheduled finds programs that use a GPU and are not in rows; trouble is why
// the daemon cannot be asked, if so.
func unscheduled(rows []row, dir string, trouble error) []row {
	known := map[int]bool{os.Getpid(): true}
	for _, r := range rows {
		known[r.PID] = true
	}
	var found []row
	for _, s := range scan(os.Geteuid(), known) {
		found = append(found, row{PID: s.pid, Name: s.name, UID: s.uid, State: "unscheduled", Why: s.why(dir, trouble)})
	}
	return found
}
