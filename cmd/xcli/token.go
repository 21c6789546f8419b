package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/xserver/client"
)

func tokenCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "token",
		Short: "Show the token by which the daemon knows you over HTTP",
		Long: `token shows what to send as Authorization: Bearer TOKEN to a daemon that was started
with --http or --metrics. It is yours, and good until the daemon ends: who has it sees
and steers your tasks. With --json it says where HTTP is served as well.`,
		Example: `  curl -H "Authorization: Bearer $(xcli token)" http://127.0.0.1:50000/v1/tasks`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.ask(c, func(ctx context.Context, conn *client.Client) error {
				r, err := conn.Token(ctx)
				if err != nil {
					return err
				}
				if o.json {
					return cli.JSON(c.OutOrStdout(), map[string]any{"token": r.Token, "http": r.Http, "metrics": r.Metrics})
				}
				_, err = fmt.Fprintln(c.OutOrStdout(), r.Token)
				return err
			})
		},
	}
}
