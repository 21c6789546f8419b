package plane

import (
	"fmt"

	"time"

	"xmsched/compute"
	"xmsched/nvx/choose"
)

// TraceState is what a task does on a device, as a trace shows it.
type TraceState uint8

// The states of a trace.
const (
	TraceIdle      TraceState = iota // it has no work
	TraceRunning                     // it has, and may run
	TraceArmed                       // it may run, in the shortest time slices
	TraceGated                       // its gate is closed
	TraceHeld                        // its compute is suspended
	TraceSwitching                   // nobody runs because of it
	TraceMoving                      // its memory is moved
	TraceNewcomer                    // closed until the others know their bounds
	TraceGone                        // it left the device
)

var traceStates = [...]string{"idle", "running", "armed", "gated", "held", "switching", "moving", "newcomer", "gone"}

func (s TraceState) String() string {
	if int(s) < len(traceStates) {
		return traceStates[s]
	}
	return fmt.Sprintf("TraceState(%d)", s)
}

// TraceEvent is a change of what a task does on a device, or of the policy.
type TraceEvent struct {
	At     time.Duration
	Task   compute.TaskID // 0: the policy changed
	Device compute.Device
	State  TraceState
	Ready  bool
	Reason choose.Reason
	Policy string
}

// traceRoom is how many events are kept for those who fetch them.
const traceRoom = 1 << 15

// tracer keeps the newest events in a ring. There is none as long as nobody traces.
type tracer struct {
	readers int
	next    uint64 // number of the next event
	events  [traceRoom]TraceEvent
}

func (t *tracer) add(e TraceEvent) {
	t.events[t.next%traceRoom] = e
	t.next++
}

// read appends events from a number on to out, at most limit of them. It returns the
// number to go on with, and how many are not there any more.
func (t *tracer) read(from uint64, limit int, out []TraceEvent) (events []TraceEvent, next, lost uint64) {
	if t.next > traceRoom && from < t.next-traceRoom {
		lost = t.next - traceRoom - from
		from += lost
	}
	for ; from < t.next && limit > 0; limit-- {
		out = append(out, t.events[from%traceRoom])
		from++
	}
	return out, from, lost
}

// traced is what the trace says of a seat.
type traced struct {
	state  TraceState
	ready  bool
	reason choose.Reason
}

// note has the trace say what a seat does now, if somebody traces and it changed.
func (p *Plane) note(st *seat) {
	if p.trace == nil {
		return
	}
	if now := st.trace(); now != st.traced {
		st.traced = now
		p.noteSeat(st)
	}
}

func (p *Plane) noteSeat(st *seat) {
	p.trace.add(TraceEvent{At: p.now, Task: st.id, Device: st.device.id, State: st.traced.state, Ready: st.traced.ready, Reason: st.traced.reason})
}

func (p *Plane) noteGone(st *seat) {
	if p.trace != nil {
		p.trace.add(TraceEvent{At: p.now, Task: st.id, Device: st.device.id, State: TraceGone})
	}
}

func (st *seat) trace() traced {
	o := st.order()
	t := traced{state: TraceIdle, ready: st.ready > 0, reason: o.Reason}
	switch standing := st.standing(); {
	case standing == resting:
	case st.hold != 0:
		t.state = TraceNewcomer
	case standing == switching:
		t.state = TraceSwitching
	case standing == moving:
		t.state = TraceMoving
	case o.Hold:
		t.state = TraceHeld
	case standing == stopped:
		t.state = TraceGated
	case o.Slice != 0 && o.Slice < choose.Besides:
		t.state = TraceArmed
	default:
		t.state = TraceRunning
	}
	return t
}

// startTrace begins to keep events, with what everybody does now, and returns the
// number of the first.
func (p *Plane) startTrace() uint64 {
	if p.trace == nil {
		p.trace = new(tracer)
	}
	p.trace.readers++
	first := p.trace.next
	p.trace.add(TraceEvent{At: p.now, Policy: p.sched.Policy().Name()})
	for _, d := range p.list {
		for _, st := range d.seats {
			st.traced = st.trace()
			p.noteSeat(st)
		}
	}
	return first
}

func (p *Plane) stopTrace() {
	if p.trace.readers--; p.trace.readers == 0 {
		p.trace = nil
	}
}

// traceBatch is how many events are copied in one turn of the loop: some 10 us.
const traceBatch = 512

// Trace calls each with events, as they come, until wait returns false; each has to
// be done with them when it returns. wait is called whenever there are no more. lost
// are those that came too fast since the last call.
func (l *Loop) Trace(wait func() bool, each func(events []TraceEvent, lost uint64) error) error {
	var next uint64
	if err := l.call(func() { next = l.plane.startTrace() }); err != nil {
		return err
	}
	defer func() { _ = l.call(l.plane.stopTrace) }() // on its way down: nothing to stop
	buf := make([]TraceEvent, 0, traceBatch)
	for {
		var lost uint64
		if err := l.call(func() { buf, next, lost = l.plane.trace.read(next, traceBatch, buf[:0]) }); err != nil {
			return err
		}
		if len(buf) > 0 || lost > 0 {
			if err := each(buf, lost); err != nil {
				return err
			}
		}
		if len(buf) == traceBatch {
			continue // there are more
		}
		if !wait() {
			return nil
		}
	}
}
