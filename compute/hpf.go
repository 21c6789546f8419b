package compute

import (
	"iter"
	"math/bits"
	"time"
)

// HPF is "highest priority first": of a device's ready tasks those of the
// highest priority run, together, and all tasks below are stopped, ready or
// not, so that none of them can slip in. While nobody is ready every gate is
// open. It starves whom it outranks; that is what strict priority means.
//
// The name and the rule are XSched's (OSDI 2025).
func HPF() Policy { return hpfPolicy{} }

type hpfPolicy struct{}

func (hpfPolicy) Name() string { return "HPF" }

func (hpfPolicy) Traits() Traits {
	return Traits{Summary: "the ready tasks of the highest priority run, all below are stopped", Hints: []string{"priority"}, Strict: true}
}

func (hpfPolicy) Fresh() Decider {
	return &hpf{tasks: make(map[TaskID]*hpfTask), topReady: none, topPresent: none}
}

// none is below every class: with no ready task all of them are open.
const none = -1

// hpf keeps the tasks in one list a priority, and the priorities in bit sets,
// so that a decision costs what it changes and not what is registered.
type hpf struct {
	tasks    map[TaskID]*hpfTask
	classes  [MaxPriority - MinPriority + 1]hpfClass
	present  classSet // classes that have a task
	ready    classSet // classes that have a ready task
	verdicts []Verdict

	// The highest ready and the highest registered class at the last decision.
	topReady, topPresent int
}

type hpfClass struct {
	tasks queue[hpfTask]
	ready int
}

type hpfTask struct {
	id    TaskID
	class int
	ready bool
	link  link[hpfTask] // in the tasks of its class
}

func (h *hpf) Decide(s Snapshot) Decision {
	h.verdicts = h.verdicts[:0]
	for _, id := range s.Gone {
		if t, ok := h.tasks[id]; ok {
			h.unlink(t)
			delete(h.tasks, id)
		}
	}
	for i := range s.Changed {
		h.update(&s.Changed[i])
	}

	oldReady, oldPresent := h.topReady, h.topPresent
	h.topReady, h.topPresent = h.ready.highest(), h.present.highest()

	for i := range s.Changed {
		h.judge(h.tasks[s.Changed[i].Task])
	}
	// A moved ready class opens or closes the classes between where it was and
	// where it is; a moved top takes its mode along.
	low, high := min(oldReady, h.topReady), max(oldReady, h.topReady)
	for c := h.present.from(low); c != none && c < high; c = h.present.from(c + 1) {
		h.judgeClass(c)
	}
	if oldPresent != h.topPresent {
		h.judgeClass(oldPresent)
		h.judgeClass(h.topPresent)
	}
	return Decision{Verdicts: h.verdicts}
}

func (h *hpf) update(s *TaskState) {
	class := s.Hints.Priority - MinPriority
	t, ok := h.tasks[s.Task]
	if !ok {
		t = &hpfTask{id: s.Task}
		t.link.owner = t
		h.tasks[s.Task] = t
	} else if t.class == class {
		h.setReady(t, s.Ready)
		return
	} else {
		h.unlink(t)
	}
	t.class = class
	h.classes[class].tasks.push(&t.link)
	h.present.add(class)
	h.setReady(t, s.Ready)
}

func (h *hpf) unlink(t *hpfTask) {
	h.setReady(t, false)
	t.link.unlink()
	if h.classes[t.class].tasks.empty() {
		h.present.remove(t.class)
	}
}

func (h *hpf) setReady(t *hpfTask, ready bool) {
	if t.ready == ready {
		return
	}
	t.ready = ready
	c := &h.classes[t.class]
	if ready {
		c.ready++
		h.ready.add(t.class)
		return
	}
	if c.ready--; c.ready == 0 {
		h.ready.remove(t.class)
	}
}

func (h *hpf) judgeClass(class int) {
	if class == none {
		return
	}
	for t := range h.classes[class].tasks.all() {
		h.judge(t)
	}
}

func (h *hpf) judge(t *hpfTask) {
	mode := Bounded
	if t.class == h.topPresent {
		mode = Top
	}
	h.verdicts = append(h.verdicts, Verdict{
		Task: t.id,
		Open: t.class >= h.topReady,
		Mode: mode,
		Keep: t.class + MinPriority,
	})
}

// Plan has the ready tasks of the highest class, open-ended: when they will
// be done is not known, and so nobody else's start is.
func (h *hpf) Plan(now time.Duration) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		if h.topReady == none {
			return
		}
		for t := range h.classes[h.topReady].tasks.all() {
			if t.ready && !yield(Slot{Task: t.id, Start: now}) {
				return
			}
		}
	}
}

// classSet is a set of priority classes.
type classSet [(MaxPriority-MinPriority)/64 + 1]uint64

func (s *classSet) add(c int)    { s[c/64] |= 1 << (c % 64) }
func (s *classSet) remove(c int) { s[c/64] &^= 1 << (c % 64) }

func (s *classSet) highest() int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] != 0 {
			return i*64 + bits.Len64(s[i]) - 1
		}
	}
	return none
}

// from returns the lowest member that is at least c.
func (s *classSet) from(c int) int {
	c = max(c, 0)
	for i := c / 64; i < len(s); i++ {
		w := s[i]
		if i == c/64 {
			w &= ^uint64(0) << (c % 64)
		}
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return none
}
