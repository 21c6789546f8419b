// Command xrun starts a program under xmsched: it sets the program's environment
// and becomes the program. Pid, signals and exit code are the program's own;
// nothing of xrun is left once it runs.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
)

func main() {
	// The simulated device is this same binary, started by hal/sim/device. It is
	// no subcommand of xrun, so that no program's name is taken.
	if len(os.Args) > 1 && os.Args[1] == "sim-device" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		cli.Main(simCommand())
	}
	cli.Main(command())
}

func command() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "xrun [flags] [--] COMMAND [ARGUMENT]...",
		Short: "Run a program under xmsched",
		Long: `xrun runs a program, unmodified, so that xserver decides when its GPU work runs.
It sets the environment and becomes the program: pid, signals and exit code are
the program's. All processes that it starts belong to the same task, unless
--per-process makes each a task by itself.

Without a daemon the program runs unscheduled, after one warning line; so do
static and setuid programs, into which nothing can be preloaded.

Each flag can be given by an environment variable; a flag counts before
XMSCHED_*, and that before the names of XSched (XSCHED_AUTO_XQUEUE_PRIORITY,
_LEVEL, _THRESHOLD, _BATCH_SIZE, _TIMESLICE).

Exit codes: the program's; 127 it was not found, 126 it cannot be executed,
2 the command line is wrong, 1 xrun itself cannot go on.`,
		Example: `  xrun --priority 10 -- python serve.py
  xrun --name train -- python train.py --batch 256
  xrun --sim -- ./a.out           on a simulated GPU`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no command given; for example: xrun -- python train.py")
			}
			s, err := f.settings(c.Flags(), os.Environ(), args[0])
			if err != nil {
				return err
			}
			for _, w := range s.warnings {
				warn(c, "%s", w)
			}
			return start(c, s, args)
		},
	}
	f.register(c)
	return c
}

func warn(c *cobra.Command, format string, args ...any) {
	fmt.Fprintf(c.ErrOrStderr(), "xrun: "+format+"\n", args...)
}
