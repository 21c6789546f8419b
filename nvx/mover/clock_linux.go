package mover

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the time of CLOCK_MONOTONIC, by which the preload library and all that
// look at its records tell times.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// random fills b, which no program can foresee. Unlike crypto/rand it does not end the
// process when there is nothing random to be had.
func random(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Getrandom(b, 0)
		if err != nil && err != unix.EINTR {
			return err
		}
		b = b[max(n, 0):]
	}
	return nil
}
