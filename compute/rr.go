package compute

import (
	"iter"
	"time"
)

// DefaultQuantum is the turn of a task that asked for no other. It is XSched's
// default. A turn is handed on by two gate words, well under 100 us, so 5 ms
// keep that under 2 % of the turn; and with three tasks a waiting one is
// served again within 10 ms, which a person does not notice.
const DefaultQuantum = 5 * time.Millisecond

// RR is round robin: the ready tasks of a device take turns in the order in
// which they began to wait, each for its quantum, and all other gates are
// closed meanwhile. Who turns idle ends its turn at once and queues at the
// tail when it is ready again, however long it slept. A turn lasts on while
// nobody waits, and then ends as soon as somebody does, if its quantum is
// used up. Priorities do not count.
func RR() Policy { return rrPolicy{} }

type rrPolicy struct{}

func (rrPolicy) Name() string { return "RR" }

func (rrPolicy) Traits() Traits {
	return Traits{Summary: "ready tasks take turns of one quantum each", Hints: []string{"quantum"}}
}

func (rrPolicy) Fresh() Decider {
	return &rr{tasks: make(map[TaskID]*rrTask)}
}

type rr struct {
	tasks    map[TaskID]*rrTask
	waiting  queue[rrTask]
	turn     *rrTask // whose turn it is; nil while nobody is ready
	since    time.Duration
	verdicts []Verdict
}

// Invariant: a task is linked into waiting while it is ready and it is not its
// turn, and at no other time.
type rrTask struct {
	id      TaskID
	quantum time.Duration
	ready   bool
	link    link[rrTask]
}

func (r *rr) Decide(s Snapshot) Decision {
	r.verdicts = r.verdicts[:0]
	before := r.turn
	for _, id := range s.Gone {
		if t, ok := r.tasks[id]; ok {
			r.setReady(t, false)
			delete(r.tasks, id)
		}
	}
	for i := range s.Changed {
		r.update(&s.Changed[i])
	}
	r.hand(s.Now)

	if (before == nil) != (r.turn == nil) {
		r.judgeAll() // from everybody may to one may, or back
	} else {
		for i := range s.Changed {
			r.judge(r.tasks[s.Changed[i].Task])
		}
		if before != r.turn {
			if r.tasks[before.id] == before {
				r.judge(before)
			}
			r.judge(r.turn)
		}
	}
	return Decision{Verdicts: r.verdicts, Next: r.end()}
}

func (r *rr) update(s *TaskState) {
	t, ok := r.tasks[s.Task]
	if !ok {
		t = &rrTask{id: s.Task}
		t.link.owner = t
		r.tasks[s.Task] = t
	}
	t.quantum = s.Hints.Quantum
	if t.quantum == 0 {
		t.quantum = DefaultQuantum
	}
	r.setReady(t, s.Ready)
}

func (r *rr) setReady(t *rrTask, ready bool) {
	if t.ready == ready {
		return
	}
	t.ready = ready
	switch {
	case ready:
		r.waiting.push(&t.link)
	case r.turn == t:
		r.turn = nil
	default:
		t.link.unlink()
	}
}

// hand passes the turn on if it is free, or used up with somebody waiting.
func (r *rr) hand(now time.Duration) {
	if r.turn != nil {
		if r.waiting.empty() || now < r.since+r.turn.quantum {
			return
		}
		r.waiting.push(&r.turn.link)
	}
	if r.turn = r.waiting.first(); r.turn != nil {
		r.turn.link.unlink()
		r.since = now
	}
}

// end is when the turn is used up, or 0 if nobody waits for that.
func (r *rr) end() time.Duration {
	if r.turn == nil || r.waiting.empty() {
		return 0
	}
	return r.since + r.turn.quantum
}

func (r *rr) judgeAll() {
	for _, t := range r.tasks {
		r.judge(t)
	}
}

func (r *rr) judge(t *rrTask) {
	r.verdicts = append(r.verdicts, Verdict{Task: t.id, Open: r.turn == nil || r.turn == t, Mode: Bounded})
}

// Plan has one round: what is left of the present turn and a quantum for each
// that waits, in order. A task that is alone runs open-ended.
func (r *rr) Plan(now time.Duration) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		if r.turn == nil {
			return
		}
		end := r.end()
		if end == 0 {
			yield(Slot{Task: r.turn.id, Start: now})
			return
		}
		if !yield(Slot{Task: r.turn.id, Start: now, Length: end - now}) {
			return
		}
		for t := range r.waiting.all() {
			if !yield(Slot{Task: t.id, Start: end, Length: t.quantum}) {
				return
			}
			end += t.quantum
		}
	}
}
