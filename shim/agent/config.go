package agent

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"xmsched/xserver/client"
)

// Config is what the agent is told by the environment that xrun set.
type Config struct {
	Dir          string // run directory
	Warned       bool   // the user knows already that no daemon answers
	Registration client.Registration
}

// FromEnvironment reads XMSCHED_*. The error is a sentence with the variable,
// its value and what is allowed; ranges are the daemon's to judge.
func FromEnvironment() (Config, error) {
	dir, err := client.RunDir()
	if err != nil {
		return Config{}, err
	}
	c := Config{Dir: dir, Warned: os.Getenv("XMSCHED_WARNED") == "1", Registration: client.Registration{
		Name:      os.Getenv("XMSCHED_NAME"),
		TaskToken: os.Getenv("XMSCHED_TASK"),
		Level:     os.Getenv("XMSCHED_LEVEL"),
	}}
	for name, into := range map[string]*int{
		"XMSCHED_PRIORITY":  &c.Registration.Priority,
		"XMSCHED_THRESHOLD": &c.Registration.Threshold,
		"XMSCHED_BATCH":     &c.Registration.Batch,
	} {
		if err := number(name, into); err != nil {
			return Config{}, err
		}
	}
	for name, into := range map[string]*time.Duration{
		"XMSCHED_QUANTUM":    &c.Registration.Quantum,
		"XMSCHED_IDLE_AFTER": &c.Registration.IdleAfter,
	} {
		if err := duration(name, into); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

func duration(name string, into *time.Duration) error {
	text := os.Getenv(name)
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s=%q is not a duration such as 10ms", name, text)
	}
	*into = d
	return nil
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
