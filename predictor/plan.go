package predictor

import "time"

// Command is one command of a program as a plan takes it.
type Command struct {
	// Queue and Sequence name it: the queue's number of it, from 1 on, growing.
	Queue    uint32
	Sequence uint64
	// ID says what is the same when the sequence of commands repeats: the kernel, or
	// the kind of copy; not its addresses or sizes.
	ID uint64
	// Touches are what it touches.
	Touches []Touch
}

// PlanConfig of a plan.
type PlanConfig struct {
	// Commands and Touches bound the history, which is how long a period may be to
	// be found; 0 is 16,384 and 65,536, 2.5 MiB in all. Phases take up to 0.8 MiB more.
	Commands, Touches int
	// Ranges are the allocations, which a phase that was never seen must lie in to be
	// foretold; they may change. nil: none is foretold.
	Ranges *Ranges
}

const (
	defaultCommands = 1 << 14
	defaultTouches  = 1 << 16
	maxKernels      = 1 << 14 // whose times are kept
	maxQueues       = 4096
)

// Plan puts what a task's next commands touch into the order of time: first those
// that were submitted and have not completed, then those that follow because the
// sequence repeats, then the phases that follow this one.
type Plan struct {
	period  period
	phases  phases
	changes uint64
	ranges  *Ranges
	history []record // ring, as the period's
	touches []Touch  // ring
	touched uint64   // touches ever taken in

	done  map[uint32]uint64 // by queue: the last that completed
	first uint64            // all commands before this one have completed
	times map[uint64]*typical
	slow  []Touch
}

type record struct {
	queue    uint32
	count    uint32
	sequence uint64
	from     uint64 // its touches are from this number on
}

// NewPlan returns a plan without commands.
func NewPlan(c PlanConfig) *Plan {
	if c.Commands <= 0 {
		c.Commands = defaultCommands
	}
	if c.Touches <= 0 {
		c.Touches = defaultTouches
	}
	c.Commands, c.Touches = max(c.Commands, 2*preceding), max(c.Touches, 4)
	return &Plan{
		period:  newPeriod(c.Commands),
		phases:  phases{trust: trustFirst},
		ranges:  c.Ranges,
		history: make([]record, c.Commands),
		touches: make([]Touch, c.Touches),
		done:    make(map[uint32]uint64),
		times:   make(map[uint64]*typical),
	}
}

// Submit takes in a command, in the order of submission over all queues. The
// touches are copied.
func (p *Plan) Submit(c Command) {
	n, breaks, a := p.period.next, p.period.breaks, anchor(&c)
	p.period.push(step{c.ID, a})
	touches := c.Touches[:min(len(c.Touches), len(p.touches)/4)]
	*p.at(n) = record{c.Queue, uint32(len(touches)), c.Sequence, p.touched}
	for _, t := range touches {
		p.touches[p.touched%uint64(len(p.touches))] = t
		p.touched++
	}
	if p.phase(a); p.period.breaks != breaks {
		p.broke()
	}
	if p.first+uint64(len(p.history)) <= p.period.next {
		p.first = p.period.next - uint64(len(p.history)) + 1
	}
}

// anchorBytes is what is large enough to be known again by its address.
const anchorBytes = 1 << 20

// anchor is a command's ID, and where it touches most if that is much.
func anchor(c *Command) uint64 {
	var most, base uint64
	for i := range c.Touches {
		if s := c.Touches[i].Span(); s.Bytes > most {
			most, base = s.Bytes, s.Base
		}
	}
	if most < anchorBytes {
		return c.ID
	}
	return mix(c.ID, base)
}

func (p *Plan) at(n uint64) *record { return &p.history[n%uint64(len(p.history))] }

// Complete tells that a queue's commands have completed up to a number. A number
// lower than the last is a queue that began anew.
func (p *Plan) Complete(queue uint32, sequence uint64) {
	if len(p.done) >= maxQueues && p.done[queue] == 0 {
		clear(p.done) // whoever made so many has closed most
	}
	p.done[queue] = sequence
	for p.first < p.period.next && p.completed(p.first) {
		p.first++
	}
}

func (p *Plan) completed(n uint64) bool {
	r := p.at(n)
	return r.sequence <= p.done[r.queue]
}

// Took tells how long a kernel ran, by its Command.ID. It returns true if that
// was far longer than its time; then what that launch touches is to be widened
// (see Mark).
func (p *Plan) Took(id uint64, d time.Duration) (slow bool) { return p.time(id).here.took(d) }

// TookAway is Took of a launch whose memory was not all on the device, or may not have
// been: it ran as long as it takes to read that over the link.
func (p *Plan) TookAway(id uint64, d time.Duration) (slow bool) { return p.time(id).tookAway(d) }

func (p *Plan) time(id uint64) *typical {
	t := p.times[id]
	if t == nil {
		if len(p.times) >= maxKernels {
			clear(p.times)
		}
		t = new(typical)
		p.times[id] = t
	}
	return t
}

// Expected is how long a kernel takes as a rule, as far as is known with its memory on the
// device.
func (p *Plan) Expected(id uint64) time.Duration {
	if t := p.times[id]; t != nil {
		return t.expected()
	}
	return unknownDuration
}

// maxMarks bounds the allocations that wait for the next load.
const maxMarks = 1024

// Mark marks the allocations that a slow launch touches: probably its template
// left out something that was not on the device. They lead the next plan, whole.
func (p *Plan) Mark(touches []Touch, ranges *Ranges) {
	for _, t := range touches {
		in, ok := ranges.Find(t.Base)
		if !ok || len(p.slow) >= maxMarks {
			continue
		}
		whole := Touch{Base: in.Base, Bytes: in.Bytes, Access: Either}
		known := false
		for _, s := range p.slow {
			known = known || s == whole
		}
		if !known {
			p.slow = append(p.slow, whole)
		}
	}
}

// Unmark forgets the marks: what they asked for was loaded.
func (p *Plan) Unmark() { p.slow = p.slow[:0] }

// Period is how many commands the sequence repeats after; 0: it does not, as far
// as is known.
func (p *Plan) Period() int {
	if p.phases.presumed && !p.period.sure {
		return len(p.phases.present().commands)
	}
	return p.period.length()
}

// Changes counts how often what is ahead became another, also if it repeats as often
// again: the sequence ceased to repeat itself, or a phase ended.
func (p *Plan) Changes() uint64 { return p.changes }

// Outstanding counts the commands that were submitted and have not completed.
func (p *Plan) Outstanding() int {
	count := 0
	p.outstanding(func(uint64) bool {
		count++
		return true
	})
	return count
}

// outstanding calls yield with the numbers of those, in order; false: yield said that it
// was enough.
func (p *Plan) outstanding(yield func(n uint64) bool) bool {
	for n := p.first; n < p.period.next; n++ {
		if !p.completed(n) && !yield(n) {
			return false
		}
	}
	return true
}
