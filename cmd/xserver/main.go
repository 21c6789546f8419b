// Command xserver is the daemon: flags and wiring, nothing else.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/compute"
	"xmsched/xserver"
	"xmsched/xserver/client"
)

func main() {
	settle()
	cli.Main(command())
}

func command() *cobra.Command {
	var dir, policy, level string
	var idleAfter, spin time.Duration
	var http, metrics string
	var shared bool
	var p probing
	var m memoryFlags
	c := &cobra.Command{
		Use:   "xserver",
		Short: "Decide which programs compute on this machine's GPUs",
		Long: "xserver schedules the programs that were started with xrun. It runs in the\n" +
			"foreground until it gets SIGTERM or SIGINT, and opens no device itself. Devices\n" +
			"without a spec sheet it has probed by xcli device --probe, once.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			managed, err := m.settings(c)
			if err != nil {
				return err
			}
			return serve(c, xserver.Config{Dir: dir, Shared: shared, Policy: policy, IdleAfter: idleAfter, Spin: spin, HTTP: http, Metrics: metrics, Memory: managed}, level, p)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "run directory (default $XMSCHED_DIR, $XDG_RUNTIME_DIR/xmsched, /run/xmsched as root)")
	c.Flags().BoolVar(&shared, "shared", false, "serve other users as well, and containers: opens the run directory and its sockets to them; root only, and always so in "+client.SystemDir)
	c.Flags().StringVar(&policy, "policy", "", fmt.Sprintf("policy: %s (default: the last one, else %s)", strings.Join(compute.PolicyNames(), ", "), xserver.DefaultPolicy))
	c.Flags().DurationVar(&idleAfter, "idle-after", xserver.DefaultIdleAfter, "how long a program without work keeps the lower ones out: 1us to 1s; a program's own hint counts before it")
	cli.Allow(c, "idle-after", fmt.Sprintf("%v to %v", compute.MinIdleAfter, compute.MaxIdleAfter))
	c.Flags().DurationVar(&spin, "spin", 0, "for how long after a program got or lost work to look for the next such edge instead of sleeping, up to 1s, such as 5ms: decisions come sooner by what it takes to wake a thread, and cost a core while programs have edges")
	cli.Allow(c, "spin", fmt.Sprintf("0s to %v", xserver.MaxSpin))
	c.Flags().BoolVar(&p.none, "no-probe", false, "do not probe devices of which no spec sheet is stored: no level 3 on those")
	c.Flags().BoolVar(&p.sim, "sim", false, "serve programs on the simulated GPU: probe that one, started if need be")
	c.Flags().StringVar(&http, "http", "", "serve XSched's HTTP interface, and ours under /v1, on this loopback `ADDRESS`, such as 127.0.0.1:50000; xcli token shows what to ask with")
	c.Flags().StringVar(&metrics, "metrics", "", "serve figures for Prometheus on this loopback `ADDRESS`, such as 127.0.0.1:9464; those of tasks to whom a token is sent")
	m.register(c)
	c.Flags().StringVar(&level, "log", "info", "what is logged: debug, info, warn, error")
	return c
}

func serve(c *cobra.Command, cfg xserver.Config, level string, p probing) error {
	var lv slog.Level
	if err := lv.UnmarshalText([]byte(level)); err != nil {
		return cli.Usagef("unknown log level %q; allowed are debug, info, warn, error", level)
	}
	if cfg.IdleAfter == 0 { // where it would mean the default
		return cli.Usagef("idle-after 0s: allowed is %v to %v", compute.MinIdleAfter, compute.MaxIdleAfter)
	}
	var err error
	if cfg.Dir == "" {
		if cfg.Dir, err = client.RunDir(); err != nil {
			return cli.Usagef("%v; or give one with --dir", err)
		}
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return err
	}
	if cfg.Shared && os.Geteuid() != 0 {
		return cli.Usagef("--shared: only root's daemon serves other users, this is uid %d", os.Geteuid())
	}
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cfg.Version = cli.Version
	cfg.Log = slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: lv}))
	cfg.Sheets = p.sheets(cfg.Dir, cfg.Log)
	s, err := xserver.New(cfg)
	var unknown *compute.UnknownPolicyError
	if errors.As(err, &unknown) {
		return cli.Usagef("unknown policy %q; %s", unknown.Name, client.Allowed(unknown.Allowed))
	}
	var elsewhere *xserver.AddressError
	if errors.As(err, &elsewhere) {
		return cli.Usagef("%v", err)
	}
	var outside *compute.RangeError
	if errors.As(err, &outside) {
		return cli.Usagef("%v", outside)
	}
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
