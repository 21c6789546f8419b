// Command xcli shows and steers what xserver schedules.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/xserver/client"
)

func main() { cli.Main(command()) }

// answerTime is how long the daemon may take to answer a request.
const answerTime = 5 * time.Second

// options are the flags of all subcommands.
type options struct {
	dir  string // run directory; empty: the usual one
	json bool
}

func command() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:   "xcli",
		Short: "Show and steer the programs that run under xmsched",
		Long: "xcli talks to the xserver of your user, or of root. You see and steer your own\n" +
			"tasks; root sees and steers all.",
		Example: "  xcli list\n  xcli hint --task 3 --priority 20\n  xcli config --task 3 --level 1\n  xcli policy set RR\n  xcli doctor",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().StringVar(&o.dir, "dir", "", "run directory (default $XMSCHED_DIR, $XDG_RUNTIME_DIR/xmsched, /run/xmsched as root)")
	root.PersistentFlags().BoolVar(&o.json, "json", false, "print JSON, one object a line")
	root.AddCommand(listCommand(&o), topCommand(&o), policyCommand(&o), hintCommand(&o), configCommand(&o), statusCommand(&o), reportCommand(&o), traceCommand(&o), tokenCommand(&o), doctorCommand(&o), deviceCommand(&o), memoryCommand(&o), templatesCommand(&o), observeCommand(&o), workerCommand())
	return root
}

// runDir is the directory that is meant.
func (o *options) runDir() (string, error) {
	if o.dir != "" {
		return filepath.Abs(o.dir)
	}
	dir, err := client.RunDir()
	if err != nil {
		return "", cli.Usagef("%v; or give one with --dir", err)
	}
	return dir, nil
}

// ask connects to the daemon, has f ask it, and words what went wrong.
func (o *options) ask(c *cobra.Command, f func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithTimeout(c.Context(), answerTime)
	defer cancel()
	return o.connected(ctx, func(conn *client.Client) error { return asUsage(f(ctx, conn)) })
}

// askUntil lets f talk to the daemon until one of the signals ends its context.
func (o *options) askUntil(c *cobra.Command, f func(context.Context, *client.Client) error, signals ...os.Signal) error {
	ctx, stop := signal.NotifyContext(c.Context(), signals...)
	defer stop()
	return o.connected(ctx, func(conn *client.Client) error { return f(ctx, conn) })
}

func (o *options) connected(ctx context.Context, f func(*client.Client) error) error {
	dir, err := o.runDir()
	if err != nil {
		return err
	}
	conn, err := client.Dial(ctx, dir)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}
