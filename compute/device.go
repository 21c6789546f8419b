package compute

import (
	"cmp"
	"slices"
	"time"
)

// device is one device's tasks and the decider of the present policy.
type device struct {
	name    Device
	seats   map[TaskID]*seat
	decider Decider
	next    time.Duration // the decider's timer; 0 for none

	// What the decider has not been told yet.
	changed []*seat
	gone    []TaskID
	fresh   bool // the decider has seen nothing

	// What the caller has not been told yet.
	touched   []*seat
	replanned bool

	states []TaskState // reused for snapshots
}

// seat is one task on one device.
type seat struct {
	task *task

	ready      bool
	readySince time.Duration
	period     time.Duration // between ready edges, smoothed; 0 if not known

	open  bool
	mode  Mode // the policy's word; see device.mode
	keep  int
	told  Grant
	known bool // told says what the caller knows

	ran   time.Duration // until since
	since time.Duration // start of the present run, if running

	changed, touched, gone bool
}

func newDevice(name Device, p Policy) *device {
	d := &device{name: name, seats: make(map[TaskID]*seat)}
	d.setPolicy(p)
	return d
}

func (d *device) setPolicy(p Policy) {
	d.decider, d.fresh, d.next = p.Fresh(), true, 0
	d.gone = d.gone[:0]
	d.replanned = true
}

func (d *device) add(t *task) {
	s := &seat{task: t, open: true}
	d.seats[t.id] = s
	d.change(s)
	d.competitors()
}

func (d *device) remove(s *seat) {
	s.gone = true
	delete(d.seats, s.task.id)
	d.gone = append(d.gone, s.task.id)
	d.competitors()
}

// competitors has the modes told again where a task may have become alone or
// stopped being it. With more than two tasks neither can be.
func (d *device) competitors() {
	if len(d.seats) <= 2 {
		for _, s := range d.seats {
			d.touch(s)
		}
	}
}

func (d *device) setReady(s *seat, ready bool, now time.Duration) {
	if s.ready == ready {
		return
	}
	s.account(now)
	s.ready = ready
	if ready {
		s.expect(now)
		s.readySince = now
	}
	d.change(s)
}

func (d *device) change(s *seat) {
	if !s.changed {
		s.changed = true
		d.changed = append(d.changed, s)
	}
}

func (d *device) touch(s *seat) {
	if !s.touched {
		s.touched = true
		d.touched = append(d.touched, s)
	}
}

// decide asks the decider, if there is something that it has to be asked.
func (d *device) decide(now time.Duration) {
	due := d.next != 0 && d.next <= now
	if !d.fresh && !due && len(d.changed) == 0 && len(d.gone) == 0 {
		return
	}
	decision := d.decider.Decide(d.snapshot(now))
	d.next = decision.Next
	d.replanned = true
	for _, v := range decision.Verdicts {
		s, ok := d.seats[v.Task]
		if !ok {
			continue
		}
		if s.open != v.Open {
			s.account(now)
			s.open = v.Open
		}
		s.mode, s.keep = v.Mode, v.Keep
		d.touch(s)
	}
}

func (d *device) snapshot(now time.Duration) Snapshot {
	if d.fresh {
		for _, s := range d.seats {
			d.change(s)
		}
		// Who has been ready longest comes first; never a map's order.
		slices.SortFunc(d.changed, func(a, b *seat) int {
			return cmp.Or(cmp.Compare(a.readySince, b.readySince), cmp.Compare(a.task.id, b.task.id))
		})
		d.fresh = false
	}
	d.states = d.states[:0]
	for _, s := range d.changed {
		s.changed = false
		if !s.gone {
			d.states = append(d.states, d.state(s, now))
		}
	}
	snapshot := Snapshot{Now: now, Changed: d.states, Gone: d.gone}
	clear(d.changed)
	d.changed, d.gone = d.changed[:0], d.gone[:0]
	return snapshot
}

func (d *device) state(s *seat, now time.Duration) TaskState {
	s.account(now)
	return TaskState{
		Task: s.task.id, Device: d.name, Hints: s.task.hints,
		Ready: s.ready, ReadySince: s.readySince,
		Open: s.open, Mode: d.mode(s), RunTime: s.ran,
	}
}

// mode is Free for a task that has the device to itself, else the policy's.
func (d *device) mode(s *seat) Mode {
	if len(d.seats) == 1 {
		return Free
	}
	return s.mode
}

// tell appends what the caller does not know yet.
func (d *device) tell(grants []Grant) []Grant {
	first := len(grants)
	for _, s := range d.touched {
		s.touched = false
		g := Grant{Task: s.task.id, Device: d.name, Open: s.open, Mode: d.mode(s)}
		if s.gone || (s.known && s.told == g) {
			continue
		}
		s.told, s.known = g, true
		grants = append(grants, g)
	}
	clear(d.touched)
	d.touched = d.touched[:0]
	slices.SortFunc(grants[first:], func(a, b Grant) int {
		if a.Open != b.Open {
			if b.Open {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Task, b.Task)
	})
	return grants
}

// account charges the time since the last look, if the task was running.
func (s *seat) account(now time.Duration) {
	if s.ready && s.open {
		s.ran += now - s.since
	}
	s.since = now
}

// expect learns the period of a task that turns ready now. The weight of 1/4
// follows a new rhythm within a few periods and lets one outlier pass.
func (s *seat) expect(now time.Duration) {
	if s.readySince == 0 {
		return
	}
	gap := now - s.readySince
	if s.period == 0 {
		s.period = gap
		return
	}
	s.period += (gap - s.period) / 4
}
