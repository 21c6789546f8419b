package compute

import (
	"iter"
	"math/bits"
	"time"
)

// rank is how a strict policy places a task: at now, and if until is not 0 at
// peak from that time on. It may fall back to low whenever it is told of. All are
// from MinPriority to MaxPriority, and low <= now <= peak.
type rank struct {
	low, now, peak int
	until          time.Duration
}

// steady is the rank of a task that always has the same.
func steady(r int) rank { return rank{low: r, now: r, peak: r} }

// classes is the decider of the strict policies: the ready tasks of the highest
// rank run, together, and all tasks below are stopped, ready or not, so that
// none of them can slip in. While nobody is ready every gate is open.
//
// It keeps the tasks in one list a rank, and the ranks in bit sets, so that a
// decision costs what it changes and not what is registered.
type classes struct {
	rank     func(*TaskState, time.Duration) rank
	steady   bool // ranks depend on nothing but hints and what the scheduler is told
	tasks    map[TaskID]*classTask
	classes  [MaxPriority - MinPriority + 1]class
	taken    classSet // classes that a task is in
	peaks    classSet // classes that a task is in or may rise to
	ready    classSet // classes that a ready task is in
	rising   heap[classTask]
	risen    []*classTask // at this decision
	movers   int          // tasks that do not stay in a class
	verdicts []Verdict

	// The highest ready class and the highest peak at the last decision.
	topReady, topPeak int

	// Classes whose tasks without work are still to be told: low <= class < high.
	low, high int
}

type class struct {
	tasks queue[classTask]
	ready queue[classTask] // of these
	peaks int              // tasks whose highest class it is
}

type classTask struct {
	id    TaskID
	class int // now
	peak  int // the highest that it may rise to
	low   int // the lowest that it may fall to
	until time.Duration
	ready bool
	link  link[classTask] // in the tasks of its class
	works link[classTask] // in the ready ones of its class, if it is
	index int             // in rising
}

// moves is 1 for one that does not stay in its class.
func (t *classTask) moves() int {
	if t.peak == none || t.peak == t.low {
		return 0
	}
	return 1
}

// none is below every class: with no ready task all of them are open.
const none = -1

// newSteady is newClasses for ranks that are steady, whether the task has work or not.
func newSteady(of func(*TaskState, time.Duration) rank) *classes {
	h := newClasses(of)
	h.steady = true
	return h
}

func newClasses(of func(*TaskState, time.Duration) rank) *classes {
	return &classes{
		rank: of, tasks: map[TaskID]*classTask{}, topReady: none, topPeak: none,
		rising: heap[classTask]{
			less: func(a, b *classTask) bool {
				if a.until != b.until {
					return a.until < b.until
				}
				return a.id < b.id
			},
			place: func(t *classTask) *int { return &t.index },
		},
	}
}

func (h *classes) Decide(s Snapshot) Decision {
	h.decide(s)
	for c := h.taken.from(h.low); c != none && c < h.high; c = h.taken.from(c + 1) {
		for t := range h.classes[c].tasks.all() {
			if !t.ready {
				h.judge(t)
			}
		}
	}
	h.low, h.high = 0, 0
	return Decision{Verdicts: h.verdicts, Next: h.next()}
}

// DecideFirst has the stop of a class of many cost those with work nothing that is
// done for the others.
func (h *classes) DecideFirst(s Snapshot) (d Decision, more bool) {
	h.decide(s)
	return Decision{Verdicts: h.verdicts, Next: h.next()}, h.low < h.high
}

// decide takes in the news and judges all that they are about, except those without
// work in classes that are opened or closed.
func (h *classes) decide(s Snapshot) {
	h.verdicts = h.verdicts[:0]
	for _, id := range s.Gone {
		if t, ok := h.tasks[id]; ok {
			h.forget(t)
		}
	}
	for i := range s.Changed {
		h.update(&s.Changed[i], s.Now)
	}
	h.rise(s.Now)

	oldReady, oldPeak := h.topReady, h.topPeak
	h.topReady, h.topPeak = h.ready.highest(), h.peaks.highest()

	for i := range s.Changed {
		h.judge(h.tasks[s.Changed[i].Task])
	}
	for _, t := range h.risen {
		h.judge(t)
	}
	// A moved ready class opens or closes the classes between where it was and
	// where it is; a moved peak takes its mode along.
	low, high := min(oldReady, h.topReady), max(oldReady, h.topReady)
	for c := h.ready.from(low); c != none && c < high; c = h.ready.from(c + 1) {
		for t := range h.classes[c].ready.all() {
			h.judge(t)
		}
	}
	h.leave(low, high)
	if oldPeak != h.topPeak {
		h.judgeClass(oldPeak)
		h.judgeClass(h.topPeak)
	}
}

// leave adds to the classes whose tasks without work are still to be told.
func (h *classes) leave(low, high int) {
	if low < high && h.low < h.high {
		low, high = min(low, h.low), max(high, h.high)
	}
	if low < high {
		h.low, h.high = low, high
	}
}

func (h *classes) forget(t *classTask) {
	h.unlink(t)
	h.movers -= t.moves()
	h.setPeak(t, none)
	if h.rising.has(t) {
		h.rising.remove(t)
	}
	delete(h.tasks, t.id)
}

func (h *classes) update(s *TaskState, now time.Duration) {
	t, ok := h.tasks[s.Task]
	if !ok {
		t = &classTask{id: s.Task, class: none, peak: none}
		t.link.owner, t.works.owner = t, t
		h.tasks[s.Task] = t
	}
	r := h.rank(s, now)
	if h.rising.has(t) {
		h.rising.remove(t)
	}
	h.movers -= t.moves()
	h.setPeak(t, r.peak-MinPriority)
	t.low = r.low - MinPriority
	h.movers += t.moves()
	h.move(t, r.now-MinPriority, s.Ready)
	if t.until = r.until; t.until != 0 {
		h.rising.push(t)
	}
}

// move puts a task into a class, ready or not.
func (h *classes) move(t *classTask, class int, ready bool) {
	if t.class != class {
		if t.class != none {
			h.unlink(t)
		}
		t.class = class
		h.classes[class].tasks.push(&t.link)
		h.taken.add(class)
	}
	h.setReady(t, ready)
}

// rise lifts those whose time has come.
func (h *classes) rise(now time.Duration) {
	clear(h.risen)
	h.risen = h.risen[:0]
	for t := h.rising.first(); t != nil && t.until <= now; t = h.rising.first() {
		h.rising.remove(t)
		h.move(t, t.peak, t.ready)
		h.risen = append(h.risen, t)
	}
}

// next is when the first rises; with nobody there to be stopped that can wait.
func (h *classes) next() time.Duration {
	if t := h.rising.first(); t != nil && len(h.tasks) > 1 {
		return t.until
	}
	return 0
}

func (h *classes) unlink(t *classTask) {
	h.setReady(t, false)
	t.link.unlink()
	if h.classes[t.class].tasks.empty() {
		h.taken.remove(t.class)
	}
}

func (h *classes) setPeak(t *classTask, peak int) {
	if t.peak == peak {
		return
	}
	if t.peak != none {
		if c := &h.classes[t.peak]; c.peaks == 1 {
			c.peaks = 0
			h.peaks.remove(t.peak)
		} else {
			c.peaks--
		}
	}
	if t.peak = peak; peak != none {
		h.classes[peak].peaks++
		h.peaks.add(peak)
	}
}

func (h *classes) setReady(t *classTask, ready bool) {
	if t.ready == ready {
		return
	}
	t.ready = ready
	c := &h.classes[t.class]
	if ready {
		c.ready.push(&t.works)
		h.ready.add(t.class)
		return
	}
	if t.works.unlink(); c.ready.empty() {
		h.ready.remove(t.class)
	}
}

func (h *classes) judgeClass(class int) {
	if class == none {
		return
	}
	for t := range h.classes[class].tasks.all() {
		h.judge(t)
	}
}

func (h *classes) judge(t *classTask) { h.verdicts = append(h.verdicts, h.verdict(t)) }

func (h *classes) verdict(t *classTask) Verdict {
	mode := Bounded
	if t.low == h.topPeak {
		mode = Top
	}
	return Verdict{Task: t.id, Open: t.class >= h.topReady, Mode: mode, Keep: t.class + MinPriority}
}

// Plan has the ready tasks of the highest class, until one below may rise above
// them: when they will be done is not known, and so nobody else's start is.
func (h *classes) Plan(now time.Duration) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		if h.topReady == none {
			return
		}
		var length time.Duration
		if next := h.next(); next != 0 {
			length = next - now
		}
		for t := range h.classes[h.topReady].tasks.all() {
			if t.ready && !yield(Slot{Task: t.id, Start: now, Length: length}) {
				return
			}
		}
	}
}

// classSet is a set of classes.
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
