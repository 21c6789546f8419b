package compute

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// shares is the order of the policies that divide the device's time by weights.
// Every task has a clock of virtual time, which goes the faster the less weight
// it has; who is furthest behind is next. So whoever overran a turn, by a kernel
// that could not be stopped, comes the later, and the shares of tasks that have
// work all the time differ from their weights by a turn or an overrun at most,
// however long they run (start-time fair queueing; Goyal et al. 1996, Linux's
// CFS).
//
// Who wakes is placed where the slowest clock stands, or credit before that, and
// not where its own had stopped: it slept on its own account.
type shares struct {
	plainOrder
	calm
	// weigh is a task's weight, up to 1<<31; 0: it has a part of the rest.
	weigh func(turnHints) int64
	// length is a turn's, given the task's part of the weight of all.
	length func(t *turner, weight, all int64, tasks int) time.Duration
	long   bool          // turns are longer while nobody comes and goes, and of whole commands
	credit time.Duration // a sleeper's, in time of weight 1<<10
	// lead is by how much one that wakes has to be behind the holder to end its
	// turn, in time of the holder's weight; 0: it never does.
	lead time.Duration

	waiting heap[turner]
	least   int64   // clocks of ready tasks are not below; never goes back
	sum     int64   // weights of the ready tasks that have one
	rest    int64   // ready tasks without
	tasks   int     // ready tasks
	first   *turner // of those that woke in this decision
}

// Scale of the clocks: a task of weight 1 advances by 1<<clockShift a nanosecond.
// maxCharge keeps the product in 63 bits; nobody's debt matters beyond it.
const (
	clockShift = 20
	maxCharge  = time.Hour
)

// percent is a hundredth of the device as a weight: fine enough to divide it
// among 10,000 tasks.
const percent = 10_000

func byClock(a, b *turner) bool {
	return cmp.Or(cmp.Compare(a.clock, b.clock), cmp.Compare(a.id, b.id)) < 0
}

func clockHeap() heap[turner] {
	return heap[turner]{less: byClock, place: func(t *turner) *int { return &t.index }}
}

// weight of a task at present. What the hinted ones leave is never nothing.
func (s *shares) weight(t *turner) int64 {
	if t.weight > 0 {
		return t.weight
	}
	return max(max(100*percent-s.sum, percent)/max(s.rest, 1), 1)
}

// all is the weight of all ready tasks.
func (s *shares) all() int64 {
	all := s.sum
	if s.rest > 0 {
		all += max(100*percent-s.sum, percent)
	}
	return max(all, 1)
}

// clockOf is by how much a clock advances.
func clockOf(ran time.Duration, weight int64) int64 {
	return int64(min(max(ran, -maxCharge), maxCharge)) << clockShift / weight
}

// add gives no credit for the time before a task came.
func (s *shares) add(t *turner) { t.clock = s.least }

func (s *shares) update(t *turner, h turnHints) {
	t.hints = h
	if t.at != away {
		s.count(t, -1)
	}
	t.weight = s.weigh(h)
	if t.at != away {
		s.count(t, 1)
	}
}

// count takes a task that has work in or out of the sums.
func (s *shares) count(t *turner, n int64) {
	s.tasks += int(n)
	if t.weight > 0 {
		s.sum += n * t.weight
	} else {
		s.rest += n
	}
}

func (s *shares) wakes(t *turner, now time.Duration) {
	s.calm.wakes(now)
	t.clock = max(t.clock, s.least-clockOf(s.credit, 1<<10))
	s.count(t, 1)
	if s.lead > 0 && (s.first == nil || byClock(t, s.first)) {
		s.first = t
	}
}

func (s *shares) sleeps(t *turner, _ time.Duration) {
	s.count(t, -1)
	if s.first == t {
		s.first = nil
	}
}

func (s *shares) wait(t *turner, _ time.Duration, _ bool) { s.waiting.push(t) }
func (s *shares) leave(t *turner)                         { s.waiting.remove(t) }
func (s *shares) next(time.Duration) *turner              { return s.waiting.first() }
func (s *shares) empty() bool                             { return s.waiting.len() == 0 }

func (s *shares) wholes() bool { return s.long }

func (s *shares) hurries() bool { return s.long && s.calm.hurries() }

func (s *shares) turn(t *turner, now time.Duration) time.Duration {
	length := s.length(t, s.weight(t), s.all(), s.tasks)
	if s.long && t.hints.quantum == 0 && s.settled(now) {
		length = max(length, s.calm.turn(t, s.waiting.list, s.weight, s.all()))
	}
	return length
}

func (s *shares) charge(t *turner, ran time.Duration) {
	t.clock += clockOf(ran, s.weight(t))
	if s.waiting.has(t) {
		s.waiting.fix(t)
	}
}

// tick moves the least clock on.
func (s *shares) tick(h *turner, _ time.Duration) {
	s.calm.tick()
	s.first = nil
	first := s.waiting.first()
	switch {
	case h == nil && first == nil:
		return
	case first == nil || h != nil && h.clock < first.clock:
		first = h
	}
	s.least = max(s.least, first.clock)
}

func (s *shares) overtakes(h *turner) bool {
	return s.first != nil && s.first.at == waiting && s.first.clock+clockOf(s.lead, s.weight(h)) < h.clock
}

// follow foresees as far as nobody comes twice.
func (s *shares) follow(h *turner, left, end time.Duration) iter.Seq[*turner] {
	return func(yield func(*turner) bool) {
		list := slices.Clone(s.waiting.list)
		slices.SortFunc(list, func(a, b *turner) int {
			return cmp.Or(cmp.Compare(a.clock, b.clock), cmp.Compare(a.id, b.id))
		})
		again := turner{id: h.id, clock: h.clock + clockOf(left, s.weight(h))}
		for _, t := range list {
			if !byClock(t, &again) || !yield(t) {
				return
			}
			w := s.weight(t)
			after := turner{id: t.id, clock: t.clock + clockOf(t.whole(s.turn(t, end), false), w)}
			if byClock(&after, &again) {
				again = after
			}
		}
	}
}
