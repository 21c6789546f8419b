package compute

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// SPUP is "strict process utilisation partition": PUP whose shares are limits
// as well: a process that has used up its part waits, though the device stands
// idle. So it runs as fast beside the others as without them, which is what
// whoever sells parts of a device wants. Shares are parts of the whole device,
// whoever is ready; processes without one divide the rest, which is 1 % at least.
//
// XSched has the name, and no policy behind it.
func SPUP() Policy {
	return &policy{
		name: "SPUP",
		traits: Traits{
			Summary: "as PUP, and no process gets more than its share though the device is idle",
			Hints:   []string{"utilization", "quantum"}, ByProcess: true,
		},
		fresh: func() Decider { return newTurns(&budgets{waiting: clockHeap()}) },
	}
}

// budgets is the order in which tasks may have a turn again: each time one has
// run, that is put off by what it ran over its share. A task's clock is real
// time here. (Virtual Clock; Zhang 1990.)
//
// The time in which the device is of no use, as it turns from one task to another, is
// nobody's. Where the tasks together may use all of it, all fall behind by that; it is
// forgiven when none of them is up to date any more, or one could take it up later.
type budgets struct {
	plainOrder
	calm
	waiting heap[turner]
	tasks   []*turner
	sum     int64         // shares of all tasks that have one
	rest    int64         // tasks without
	lost    time.Duration // by what the clocks' time is behind the real one
	latest  int64         // clock
	present int64         // the clocks' time
}

// parts are a task's part and the whole.
func (b *budgets) parts(t *turner) (part, whole int64) {
	left := int64(0)
	if b.rest > 0 {
		left = max(100*percent-b.sum, percent)
	}
	if part = t.weight; part == 0 {
		part = max(left/max(b.rest, 1), 1)
	}
	return part, max(100*percent, b.sum+left)
}

func (b *budgets) add(t *turner) {
	b.rest++
	b.tasks = append(b.tasks, t)
}

// forget has a task that was far ahead keep no time from being forgiven once it is gone.
func (b *budgets) forget(t *turner) {
	b.discount(t)
	b.tasks = slices.DeleteFunc(b.tasks, func(x *turner) bool { return x == t })
	b.latest = b.present
	for _, other := range b.tasks {
		b.latest = max(b.latest, other.clock)
	}
}

// discount takes a task out of the sums.
func (b *budgets) discount(t *turner) {
	b.sum -= t.weight
	if t.weight == 0 {
		b.rest--
	}
}

func (b *budgets) update(t *turner, h turnHints) {
	b.discount(t)
	t.hints, t.weight = h, byUtilization(h)
	b.sum += t.weight
	if t.weight == 0 {
		b.rest++
	}
}

func (b *budgets) wakes(t *turner, now time.Duration) {
	b.calm.wakes(now)
	b.advance(t, max(t.clock, int64(now-b.lost)))
}

// advance sets a clock.
func (b *budgets) advance(t *turner, clock int64) {
	t.clock = clock
	b.latest = max(b.latest, clock)
}

func (b *budgets) tick(_ *turner, now time.Duration) {
	b.calm.tick()
	b.lost = max(b.lost, now-time.Duration(b.latest))
	b.present = int64(now - b.lost)
}

func (b *budgets) wait(t *turner, _ time.Duration, _ bool) { b.waiting.push(t) }
func (b *budgets) leave(t *turner)                         { b.waiting.remove(t) }
func (b *budgets) empty() bool                             { return b.waiting.len() == 0 }
func (b *budgets) hurries() bool                           { return b.calm.hurries() }
func (b *budgets) capped() bool                            { return true }

func (b *budgets) next(now time.Duration) *turner {
	if t := b.waiting.first(); t != nil && t.clock <= int64(now-b.lost) {
		return t
	}
	return nil
}

func (b *budgets) due(h *turner) time.Duration {
	if t := b.waiting.first(); t != nil && h == nil {
		return time.Duration(t.clock) + b.lost
	}
	return 0
}

func (b *budgets) turn(t *turner, now time.Duration) time.Duration {
	part, whole := b.parts(t)
	length := roundTurn(t, part, whole, 2)
	if t.hints.quantum == 0 && b.settled(now) {
		length = max(length, b.calm.turn(t, b.waiting.list, b.part, whole))
	}
	return length
}

func (b *budgets) part(t *turner) int64 {
	part, _ := b.parts(t)
	return part
}

func (b *budgets) charge(t *turner, ran time.Duration) {
	b.advance(t, t.clock+b.cost(t, ran))
	if b.waiting.has(t) {
		b.waiting.fix(t)
	}
}

// cost is by how much a task is put off for what it ran.
func (b *budgets) cost(t *turner, ran time.Duration) int64 {
	part, whole := b.parts(t)
	return int64(float64(min(max(ran, -maxCharge), maxCharge)) * float64(whole) / float64(part))
}

// follow foresees as far as nobody comes twice and the device does not stand idle.
func (b *budgets) follow(h *turner, left, end time.Duration) iter.Seq[*turner] {
	return func(yield func(*turner) bool) {
		list := slices.Clone(b.waiting.list)
		slices.SortFunc(list, func(a, b *turner) int {
			return cmp.Or(cmp.Compare(a.clock, b.clock), cmp.Compare(a.id, b.id))
		})
		again := turner{id: h.id, clock: h.clock + b.cost(h, left)}
		for _, t := range list {
			if !byClock(t, &again) || t.clock > int64(end-b.lost) || !yield(t) {
				return
			}
			length := b.turn(t, end)
			end += length
			after := turner{id: t.id, clock: t.clock + b.cost(t, length)}
			if byClock(&after, &again) {
				again = after
			}
		}
	}
}
