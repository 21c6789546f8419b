package compute

import (
	"iter"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The orders as one would write them who cared for nothing but being right: one
// list of all tasks that is looked through at every question, and sums that are
// added up when they are needed.

// plainList is what the naive orders have in common.
type plainList struct {
	plainOrder
	all   []*turner // every task
	ready map[*turner]bool
	line  []*turner // those that wait
}

func newPlainList() plainList { return plainList{ready: map[*turner]bool{}} }

func (p *plainList) add(t *turner) { p.all = append(p.all, t) }
func (p *plainList) forget(t *turner) {
	p.all = slices.DeleteFunc(p.all, func(x *turner) bool { return x == t })
}
func (p *plainList) wakes(t *turner, _ time.Duration)        { p.ready[t] = true }
func (p *plainList) sleeps(t *turner, _ time.Duration)       { delete(p.ready, t) }
func (p *plainList) wait(t *turner, _ time.Duration, _ bool) { p.line = append(p.line, t) }
func (p *plainList) empty() bool                             { return len(p.line) == 0 }
func (p *plainList) leave(t *turner) {
	p.line = slices.DeleteFunc(p.line, func(x *turner) bool { return x == t })
}
func (p *plainList) follow(*turner, time.Duration, time.Duration) iter.Seq[*turner] {
	return func(func(*turner) bool) {}
}

// least is the one of the line that comes first.
func (p *plainList) least(before func(a, b *turner) bool) (first *turner) {
	for _, t := range p.line {
		if first == nil || before(t, first) {
			first = t
		}
	}
	return first
}

// plainShares is shares.
type plainShares struct {
	plainList
	of   *shares // for its numbers alone
	low  int64
	woke []*turner
}

func (p *plainShares) add(t *turner) {
	p.plainList.add(t)
	t.clock = p.low
}

func (p *plainShares) update(t *turner, h turnHints) { t.hints = h }

func (p *plainShares) parts(t *turner) (weight, all int64) {
	var sum, rest int64
	for r := range p.ready {
		if w := p.of.weigh(r.hints); w > 0 {
			sum += w
		} else {
			rest++
		}
	}
	left := max(100*percent-sum, percent)
	all = sum
	if rest > 0 {
		all += left
	}
	if weight = p.of.weigh(t.hints); weight == 0 {
		weight = max(left/max(rest, 1), 1)
	}
	return weight, max(all, 1)
}

func (p *plainShares) wakes(t *turner, now time.Duration) {
	p.plainList.wakes(t, now)
	t.clock = max(t.clock, p.low-clockOf(p.of.credit, 1<<10))
	p.woke = append(p.woke, t)
}

func (p *plainShares) sleeps(t *turner, now time.Duration) {
	p.plainList.sleeps(t, now)
	p.woke = slices.DeleteFunc(p.woke, func(x *turner) bool { return x == t })
}

func (p *plainShares) next(time.Duration) *turner { return p.least(byClock) }

func (p *plainShares) turn(t *turner, _ time.Duration) time.Duration {
	weight, all := p.parts(t)
	return p.of.length(t, weight, all, len(p.ready))
}

func (p *plainShares) charge(t *turner, ran time.Duration) {
	weight, _ := p.parts(t)
	t.clock += clockOf(ran, weight)
}

func (p *plainShares) tick(h *turner, _ time.Duration) {
	p.woke = nil
	low := int64(math.MaxInt64)
	for _, t := range append(slices.Clone(p.line), h) {
		if t != nil {
			low = min(low, t.clock)
		}
	}
	if low != math.MaxInt64 {
		p.low = max(p.low, low)
	}
}

func (p *plainShares) wholes() bool { return p.of.long }

func (p *plainShares) overtakes(h *turner) bool {
	weight, _ := p.parts(h)
	return p.of.lead > 0 && slices.ContainsFunc(p.woke, func(t *turner) bool {
		return slices.Contains(p.line, t) && t.clock+clockOf(p.of.lead, weight) < h.clock
	})
}

// plainBudgets is budgets.
type plainBudgets struct {
	plainList
	lost, latest, ticked int64
}

func (p *plainBudgets) parts(t *turner) (part, whole int64) {
	var sum, rest, left int64
	for _, o := range p.all {
		if o.hints.utilization > 0 {
			sum += byUtilization(o.hints)
		} else {
			rest++
		}
	}
	if rest > 0 {
		left = max(100*percent-sum, percent)
	}
	if part = byUtilization(t.hints); part == 0 {
		part = max(left/max(rest, 1), 1)
	}
	return part, max(100*percent, sum+left)
}

func (p *plainBudgets) wakes(t *turner, now time.Duration) {
	p.plainList.wakes(t, now)
	t.clock = max(t.clock, int64(now)-p.lost)
	p.latest = max(p.latest, t.clock)
}

func (p *plainBudgets) tick(_ *turner, now time.Duration) {
	p.ticked = int64(now)
	if ahead := p.latest + p.lost; ahead < int64(now) {
		p.lost += int64(now) - ahead
	}
}

func (p *plainBudgets) forget(t *turner) {
	p.plainList.forget(t)
	p.latest = p.ticked - p.lost
	for _, o := range p.all {
		p.latest = max(p.latest, o.clock)
	}
}

func (p *plainBudgets) capped() bool { return true }

func (p *plainBudgets) turn(t *turner, _ time.Duration) time.Duration {
	part, whole := p.parts(t)
	return roundTurn(t, part, whole, 2)
}

func (p *plainBudgets) charge(t *turner, ran time.Duration) {
	part, whole := p.parts(t)
	t.clock += int64(float64(min(max(ran, -maxCharge), maxCharge)) * float64(whole) / float64(part))
	p.latest = max(p.latest, t.clock)
}

func (p *plainBudgets) next(now time.Duration) *turner {
	if t := p.least(byClock); t != nil && t.clock+p.lost <= int64(now) {
		return t
	}
	return nil
}

func (p *plainBudgets) due(h *turner) time.Duration {
	if t := p.least(byClock); t != nil && h == nil {
		return time.Duration(t.clock + p.lost)
	}
	return 0
}

// plainLevels is mlfq with one list in the order of the whole device.
type plainLevels struct{ plainList }

func (p *plainLevels) first() *turner {
	return p.least(func(a, b *turner) bool { return a.level < b.level })
}

func (p *plainLevels) wakes(t *turner, now time.Duration) {
	for t.slept = min(t.slept+now-t.from, 4*mlfqBoost); t.slept >= mlfqBoost; t.slept -= mlfqBoost {
		t.level, t.used = max(t.level-1, 0), 0
	}
}

func (p *plainLevels) sleeps(t *turner, now time.Duration) { t.from = now }

func (p *plainLevels) wait(t *turner, now time.Duration, woke bool) {
	spent := t.used >= allotment(t.level)
	if spent {
		t.level, t.used = min(t.level+1, mlfqLevels-1), 0
	}
	t.from = now
	if woke || spent {
		p.line = append(p.line, t)
		return
	}
	for _, o := range p.line {
		if o.level == t.level {
			t.from = min(t.from, o.from)
		}
	}
	p.line = slices.Insert(p.line, 0, t)
}

func (p *plainLevels) next(time.Duration) *turner { return p.first() }

func (p *plainLevels) turn(t *turner, _ time.Duration) time.Duration {
	return max(allotment(t.level)-t.used, minTurn, t.hints.quantum)
}

func (p *plainLevels) charge(t *turner, ran time.Duration) { t.used = max(t.used+ran, 0) }

func (p *plainLevels) tick(_ *turner, now time.Duration) {
	for level := 1; level < mlfqLevels; level++ {
		for _, t := range slices.Clone(p.line) {
			if t.level == level && t.from+mlfqBoost <= now {
				p.leave(t)
				t.level, t.used, t.from = level-1, 0, now
				p.line = append(p.line, t)
			}
		}
	}
}

func (p *plainLevels) overtakes(h *turner) bool {
	t := p.first()
	return t != nil && t.level < h.level
}

func (p *plainLevels) due(h *turner) time.Duration {
	due := time.Duration(math.MaxInt64)
	for _, t := range p.line {
		if h != nil && t.level > 0 && t.level <= h.level {
			due = min(due, t.from+mlfqBoost)
		}
	}
	if due == math.MaxInt64 {
		return 0
	}
	return (due + mlfqGrid - 1) / mlfqGrid * mlfqGrid
}

// TestOrdersAgainstPlainOnes plays random histories, overruns among them, to
// every order and to the plain one, and wants the same gates and timers.
func TestOrdersAgainstPlainOnes(t *testing.T) {
	pairs := map[string]func() (fast, plain order){
		"UP": func() (order, order) {
			s := newShares()
			return s, &plainShares{plainList: newPlainList(), of: s}
		},
		"CFS": func() (order, order) {
			s := CFS().Fresh().(*turns).order.(*shares)
			return s, &plainShares{plainList: newPlainList(), of: s}
		},
		"SPUP": func() (order, order) {
			return SPUP().Fresh().(*turns).order, &plainBudgets{plainList: newPlainList()}
		},
		"MLFQ": func() (order, order) { return &mlfq{}, &plainLevels{newPlainList()} },
	}
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				fast, plain := pair()
				a := NewScheduler(&policy{name: name, fresh: func() Decider { return newTurns(fast) }})
				b := NewScheduler(&policy{name: name, fresh: func() Decider { return newTurns(plain) }})
				history := drawn{devices: []Device{"gpu0"}, tasks: 6, steps: 80, overruns: true}.history(t)
				play(a, history, func(now time.Duration, events []Event, out Outcome) {
					want := b.Apply(now, events...)
					if !slices.Equal(out.Grants, want.Grants) || out.Next != want.Next {
						t.Fatalf("at %v after %+v:\n got %+v, next %v\nwant %+v, next %v",
							now, events, out.Grants, out.Next, want.Grants, want.Next)
					}
				})
			})
		})
	}
}

// TestHeap compares with a sorted list.
func TestHeap(t *testing.T) {
	type member struct{ key, index int }
	rapid.Check(t, func(t *rapid.T) {
		h := heap[member]{
			less:  func(a, b *member) bool { return a.key < b.key },
			place: func(m *member) *int { return &m.index },
		}
		var list []*member
		for _, op := range rapid.SliceOfN(rapid.IntRange(0, 999), 1, 100).Draw(t, "operations") {
			switch key := op / 3; {
			case op%3 == 0 || len(list) == 0:
				m := &member{key: key*1000 + len(list)}
				list = append(list, m)
				h.push(m)
			case op%3 == 1:
				i := key % len(list)
				h.remove(list[i])
				if h.has(list[i]) {
					t.Fatal("removed and still there")
				}
				list = slices.Delete(list, i, i+1)
			default:
				m := list[key%len(list)]
				m.key = (m.key + key*7001) % 300_000
				h.fix(m)
			}
			least := slices.MinFunc(append([]*member{{key: math.MaxInt}}, list...), func(a, b *member) int { return a.key - b.key })
			if len(list) == 0 && h.first() != nil || len(list) > 0 && h.first().key != least.key || h.len() != len(list) {
				t.Fatalf("first is %v of %d, want %v of %d", h.first(), h.len(), least, len(list))
			}
		}
	})
}
