package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// probeTimeout bounds the measuring of a device's sheet.
const probeTimeout = 90 * time.Second

// stateDir is where the daemon finds the device's sheet. XMSCHED_STATE names one
// that outlives this run, so that a script measures the sheet once.
func (l *Lab) stateDir() string {
	if dir := os.Getenv("XMSCHED_STATE"); dir != "" && !l.Facts.Simulated {
		return dir
	}
	return filepath.Join(l.dir, "state")
}

// ensureSheet has the device's sheet measured, unless there is one.
func (l *Lab) ensureSheet(ctx context.Context) error {
	sheet := filepath.Join(l.stateDir(), "devices", l.Facts.UUID+".json")
	if _, err := os.Stat(sheet); err == nil {
		return nil
	}
	xcli, err := l.Places.Program("xcli")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errors.New("the device's sheet was not measured in time"))
	defer cancel()
	c, err := Start(Spec{Name: "xcli device --probe", Path: xcli, Args: []string{"device", "--probe"}, Env: l.scheduledEnv()})
	if err != nil {
		return err
	}
	defer c.Kill()
	if err := c.Finish(ctx); err != nil {
		return fmt.Errorf("measure the device's sheet: %w", err)
	}
	return nil
}
