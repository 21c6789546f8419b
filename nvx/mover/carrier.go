package mover

import (
	"errors"
	"fmt"

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

// landing says that the oldest copy of a direction ended.
type landing struct {
	way direction
	err error
}

// world is what a carrier works on.
type world interface {
	// do carries out a step that is not a copy.
	do(s memory.Step) error
	// fly begins a step's copy. Nothing of it is under way after an error.
	fly(s memory.Step) error
	// await waits until the oldest copy of a direction ends; false: it was woken
	// before, by a change of what the next two tell.
	await() (landing, bool)
	// wanted says that the move should end soon.
	wanted() bool
	// target is what may be on the device.
	target() memory.Bytes
}

// maxFlying is how many batches a memory.Move has under way in one direction.
const maxFlying = 4

// carrier carries out one plan at a time. Invariant: when carry returns, no copy
// is under way.
type carrier struct {
	world  world
	move   memory.Move
	flying [directions]queue
	lost   bool
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
	starved bool  // it ended for lack of room below the target
}

// carry carries out a plan, which was made for goal, and returns when it is done
// or given up. Precondition: Begin succeeded.
func (c *carrier) carry(t *memory.Table, p *memory.Plan, goal memory.Bytes) outcome {
	c.lost = false
	c.move.Start(t, p, nil, c.world.target())
	var starved bool
	for !c.move.Over() {
		c.look(len(p.Out) > 0, goal)
		if s, ok := c.move.Next(); ok {
			c.begin(s)
			continue
		}
		if c.move.Over() {
			break
		}
		if !c.aloft() {
			// What is left waits for room. It is not waited for here: the process
			// may want to run.
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
	return outcome{c.move.Moved(), c.move.Err(), c.lost, starved}
}

// look stops a move that somebody waits for, or whose plan is out of date: one
// that makes more room than is asked for any more.
func (c *carrier) look(outward bool, goal memory.Bytes) {
	target := c.world.target()
	c.move.SetTarget(target)
	if c.world.wanted() || outward && target > goal {
		c.move.Stop()
	}
}

// begin does a step, or begins its copy.
func (c *carrier) begin(s memory.Step) {
	if s.Act != memory.CopyOut && s.Act != memory.CopyIn {
		c.settle(s, c.world.do(s))
		return
	}
	if err := c.world.fly(s); err != nil {
		c.settle(s, err)
		return
	}
	c.flying[way(s.Act)].push(s)
}

// land waits for a copy to end, or for a reason to look again.
func (c *carrier) land() {
	l, ended := c.world.await()
	if ended {
		c.settle(c.flying[l.way].pop(), l.err)
	}
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

func (c *carrier) aloft() bool { return c.flying[out].n+c.flying[in].n > 0 }

// String says what came of it, for errors and tests.
func (o outcome) String() string {
	return fmt.Sprintf("out %s, in %s, restored %s, lost %t, starved %t: %v", o.Out, o.In, o.Restored, o.lost, o.starved, o.err)
}
