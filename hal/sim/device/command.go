package device

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Main is the body of `xrun sim-device`: it parses the arguments behind that
// word and serves until ctx ends or nobody needs the device any more.
func Main(ctx context.Context, args []string) error {
	cfg, err := ParseArgs(args)
	if err != nil {
		return err
	}
	// The engine and two workers may each hold a processor for a while; the
	// control connections must not wait for them.
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	return Serve(ctx, cfg)
}

// ParseArgs reads flags. What no flag says comes from the environment:
// XMSCHED_SIM_HBM and XMSCHED_SIM_SCALE.
func ParseArgs(args []string) (Config, error) {
	cfg, err := FromEnv()
	if err != nil {
		return Config{}, err
	}
	set := flag.NewFlagSet("sim-device", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&cfg.Socket, "socket", "", "path of the control socket")
	set.Func("hbm", "device memory: bytes, or with K, M, G", func(s string) error {
		n, err := ParseBytes(s)
		cfg.HBM = n
		return err
	})
	set.Float64Var(&cfg.Scale, "scale", cfg.Scale, "wall time per simulated time")
	set.DurationVar(&cfg.IdleExit, "idle-exit", 10*time.Second, "end that long after the last client; 0 never")
	if err := set.Parse(args); err != nil {
		return Config{}, fmt.Errorf("sim-device: %w", err)
	}
	if cfg.Socket == "" || set.NArg() > 0 {
		return Config{}, fmt.Errorf("sim-device: --socket PATH is needed, and nothing else than flags")
	}
	return cfg, nil
}

// FromEnv is the configuration that the environment asks for, without a socket.
func FromEnv() (Config, error) {
	var cfg Config
	if s := os.Getenv("XMSCHED_SIM_HBM"); s != "" {
		n, err := ParseBytes(s)
		if err != nil {
			return Config{}, fmt.Errorf("XMSCHED_SIM_HBM: %w", err)
		}
		cfg.HBM = n
	}
	if s := os.Getenv("XMSCHED_SIM_SCALE"); s != "" {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f > 0) {
			return Config{}, fmt.Errorf("XMSCHED_SIM_SCALE=%q: must be a positive number", s)
		}
		cfg.Scale = f
	}
	return cfg, nil
}

// ParseBytes reads a positive size: a number with nothing, K, M, G or T behind
// it (powers of 1024).
func ParseBytes(s string) (uint64, error) {
	digits, shift := strings.ToUpper(strings.TrimSpace(s)), 0
	digits = strings.TrimSuffix(strings.TrimSuffix(digits, "B"), "I")
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("KMGT", digits[n-1]); i >= 0 {
			digits, shift = digits[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("size %q: must be a positive number with K, M, G, T or nothing behind it", s)
	}
	return n << shift, nil
}
