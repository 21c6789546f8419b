package plane

import (
	"time"

	"xmsched/compute"
	"xmsched/preempt/board"
)

// books is what became of a task beyond its present seats.
type books struct {
	all    histogram
	recent recent

	sloRequests, sloMet uint64
	met, missed         uint64 // deadlines

	past totals // of seats that it left
}

// totals sums up accounts.
type totals struct {
	ran, stopped, lost, memory time.Duration
	taken, given               uint64
}

func (t *totals) add(a *account) {
	t.ran += a.ran
	t.stopped += a.cost.Stopped
	t.lost += a.cost.Lost
	t.memory += a.cost.Memory
	for _, c := range a.cost.Levels {
		t.taken += c.Taken
		t.given += c.Given
	}
}

// requested takes in that a request of a seat ended at a time.
func (p *Plane) requested(st *seat, at time.Duration) {
	if !st.requests {
		return
	}
	st.requests = false
	took := max(at-st.readyAt, 0)
	b, h := &st.task.books, &st.task.hints
	b.all.record(took)
	b.recent.record(took, p.now)
	if h.SLO != 0 {
		b.sloRequests++
		if took <= h.SLO {
			b.sloMet++
		}
	}
	if h.Deadline != 0 {
		if took <= h.Deadline {
			b.met++
		} else {
			b.missed++
		}
	}
}

// TaskState is what became of a task, on all devices.
type TaskState struct {
	Task compute.TaskID

	Ran     time.Duration // it had work and might run
	Stopped time.Duration // it had work and was stopped
	Lost    time.Duration // of that: nobody ran in its place
	Memory  time.Duration // of the stopped time: it was its turn, and its memory was moved

	Taken, Given uint64 // preemptions of it, and of others for it

	Requests    Requests // that ended
	Recent      Requests // of the last recentSpan to two times that
	SLORequests uint64   // that ended while there was an SLO
	SLOMet      uint64
	Met, Missed uint64 // deadlines

	Shares []DeviceShares
}

// DeviceShares is what part of each second a task had a device.
type DeviceShares struct {
	Device      compute.Device
	Permille    []uint32 // the newest last, at most shareSpan
	Outstanding uint64   // commands at most
}

// account sums up a task now.
func (p *Plane) account(id compute.TaskID, t *task) TaskState {
	sum := t.books.past
	s := TaskState{Task: id}
	for _, st := range t.seats {
		st.account.close(p.now)
		sum.add(&st.account)
		s.Shares = append(s.Shares, DeviceShares{Device: st.device.id, Permille: st.use.list(), Outstanding: outstanding(st)})
	}
	s.Ran, s.Stopped, s.Lost, s.Memory, s.Taken, s.Given = sum.ran, sum.stopped, sum.lost, sum.memory, sum.taken, sum.given
	b := &t.books
	s.Requests, s.Recent = b.all.summary(nil), b.recent.summary(p.now)
	s.SLORequests, s.SLOMet, s.Met, s.Missed = b.sloRequests, b.sloMet, b.met, b.missed
	return s
}

// outstanding is how many commands at most wait or run in the queues that a seat has
// slots of its own for. Where completions are noted now and then alone, those of a
// seat without work are not noted yet.
func outstanding(st *seat) (n uint64) {
	if st.ready == 0 {
		return 0
	}
	for _, s := range st.sections {
		eachSlot(s.process.Board, func(v board.SlotView) {
			if v.Device == s.index {
				n += v.Outstanding()
			}
		})
	}
	return n
}

// keepEnded is how many tasks are remembered that have ended.
const keepEnded = 64

// ended takes in that a task has ended.
func (p *Plane) taskEnded(id compute.TaskID, t *task) {
	if len(p.ended) == keepEnded {
		copy(p.ended, p.ended[1:])
		p.ended = p.ended[:keepEnded-1]
	}
	p.ended = append(p.ended, p.account(id, t))
}

// accountsATime is how many tasks are summed up in one turn of the loop: some 30 us.
const accountsATime = 32

// Accounts sums up all tasks, and those that ended lately, the newest last. The
// loop's thread is not held up for longer than a decision takes.
func (l *Loop) Accounts() (tasks, ended []TaskState, err error) {
	var ids []compute.TaskID
	err = l.call(func() {
		for id := range l.plane.tasks {
			ids = append(ids, id)
		}
		ended = append(ended, l.plane.ended...)
	})
	for len(ids) > 0 && err == nil {
		n := min(len(ids), accountsATime)
		err = l.call(func() {
			for _, id := range ids[:n] {
				if t, ok := l.plane.tasks[id]; ok {
					tasks = append(tasks, l.plane.account(id, t))
				}
			}
		})
		ids = ids[n:]
	}
	return tasks, ended, err
}
