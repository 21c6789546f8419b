package plane

import (
	"time"

	"xmsched/nvx/choose"
)

// levels of preemption: 1 to 3.
const levels = 3

// LevelCost is what preemption at one level was to a task on a device.
type LevelCost struct {
	Taken uint64 // times that the task was stopped while it had work
	Given uint64 // times that others were stopped for it
}

// Cost is what preemption took of a task on a device.
type Cost struct {
	Levels  [levels + 1]LevelCost // by level; 0 is not used
	Stopped time.Duration         // it had work and was stopped, whoever ran meanwhile
	Lost    time.Duration         // of that: nobody ran in its place, as switching takes time
	Memory  time.Duration         // of that: it was its turn, and its memory was moved
}

// standing is what a task does on a device.
type standing uint8

const (
	resting   standing = iota // it has no work
	running                   // it has, and may run
	stopped                   // it has, and another runs
	switching                 // it has, and nobody runs because of it
	moving                    // it has, and waits for its memory to be moved
)

// account is the books of a seat.
type account struct {
	standing standing
	since    time.Duration
	level    uint32 // at which it was stopped last
	ran      time.Duration
	cost     Cost
}

// book takes in a seat's present state. If it was running until now and is
// stopped, it returns the level of that, else 0.
func (p *Plane) book(st *seat) (taken uint32) {
	a := &st.account
	now := st.standing()
	p.uses(st, now == running)
	p.note(st)
	a.close(p.now)
	before := a.standing
	a.standing = now
	if now == resting || now == running {
		return 0
	}
	level := st.stopLevel()
	switch {
	case before == running:
		a.level = level
		a.cost.Levels[level].Taken++
		if level >= 3 && !st.order().Hold {
			// Armed: the hardware's own switch.
			a.cost.Lost += st.device.costs().Switch
		}
		return level
	case before != resting && level > a.level && a.level != 0: // the gate was not enough
		a.cost.Levels[a.level].Taken--
		a.cost.Levels[level].Taken++
		a.level = level
	case before == resting:
		a.level = 0 // it was not running: nothing was taken
	}
	return 0
}

// close counts the time until now.
func (a *account) close(now time.Duration) {
	d := now - a.since
	a.since = now
	switch a.standing {
	case running:
		a.ran += d
	case stopped:
		a.cost.Stopped += d
	case switching:
		a.cost.Stopped += d
		a.cost.Lost += d
	case moving:
		a.cost.Stopped += d
		a.cost.Memory += d
	}
}

func (st *seat) standing() standing {
	o := st.order()
	switch {
	case st.ready == 0:
		return resting
	case o.Reason == choose.OverGap || o.Reason == choose.WaitsForStop:
		return switching
	case st.memoryKeeps() && o.Open && !st.mem.waits:
		return moving
	case !o.Open || o.Hold || st.mem.waits:
		return stopped
	}
	for _, s := range st.sections {
		if s.did.Held != 0 && s.did.Did != s.want {
			return switching // it has not been let go yet
		}
	}
	return running
}

// stopLevel is the level at which a seat that does not run is stopped.
func (st *seat) stopLevel() uint32 {
	o := st.order()
	if o.Hold || o.Slice != 0 && o.Slice < choose.Besides {
		return 3
	}
	level := uint32(2)
	for _, s := range st.sections {
		level = min(level, max(1, s.grant.Level))
	}
	return level
}

// give books a stop of others at those for whom it was.
func (d *device) give(level uint32) {
	if level == 0 {
		return
	}
	for _, st := range d.working {
		if st.runs() {
			st.account.cost.Levels[level].Given++
		}
	}
}

func (d *device) costs() choose.Costs { return d.offer.Costs.WithDefaults() }

// costs is a copy of a seat's books as of now.
func (p *Plane) costs(st *seat) Cost {
	st.account.close(p.now)
	return st.account.cost
}
