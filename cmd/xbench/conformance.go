package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

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
transcript. That of a real GPU is the reference that the simulated one must match.
After a failure or an interruption it writes what was answered until then.`,
		Example: "  xbench conformance --out h200.txt\n  xrun --sim -- xbench conformance",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return interruptible(cmd, func(ctx context.Context) error {
				driver, err := cuda.Open()
				if err != nil {
					return err
				}
				var transcript bytes.Buffer
				err = conformance.Run(ctx, &transcript, driver)
				// What was answered before a failure or an interruption is kept:
				// time on a GPU machine is scarce.
				return errors.Join(err, keepTranscript(cmd.OutOrStdout(), out, transcript.Bytes()))
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the transcript to `FILE` instead of printing it")
	return cmd
}

// keepTranscript prints the transcript or replaces file with it. Each case is
// this command again, in a child that answers through a pipe of its own: there
// the transcript is empty and nothing is kept.
func keepTranscript(w io.Writer, file string, transcript []byte) error {
	if len(transcript) == 0 {
		return nil
	}
	if file == "" {
		_, err := w.Write(transcript)
		return err
	}
	if err := renameio.WriteFile(file, transcript, 0o644); err != nil {
		return fmt.Errorf("write transcript: %w", err)
	}
	return nil
}
