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
// its queues on the device as well, 3 stops its kernels too, wherever they are.
func Levels() []string { return []string{"auto", "1", "2", "3"} }

// LevelError reports a level that there is none of.
type LevelError struct{ Level string }

func (e *LevelError) Error() string {
	return fmt.Sprintf("unknown level %q; %s", e.Level, Allowed(Levels()))
}

// CheckLevel says whether a level can be asked for. The error is a *LevelError.
// Whether a device has it is known once a program uses the device.
func CheckLevel(text string) error {
	switch text {
	case "auto", "1", "2", "3":
		return nil
	}
	return &LevelError{Level: text}
}

// LevelAbsent words that a level is not to be had on a device, and which is instead.
func LevelAbsent(level uint32, device, why string, instead uint32) string {
	names := map[uint32]string{1: "block", 2: "deactivate", 3: "interrupt"}
	if device == "" {
		device = "the device"
	}
	text := fmt.Sprintf("level %d (%s) is not to be had on %s", level, names[level], device)
	if why != "" {
		text += ": " + why
	}
	return fmt.Sprintf("%s; use level %d", text, instead)
}
