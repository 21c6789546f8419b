// Command xbench measures xmsched and shows what it does: demo for a look at
// the whole, one subcommand for each kind of row, check for the numbers that
// must be reached. Flags and wiring only; what is measured and how is in bench.
package main

import (
	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
)

func main() { cli.Main(root()) }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "xbench",
		Short: "Measure xmsched, and show what it does",
		Long: `xbench measures xmsched on the real GPU, or on the simulated one where there is
none (every output then says "simulated": such times are no evidence).

It starts its own daemon in a folder of its own and ends everything it started.
A daemon and programs that run already are left alone, but share the GPU: for
numbers, let nothing else use it.`,
	}
	cmd.AddCommand(
		demoCommand(), p99Command(), preemptCommand(), cyclesCommand(), launchCommand(), shareCommand(), laxityCommand(), decisionCommand(), startupCommand(), pytorchCommand(), modelsCommand(), predictCommand(),
		oversubCommand(), swapCommand(), urgentCommand(),
		checkCommand(), conformanceCommand(), workCommand(),
	)
	return cmd
}
