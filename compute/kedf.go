package compute

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"
)

// KEDF runs the K tasks of the earliest deadlines among the ready ones of a
// device, together, and stops the others. A deadline is the time at which the
// task turned ready and its hint; who has none comes after all who have. K is
// 1 unless a task asks for more: with K = 1 all deadlines are met if that is
// possible at all (Liu and Layland 1973), a larger K fills devices that one
// task cannot.
//
// The name is XSched's (OSDI 2025), the rule that of Paella (SOSP 2023).
func KEDF() Policy {
	return &policy{
		name: "KEDF",
		traits: Traits{
			Summary: "the K ready tasks of the earliest deadlines run",
			Hints:   []string{"deadline", "k-deadline", "min-share"}, Strict: true,
		},
		fresh: func() Decider { return newKEDF() },
	}
}

// kedf keeps the ready tasks in two heaps: the first K, the latest of them at
// the top, and the rest, the earliest at the top.
type kedf struct {
	tasks    map[TaskID]*kedfTask
	runs     heap[kedfTask]
	waits    heap[kedfTask]
	asked    [MaxK + 1]int // how many tasks ask for a K
	k        int
	crowded  bool // K tasks run: who is idle stays out
	moved    []*kedfTask
	verdicts []Verdict
}

type kedfTask struct {
	id       TaskID
	hint     time.Duration
	k        int
	since    time.Duration
	deadline time.Duration // while ready
	where    *heap[kedfTask]
	index    int
}

func (a *kedfTask) before(b *kedfTask) bool {
	return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.since, b.since), cmp.Compare(a.id, b.id)) < 0
}

func newKEDF() *kedf {
	place := func(t *kedfTask) *int { return &t.index }
	return &kedf{
		tasks: map[TaskID]*kedfTask{}, k: 1,
		runs:  heap[kedfTask]{less: func(a, b *kedfTask) bool { return b.before(a) }, place: place},
		waits: heap[kedfTask]{less: (*kedfTask).before, place: place},
	}
}

func (e *kedf) Decide(s Snapshot) Decision {
	e.verdicts, e.moved = e.verdicts[:0], e.moved[:0]
	for _, id := range s.Gone {
		if t, ok := e.tasks[id]; ok {
			e.put(t, nil)
			e.asked[t.k]--
			delete(e.tasks, id)
		}
	}
	for i := range s.Changed {
		e.update(&s.Changed[i])
	}
	for e.k = MaxK; e.k > 1 && e.asked[e.k] == 0; e.k-- {
	}
	e.balance()

	if crowded := e.runs.len() >= e.k; crowded != e.crowded {
		e.crowded = crowded
		for _, t := range e.tasks {
			e.judge(t)
		}
		return Decision{Verdicts: e.verdicts}
	}
	for i := range s.Changed {
		e.judge(e.tasks[s.Changed[i].Task])
	}
	for _, t := range e.moved {
		e.judge(t)
	}
	return Decision{Verdicts: e.verdicts}
}

func (e *kedf) update(s *TaskState) {
	t, ok := e.tasks[s.Task]
	if !ok {
		t = &kedfTask{id: s.Task}
		e.tasks[s.Task] = t
		e.asked[0]++
	}
	e.asked[t.k]--
	t.k, t.hint, t.since = s.Hints.K, s.Hints.Deadline, s.ReadySince
	e.asked[t.k]++
	e.put(t, nil)
	if !s.Ready {
		return
	}
	t.deadline = math.MaxInt64
	if t.hint != 0 {
		t.deadline = t.since + t.hint
	}
	e.put(t, &e.waits)
}

// put moves a task to a heap, or out of any.
func (e *kedf) put(t *kedfTask, to *heap[kedfTask]) {
	if t.where != nil {
		t.where.remove(t)
	}
	if t.where = to; to != nil {
		to.push(t)
	}
}

// balance fills the K places with the earliest.
func (e *kedf) balance() {
	for e.runs.len() > e.k {
		e.shift(e.runs.first(), &e.waits)
	}
	for e.waits.len() > 0 {
		next, last := e.waits.first(), e.runs.first()
		if e.runs.len() >= e.k {
			if !next.before(last) {
				return
			}
			e.shift(last, &e.waits)
		}
		e.shift(next, &e.runs)
	}
}

func (e *kedf) shift(t *kedfTask, to *heap[kedfTask]) {
	e.put(t, to)
	e.moved = append(e.moved, t)
}

// judge closes who waits, and who is idle while all places are taken.
func (e *kedf) judge(t *kedfTask) {
	keep := 0
	if t.hint != 0 {
		keep = int((MaxDeadline - t.hint) / time.Millisecond) // the shorter its deadline, the sooner
	}
	open := t.where == &e.runs || t.where == nil && !e.crowded
	e.verdicts = append(e.verdicts, Verdict{Task: t.id, Open: open, Mode: Bounded, Keep: keep})
}

// Plan has those that run, by deadline: when they will be done is not known.
func (e *kedf) Plan(now time.Duration) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		runs := slices.Clone(e.runs.list)
		slices.SortFunc(runs, func(a, b *kedfTask) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		for _, t := range runs {
			if !yield(Slot{Task: t.id, Start: now}) {
				return
			}
		}
	}
}
