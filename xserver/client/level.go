package client

import (
	"fmt"

	"xmsched/preempt/board"
)

// Limits of what can be asked for.
const (
	MaxThreshold = board.MaxThreshold // commands, as is a batch
	MaxName      = 64                 // bytes of a program's name in listings
)

// Levels are the levels of preemption that a program can be started with: auto
// is the highest that it can do on its device, 1 blocks its launches, 2 stops
// its queues on the device as well.
func Levels() []string { return []string{"auto", "1", "2"} }

// LevelError reports a level that cannot be asked for.
type LevelError struct {
	Level   string
	Missing bool   // it exists and is not built yet
	Device  string // which lacks it; empty: all do
}

func (e *LevelError) Error() string {
	if e.Missing {
		device := e.Device
		if device == "" {
			device = "CUDA devices"
		}
		return fmt.Sprintf("level %s (interrupt) is not available yet on %s: use level 2; %s", e.Level, device, Allowed(Levels()))
	}
	return fmt.Sprintf("unknown level %q; %s", e.Level, Allowed(Levels()))
}

// CheckLevel says whether a level can be asked for. The error is a *LevelError.
func CheckLevel(text string) error {
	switch text {
	case "auto", "1", "2":
		return nil
	}
	return &LevelError{Level: text, Missing: text == "3"}
}
