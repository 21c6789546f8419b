package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/nvx/measure"
	"xmsched/nvx/sheet"
	"xmsched/xserver/client"
)

// workerName is the hidden command that is the measuring process.
const workerName = "device-worker"

// deviceOptions are the flags of xcli device.
type deviceOptions struct {
	*options
	probe, measure, sim bool
	uuids               []string
}

func deviceCommand(o *options) *cobra.Command {
	d := &deviceOptions{options: o}
	c := &cobra.Command{
		Use:   "device",
		Short: "Show what preemption on this machine's GPUs can do, measured",
		Long: `device shows the spec sheet of each GPU: what can be stopped at which level and
how fast, time slices, copies, whether freed memory, the GPU's or the host's, still
holds what another program wrote, and what else scheduling rests on. Sheets are stored
in the state directory ($XMSCHED_STATE, /var/lib/xmsched as root,
~/.local/state/xmsched). A GPU without a sheet, or with one of another driver, is
measured first: some 15 seconds each, in which programs that use it run slower.
Under a new driver it says what changed.`,
		Example: "  xcli device\n  xcli device --measure --json\n  xcli device --sim",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if d.probe && d.measure {
				return cli.Usagef("--probe and --measure: give one of them (--measure probes too)")
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return d.run(ctx, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().BoolVar(&d.probe, "probe", false, "find out whether level 3 works, and measure nothing else (a few seconds)")
	c.Flags().BoolVar(&d.measure, "measure", false, "measure again, whatever is stored")
	c.Flags().BoolVar(&d.sim, "sim", false, "the simulated GPU, whose figures say nothing about a real one")
	c.Flags().StringSliceVar(&d.uuids, "uuid", nil, "only the GPUs whose `UUID` begins like this")
	return c
}

// workerCommand is the measuring process, and its second one.
func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerName,
		Args:   cobra.ExactArgs(2),
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the running program: %w", err)
			}
			return measure.Worker(args, func(role, uuid string) *exec.Cmd {
				return exec.Command(self, workerName, role, uuid)
			})
		},
	}
}

// shown is a sheet with what is said about it.
type shown struct {
	*sheet.Sheet
	Differences []sheet.Difference `json:"differences,omitempty"` // from the previous driver's
	Previous    string             `json:"previous_driver,omitempty"`
}

func (d *deviceOptions) run(ctx context.Context, out, progress io.Writer) error {
	dir, err := client.StateDir()
	if err != nil {
		return cli.Usagef("%v", err)
	}
	sheets, err := d.sheets(ctx, dir, progress)
	if err != nil {
		return err
	}
	for i, s := range sheets {
		one := shown{Sheet: s}
		if previous, err := sheet.LoadPrevious(dir, s.Device.UUID); err == nil && previous.Measured != nil && s.Measured != nil {
			one.Differences, one.Previous = sheet.Compare(previous, s), previous.Driver.Version
		}
		if err := d.show(out, one, i > 0); err != nil {
			return err
		}
	}
	return nil
}

// sheets are those to show: the stored ones where they still say something, and
// new ones, stored, for the others.
func (d *deviceOptions) sheets(ctx context.Context, dir string, progress io.Writer) ([]*sheet.Sheet, error) {
	cfg, err := d.children(ctx, progress)
	if err != nil {
		return nil, err
	}
	present, err := measure.Devices(ctx, cfg)
	if err != nil {
		return d.withoutDevice(dir, err)
	}
	if present = d.chosen(present); len(present) == 0 {
		return nil, cli.Usagef("--uuid %s: no such GPU here", strings.Join(d.uuids, ","))
	}
	var all []*sheet.Sheet
	for _, p := range present {
		s, err := d.current(ctx, cfg, dir, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Device.UUID, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// current is the sheet of a device that is there.
func (d *deviceOptions) current(ctx context.Context, cfg measure.Config, dir string, present *sheet.Sheet) (*sheet.Sheet, error) {
	stored, err := sheet.Load(dir, present.Device.UUID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		cfg.Progress(err.Error()+"; measuring again", 0, 0)
	}
	known := err == nil && stored.On(present.Driver.Version) && stored.Measured != nil
	if known && !d.measure && !d.probe {
		return stored, nil
	}
	take := measure.Measure
	if d.probe {
		take = measure.Probe
	}
	s, err := take(ctx, cfg, present.Device.UUID)
	if err != nil {
		return nil, err
	}
	if err := sheet.Save(dir, s); err != nil {
		return nil, err
	}
	return s, nil
}

// chosen are the devices that --uuid means; all without it.
func (d *deviceOptions) chosen(sheets []*sheet.Sheet) []*sheet.Sheet {
	if len(d.uuids) == 0 {
		return sheets
	}
	return slices.DeleteFunc(slices.Clone(sheets), func(s *sheet.Sheet) bool {
		return !slices.ContainsFunc(d.uuids, func(u string) bool { return u != "" && strings.HasPrefix(s.Device.UUID, u) })
	})
}

// withoutDevice shows what is stored of devices that are not to be had now; a
// machine that never had one gets a sentence on what to do.
func (d *deviceOptions) withoutDevice(dir string, absent error) ([]*sheet.Sheet, error) {
	stored, err := sheet.List(dir)
	stored = slices.DeleteFunc(d.chosen(stored), func(s *sheet.Sheet) bool { return s.Simulated != d.sim })
	if len(stored) > 0 && !d.probe && !d.measure {
		return stored, nil
	}
	if d.sim {
		return nil, errors.Join(fmt.Errorf("the simulated GPU: %w", absent), err)
	}
	return nil, errors.Join(fmt.Errorf("no GPU is to be had here (%w): `%s doctor` says what is missing, and `%[2]s device --sim` shows the simulated one",
		absent, client.Command("xcli")), err)
}
