package mover

import (
	"errors"
	"fmt"
	"time"

	"xmsched/memory"
)

// direction is one of the two ways, each with a copy engine of its own.
type direction uint8

const (
	out direction = iota
	in
	directions
)

func way(a memory.Act) direction {
	if a == memory.CopyIn {
		return in
	}
	return out
}

// landing says that the oldest copy of a direction ended, or a call.
type landing struct {
	way  direction
	call bool
	step memory.Step   // of a call
	took time.Duration // a call
	err  error
}

// world is what a carrier works on.
type world interface {
	// do carries out a step that is quick.
	do(s memory.Step) error
	// call begins a step that may take as long as a copy; several go on at once.
	call(s memory.Step)
	// fly begins a step's copy. Nothing of it is under way after an error.
	fly(s memory.Step) error
	// await waits until the oldest copy of a direction ends, or a call does; false: it
	// was woken before, by a change of what wanted and target tell.
	await() (landing, bool)
	// linger waits a moment for the target to rise, or for outward to fall, while nothing is
	// under way; false: it did not, or somebody waits for the process.
	linger(outward bool) bool
	// wanted says that the move should end soon.
	wanted() bool
	// target is what may be on the device.
	target() memory.Bytes
}

// maxFlying is how many batches a memory.Move has under way in one direction.
const maxFlying = 4

// maxLingers is how often a move waits for another target without a step in between.
const maxLingers = 8

// carrier carries out one plan at a time. Invariant: when carry returns, no copy
// and no call is under way.
type carrier struct {
	world    world
	move     memory.Move
	flying   [directions]queue
	calls    int // under way
	lingered int // times since the last step
	lost     bool
	cut      bool // somebody wanted the process to run
}

// queue are the copies of one direction that are under way, the oldest first.
type queue struct {
	steps [maxFlying]memory.Step
	n     int
}

func (q *queue) push(s memory.Step) {
	q.steps[q.n] = s
	q.n++
}

func (q *queue) pop() memory.Step {
	s := q.steps[0]
	copy(q.steps[:], q.steps[1:q.n])
	q.n--
	return s
}

// outcome is what came of a plan.
type outcome struct {
	memory.Moved
	err     error // the first failure
	lost    bool  // the move is no longer ours
	starved bool  // what was left had no room yet, or had to make none
	cut     bool  // somebody wanted the process to run
}

// carry carries out a plan, which was made for an aim, and returns when it is done
// or given up. Precondition: Begin succeeded.
func (c *carrier) carry(t *memory.Table, p *memory.Plan, a aim) outcome {
	c.lost, c.cut, c.lingered = false, false, 0
	c.move.Start(t, p, nil, c.world.target())
	var starved bool
	for !c.move.Over() {
		c.look(t, p, a)
		if s, ok := c.move.Next(); ok {
			c.begin(s)
			continue
		}
		if c.move.Over() {
			break
		}
		if !c.aloft() {
			// What is left waits for room, which comes batch by batch where another task's
			// memory goes, or has to go batch by batch as another's comes. It is waited for here
			// for a moment only: the process may want to run.
			if c.lingered++; !starved && c.lingered <= maxLingers && (c.world.linger(a.further) || a.further) {
				continue // what has to go as another's comes may wait for a batch of a slow link
			}
			if starved {
				panic("mover: a move that was stopped neither ends nor goes on")
			}
			starved = true
			c.move.Stop()
			continue
		}
		c.land()
	}
	for c.aloft() { // of a move that was lost
		c.land()
	}
	return outcome{c.move.Moved(), c.move.Err(), c.lost, starved, c.cut}
}

// look stops a move that somebody waits for, or whose plan is out of date: one that makes
// more room than is asked for any more, or would have to bring something in. An exchange
// brings something in anyhow: it is out of date once a batch of what goes might stay.
func (c *carrier) look(t *memory.Table, p *memory.Plan, a aim) {
	target := c.world.target()
	c.move.SetTarget(target)
	most := a.goal
	switch {
	case a.further:
		most = t.Figures().Resident + memory.BatchBytes - 1
	case len(p.In) > 0:
		most += memory.BatchBytes - 1
	}
	if c.cut = c.world.wanted() || c.cut; c.cut || len(p.Out) > 0 && target > most {
		c.move.Stop()
	}
}

// begin does a step, or begins its copy.
func (c *carrier) begin(s memory.Step) {
	c.lingered = 0
	switch s.Act {
	case memory.CopyOut, memory.CopyIn:
	case memory.Map, memory.Unmap: // either may wait for another process's
		c.calls++
		c.world.call(s)
		return
	default:
		c.settle(s, c.world.do(s))
		return
	}
	if err := c.world.fly(s); err != nil {
		c.settle(s, err)
		return
	}
	c.flying[way(s.Act)].push(s)
}

// land waits for a copy or a call to end, or for a reason to look again.
func (c *carrier) land() {
	if l, ended := c.world.await(); ended {
		c.settle(c.landed(l), l.err)
	}
}

// landed is the step that a landing ends.
func (c *carrier) landed(l landing) memory.Step {
	if l.call {
		c.calls--
		return l.step
	}
	return c.flying[l.way].pop()
}

func (c *carrier) settle(s memory.Step, err error) {
	if err == nil {
		c.move.Done(s)
		return
	}
	err = meaning(s.Act, err)
	c.move.Failed(s, err)
	if errors.Is(err, errLost) {
		c.lost = true
		c.move.Kill()
	}
}

func (c *carrier) aloft() bool { return c.flying[out].n+c.flying[in].n+c.calls > 0 }

// String says what came of it, for errors and tests.
func (o outcome) String() string {
	return fmt.Sprintf("out %s, in %s, restored %s, lost %t, starved %t: %v", o.Out, o.In, o.Restored, o.lost, o.starved, o.err)
}
