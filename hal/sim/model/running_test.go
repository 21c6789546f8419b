package model

import (
	"testing"
	"time"
)

// TestFinishEndsARunningCommandAlone: the time on the engine counts and nothing
// else, and a command ends only while it has the engine.
func TestFinishEndsARunningCommandAlone(t *testing.T) {
	const long = time.Hour
	m := New(Config{})
	ctx, chans := m.AddContext(1)
	ch := chans[0]
	if _, on := m.Running(ch); on {
		t.Error("an empty channel runs")
	}
	m.Submit(ch, Command{ID: 1, Engine: Compute, Work: long})
	if e, ok := m.Step(0); !ok || e.Kind != Started {
		t.Fatalf("%+v, %v", e, ok)
	}
	m.Step(3 * time.Millisecond)
	if ran, on := m.Running(ch); !on || ran != 3*time.Millisecond {
		t.Errorf("after 3 ms it ran %v, on %v", ran, on)
	}
	if err := m.SetEnabled(ctx, Compute, false); err != nil {
		t.Fatal(err)
	}
	m.Step(10 * time.Millisecond)
	if ran, on := m.Running(ch); on || ran != 3*time.Millisecond {
		t.Errorf("while it was off it ran %v, on %v", ran, on)
	}
	m.Finish(ch)
	if e, ok := m.Step(11 * time.Millisecond); ok {
		t.Errorf("a command that is off was ended: %+v", e)
	}
	if err := m.SetEnabled(ctx, Compute, true); err != nil {
		t.Fatal(err)
	}
	m.Step(12 * time.Millisecond)
	m.Finish(ch)
	if e, ok := m.Step(12 * time.Millisecond); !ok || e.Kind != Done || e.At != 12*time.Millisecond {
		t.Errorf("ended: %+v, %v", e, ok)
	}
	m.Finish(ch) // again, and of a channel that is not there
	m.Finish(99)
	m.Retire(ch)
	if n := m.Queued(ch); n != 0 {
		t.Errorf("%d commands are left", n)
	}
}
