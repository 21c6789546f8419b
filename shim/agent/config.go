package agent

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"xmsched/compute"
	"xmsched/nvx/mover"
	"xmsched/xserver/client"
)

// Config is what the agent is told by the environment that xrun set.
type Config struct {
	Dir          string // run directory
	Warned       bool   // the user knows already that no daemon answers
	Registration client.Registration
	// MovesMemory: the daemon manages memory, and moves it by us. Memory is how; nil
	// leaves it where it is.
	MovesMemory bool
	Memory      mover.Memory
	MemoryLog   io.Writer // gets a line of JSON for each move; nil: nobody does
	// Commands are the program's, as they are recorded; nil: they cannot be.
	Commands Commands
	// Knowledge is what is known of kernels; nil: nothing is foreseen or learnt.
	Knowledge *Knowledge
	// Learns: the program's launches are to be learnt from. Learning is by what; nil:
	// they are not.
	Learns   bool
	Learning *Learning
}

// FromEnvironment reads XMSCHED_*. The error is a sentence with the variable,
// its value and what is allowed.
func FromEnvironment() (Config, error) {
	dir, err := client.RunDir()
	if err != nil {
		return Config{}, err
	}
	c := Config{
		Dir:         dir,
		Warned:      os.Getenv("XMSCHED_WARNED") == "1",
		MovesMemory: os.Getenv(client.MemoryVariable) == "1",
		Learns:      os.Getenv(client.LearnVariable) == "1",
		Registration: client.Registration{
			Name:      os.Getenv("XMSCHED_NAME"),
			TaskToken: os.Getenv("XMSCHED_TASK"),
			Level:     os.Getenv("XMSCHED_LEVEL"),
		},
	}
	for _, hint := range compute.HintList() {
		name := client.HintVariable(hint)
		text := os.Getenv(name)
		if err := hint.Parse(text, &c.Registration.Hints); err != nil {
			return Config{}, fmt.Errorf("%s=%q is not %s", name, text, hint.Allowed)
		}
	}
	for name, into := range map[string]*int{
		"XMSCHED_THRESHOLD": &c.Registration.Threshold,
		"XMSCHED_BATCH":     &c.Registration.Batch,
	} {
		if err := number(name, into); err != nil {
			return Config{}, err
		}
	}
	if text := os.Getenv(client.MemoryLimitVariable); text != "" {
		if c.Registration.MemoryLimit, err = strconv.ParseUint(text, 10, 64); err != nil {
			return Config{}, fmt.Errorf("%s=%q is not a number of bytes", client.MemoryLimitVariable, text)
		}
	}
	return c, nil
}

func number(name string, into *int) error {
	text := os.Getenv(name)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return fmt.Errorf("%s=%q is not a number", name, text)
	}
	*into = int(n)
	return nil
}
