package experiment

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// Level is the preemption level that a program is run at.
type Level int

// LevelAuto is the highest level that the program can do on its device.
const LevelAuto Level = 0

// levels are those of this build.
var levels = []Level{LevelAuto, 1, 2, 3}

func (l Level) String() string {
	if l == LevelAuto {
		return "auto"
	}
	return strconv.Itoa(int(l))
}

// ParseLevel reads "auto", "1", "2" or "3".
func ParseLevel(text string) (Level, error) {
	for _, l := range levels {
		if text == l.String() {
			return l, nil
		}
	}
	return 0, fmt.Errorf("level %q is none of auto, 1, 2, 3", text)
}

// ParseLevels reads a list of levels, each once.
func ParseLevels(texts []string) ([]Level, error) {
	var out []Level
	for _, text := range texts {
		l, err := ParseLevel(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, l) {
			return nil, fmt.Errorf("level %q is there twice", text)
		}
		out = append(out, l)
	}
	return out, nil
}

// LevelError says that a program is not governed at the level asked for.
type LevelError struct {
	Asked Level
	Got   int
	Why   string // as the program says it; may be empty
}

func (e *LevelError) Error() string {
	why := ""
	if e.Why != "" {
		why = " (" + e.Why + ")"
	}
	return fmt.Sprintf("asked for level %d, but the daemon governs the program at %d%s: ask for --level %d or auto", int(e.Asked), e.Got, why, e.Got)
}

// levelTimeout is how long a program that launches may take to find out what it
// can do; it does at one of its first commands.
const levelTimeout = 2 * time.Second

// effective asks the daemon for the level at which it governs a process on the
// lab's device, which is what a row says. One that differs from what was asked
// for is an error: the row would not be what its reader takes it for. The
// process must have begun to launch.
func (l *Lab) effective(ctx context.Context, pid int, asked Level) (int, error) {
	c, err := client.Dial(ctx, l.RunDir())
	if err != nil {
		return 0, fmt.Errorf("ask the daemon for the level: %w", err)
	}
	defer c.Close()
	for deadline := time.Now().Add(levelTimeout); ; {
		tasks, err := c.ListTasks(ctx)
		if err != nil {
			return 0, fmt.Errorf("ask the daemon for the level: %w", err)
		}
		d := deviceOf(tasks, pid, l.Facts.UUID)
		if d == nil {
			return 0, fmt.Errorf("ask the daemon for the level: it does not know process %d on %s", pid, l.Facts.UUID)
		}
		// Level 3 is known a little after Level 2.
		settled := int(d.Level) == int(asked) || asked < 3 && d.LevelMax > 0
		if settled || time.Now().After(deadline) {
			return judged(d, asked)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return 0, fmt.Errorf("ask the daemon for the level: %w", context.Cause(ctx))
		}
	}
}

func judged(d *xserverv1.ProcessDevice, asked Level) (int, error) {
	got := int(d.Level)
	if asked != LevelAuto && got != int(asked) {
		return 0, &LevelError{Asked: asked, Got: got, Why: d.LevelWhy}
	}
	return got, nil
}

func deviceOf(tasks []*xserverv1.Task, pid int, uuid string) *xserverv1.ProcessDevice {
	for _, t := range tasks {
		for _, p := range t.Processes {
			if int(p.Pid) != pid {
				continue
			}
			for _, d := range p.Devices {
				if d.Uuid == uuid {
					return d
				}
			}
		}
	}
	return nil
}
