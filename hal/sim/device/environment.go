package device

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

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
	if s := os.Getenv("XMSCHED_SIM_DEVICES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > mostDevices {
			return Config{}, fmt.Errorf("XMSCHED_SIM_DEVICES=%q: must be a number from 1 to %d", s, mostDevices)
		}
		cfg.Devices = n
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
