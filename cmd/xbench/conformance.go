package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/conformance"
)

func conformanceCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Write down how this machine's CUDA driver answers",
		Long: `Asks the driver the questions whose answers xmsched relies on and writes the
transcript. That of a real GPU is the reference that the simulated one must match.`,
		Example: "  xbench conformance --out h200.txt\n  xrun --sim -- xbench conformance",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return interruptible(cmd, func(ctx context.Context) error {
				driver, err := cuda.Open()
				if err != nil {
					return err
				}
				var transcript bytes.Buffer
				if err := conformance.Run(ctx, &transcript, driver); err != nil {
					return err
				}
				// Each case is this command again, in a child that answers
				// through a pipe of its own and gives no transcript.
				if transcript.Len() == 0 {
					return nil
				}
				if out == "" {
					_, err := transcript.WriteTo(cmd.OutOrStdout())
					return err
				}
				if err := renameio.WriteFile(out, transcript.Bytes(), 0o644); err != nil {
					return fmt.Errorf("write transcript: %w", err)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the transcript to `FILE` instead of printing it")
	return cmd
}
